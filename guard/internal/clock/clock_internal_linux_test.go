package clock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A suspension is found when the wall clock has moved against the monotonic one, and not forgotten. What two
// readings say is too short when the process was delayed between them.
func TestSuspension_TheLongestReadingCounts(t *testing.T) {
	const (
		moved = int64(time.Millisecond)
		hour  = int64(time.Hour)
	)
	var boot, mono, reads int64
	fails := map[uintptr]bool{}
	s := suspension{read: func(id uintptr) (int64, bool) {
		reads++
		if id == clockBoottime {
			return boot, !fails[id]
		}
		return mono, !fails[id]
	}}
	for _, c := range []struct {
		what              string
		drift, boot, mono int64
		fails             uintptr
		want, reads       int64
	}{
		{"nothing has moved", moved - 1, hour, 0, 0, 0, 0},
		{"a clock that cannot be read", 5 * moved, hour, 0, clockBoottime, 0, 2},
		{"nor the other one", 5 * moved, hour, 0, clockMonotonic, 0, 2},
		{"it is read again", 5 * moved, 3 * hour, hour, 0, 2 * hour, 2},
		{"once", 5 * moved, 9 * hour, hour, 0, 2 * hour, 0},
		{"a wall clock that is set a little", 6*moved - 1, 9 * hour, hour, 0, 2 * hour, 0},
		{"back", 4*moved + 1, 9 * hour, hour, 0, 2 * hour, 0},
		{"a reading that was delayed", 6 * moved, 3 * hour, 2 * hour, 0, 2 * hour, 2},
		{"a failure later", 7 * moved, 9 * hour, hour, clockMonotonic, 2 * hour, 2},
		{"the next suspension", 5 * moved, 6 * hour, 2 * hour, 0, 4 * hour, 2},
	} {
		boot, mono, reads, fails[clockBoottime], fails[clockMonotonic] = c.boot, c.mono, 0, false, false
		fails[c.fails] = true
		assert.Equal(t, time.Duration(c.want), s.length(c.drift), c.what)
		assert.Equal(t, c.reads, reads, c.what)
	}
}

// Another goroutine has found a longer suspension meanwhile.
func TestSuspension_OfTwoReadingsTheLongerCounts(t *testing.T) {
	s := &suspension{}
	s.read = func(id uintptr) (int64, bool) {
		s.longest.Store(int64(time.Hour))
		return map[uintptr]int64{clockBoottime: int64(time.Minute)}[id], true
	}
	assert.Equal(t, time.Hour, s.length(int64(time.Second)))
	s.longest.Store(0)
	s.read = func(id uintptr) (int64, bool) {
		s.longest.Store(int64(time.Second))
		return map[uintptr]int64{clockBoottime: int64(time.Minute)}[id], true
	}
	assert.Equal(t, time.Minute, s.length(int64(time.Minute)))
}

// A suspension counts, and is not asked for while the clocks go on together.
func TestSuspension_IsTimeThatPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		machine.read = func(uintptr) (int64, bool) { reads++; return 0, true }
		before := machine.longest.Load()
		defer func() { machine.read = readClock; machine.longest.Store(before) }()
		begun := Now()
		machine.longest.Add(int64(time.Hour))
		reads = 0
		time.Sleep(time.Minute)
		assert.Equal(t, time.Hour+time.Minute, Now().Sub(begun))
		assert.Zero(t, reads)
	})
}

func TestInstant_InABubble(t *testing.T) {
	assert.False(t, Now().InBubble())
	assert.False(t, epoch.InBubble())
	synctest.Test(t, func(t *testing.T) {
		now := Now()
		assert.True(t, now.InBubble())
		assert.Equal(t, time.Since(start)+time.Duration(machine.longest.Load()), now.Sub(epoch))
	})
}

func TestSuspension_ClocksOfTheMachine(t *testing.T) {
	mono, ok := readClock(clockMonotonic)
	require.True(t, ok)
	boot, ok := readClock(clockBoottime)
	require.True(t, ok)
	assert.Positive(t, mono)
	assert.GreaterOrEqual(t, boot, mono, "it counts suspensions")
	_, ok = readClock(1 << 20)
	assert.False(t, ok)
}

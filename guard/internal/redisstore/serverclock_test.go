package redisstore

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// replies are those of a server: what its clock showed, and when the command was sent and the reply came. Times are in ms.
type replies [][3]int64

const started = 1_700_000_000_000 // of the server's clock

func (rs replies) observed() *serverClock {
	c := &serverClock{}
	for _, r := range rs {
		c.observe(shows(r[0]), nil, at(r[1]), at(r[2]))
	}
	return c
}

func at(ms int64) instant     { return instant(1 << 60).Add(time.Duration(ms) * time.Millisecond) }
func shows(ms int64) uint64   { return uint64(started+ms) * 1000 }
func micro(us uint64) float64 { return float64(us) - float64(shows(0)) }

func TestServerClock_HighWater(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replies replies
		want    int64 // the high water (ms); 0: none
	}{
		"one reply":                           {replies: replies{{5, 0, 10}}},
		"a clock that goes":                   {replies: replies{{5, 0, 10}, {1005, 1000, 1010}}},
		"a clock that is slow by little":      {replies: replies{{5, 0, 10}, {9995, 10000, 10010}}},
		"set back":                            {replies: replies{{5, 0, 10}, {905, 1000, 1010}}, want: 5 + 1010 + 101},
		"set back by less than a round trip":  {replies: replies{{5, 0, 10}, {999, 1000, 1010}}},
		"set back, seen by a faster reply":    {replies: replies{{5, 0, 6}, {970, 900, 1000}, {985, 1000, 1001}}, want: 970 + 101 + 10},
		"a slow reply, then set back by less": {replies: replies{{5, 0, 6}, {150, 50, 250}, {900, 1000, 1010}}, want: 150 + 960 + 96},
		"calls that overlap":                  {replies: replies{{105, 100, 110}, {40, 0, 120}}},
		"calls that overlap, and it is shown": {replies: replies{{105, 100, 110}, {-6, 0, 120}}, want: 105 + 20 + 2},
		"calls that overlap, and it is slow":  {replies: replies{{105, 100, 110}, {-5, 0, 120}}},
		"overtaken by a later reply":          {replies: replies{{105, 100, 110}, {50, 40, 130}, {910, 1000, 1010}}, want: 105 + 910 + 91},
		"set forward, and back":               {replies: replies{{5, 0, 10}, {5005, 1000, 1010}, {2005, 2000, 2010}}, want: 5005 + 1010 + 101},
		"set back twice":                      {replies: replies{{5, 0, 10}, {-5000, 1000, 1010}, {-9000, 2000, 2010}}, want: 5 + 1010 + 101},
		"it stays":                            {replies: replies{{5, 0, 10}, {-5000, 1000, 1010}, {-3000, 3000, 3010}}, want: 5 + 1010 + 101},
	} {
		high := c.replies.observed().high
		if c.want == 0 {
			assert.Zero(t, high, name)
			continue
		}
		assert.InDelta(t, c.want*1000, micro(high), 1000, name)
	}
}

// The clock may be slewed forward by as much as chrony does until it is set back: no fence of before is above the high water.
func TestServerClock_HighWaterIsAboveAClockThatWasSlewedForward(t *testing.T) {
	t.Parallel()
	c := replies{{5, 0, 10}, {2000, 10_000, 10_010}}.observed()
	assert.Greater(t, micro(c.high), 10_000*1000*1.0833)
}

func TestServerClock_AboveUntilTheClockHasPassed(t *testing.T) {
	t.Parallel()
	c := replies{{5, 0, 10}, {905, 1000, 1010}}.observed()
	high := c.high
	assert.Equal(t, high, c.above(at(1011)))
	c.observe(shows(1100), nil, at(1200), at(1210))
	assert.Equal(t, high, c.above(at(1211)))
	c.observe(shows(1200), nil, at(1300), at(1310))
	assert.Zero(t, c.above(at(1311)))
	assert.Equal(t, high, c.high)
}

func TestServerClock_BoundsAreExact(t *testing.T) {
	t.Parallel()
	r := reading{shows(0), at(1000)}
	assert.Equal(t, shows(1100)+1, r.most(at(2000)))
	assert.Equal(t, shows(-900)+1, r.most(at(0)), "before the reading")

	unknown := &serverClock{}
	unknown.follow(5)
	assert.Equal(t, uint64(5), unknown.above(at(0)), "without a reply, only the high water is known")
	assert.Equal(t, uint64(5), unknown.highest(at(0)))

	c := replies{{5, 0, 10}, {5, 3, 12}}.observed() // of two replies with one time, the command that was sent later says more
	assert.Equal(t, shows(16)+1, c.highest(at(13)))
	c.follow(shows(5))
	assert.Equal(t, shows(5), c.above(at(10)), "the next fence must be above the high water")
	c.follow(shows(5000))
	assert.Equal(t, shows(5000), c.highest(at(13)))
}

// A slot of a cluster has another node: its fences are above those of the node before, until its clock has passed them.
func TestServerClock_ASlotThatMovesFollows(t *testing.T) {
	t.Parallel()
	s := &Store{conn: &ackedConn{}, now: func() instant { return at(1000) }}
	of := func(node string, slot uint16) *serverClock { return s.clocks.of(node, slot, s.now()) }
	of("a", 1).observe(shows(990), nil, at(980), at(1000))
	of("b", 2).observe(shows(500), nil, at(980), at(1000))
	assert.Zero(t, of("b", 2).above(at(1000)))
	moved := of("b", 1)
	assert.InDelta(t, 1012*1000, micro(moved.above(at(1000))), 1)
	moved.observe(shows(600), nil, at(1080), at(1090))
	assert.InDelta(t, 1012*1000, micro(moved.above(at(1100))), 1, "it is behind")
	assert.Same(t, moved, of("b", 1))
	moved.follow(1)
	assert.InDelta(t, 1012*1000, micro(moved.above(at(1100))), 1, "it does not fall")
	moved.observe(shows(1020), nil, at(1500), at(1510))
	assert.Zero(t, moved.above(at(1510)))

	fresh := of("c", 1)
	assert.Equal(t, fresh.high, fresh.highest(at(1510)), "there was no reply of it")
	assert.Equal(t, moved.highest(at(1000)), fresh.above(at(1000)))
	assert.NotSame(t, s.clock(t.Context(), "k", "x"), s.clock(t.Context(), "k", "y"), "two nodes")
	s.conn = &fixedConn{}
	assert.Same(t, s.clock(t.Context(), "k", "x"), s.clock(t.Context(), "other", "y"), "one server has all keys")
}

func TestServerClock_MayBeBelowAFence(t *testing.T) {
	t.Parallel()
	c := &serverClock{}
	assert.True(t, c.mayBeBelow(shows(0), at(0)), "there was no reply")
	c.observe(shows(5), nil, at(0), at(10))
	assert.False(t, c.mayBeBelow(shows(5), at(10)))
	assert.False(t, c.mayBeBelow(0, at(10)), "it has none")
	assert.True(t, c.mayBeBelow(shows(8), at(10)))
	assert.False(t, c.mayBeBelow(shows(8), at(20)))
	assert.Equal(t, shows(5)+9_990_000, c.reached.least(at(10_010)))
	assert.Zero(t, c.observe(0, errors.New("lost"), at(11), at(12)))
	c.observe(0, nil, at(15), at(18)) // the reply had no time
	assert.True(t, c.mayBeBelow(shows(5), at(20)), "another server may answer")
	c.observe(shows(25), nil, at(20), at(30))
	assert.False(t, c.mayBeBelow(shows(5), at(30)))
}

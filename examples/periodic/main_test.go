package main

import (
	"bytes"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) {
	if isWorker() {
		os.Exit(work())
	}
	os.Exit(redistest.Run(m))
}

// tries is how often a busy machine may be too late for a test of what happens in time.
const tries = 4

// scaled is the plan of three processes whose ticks are up to 0.9 s apart, with jobs of up to
// 2 s and a tick each 3 s: all divided by scale.
func scaled(t *testing.T, scale time.Duration) plan {
	t.Helper()
	return plan{
		Redis: redistest.Shared(t).URL(), TTL: time.Second, Tick: 3 * time.Second / scale,
		Apart: 450 * time.Millisecond / scale, MinHold: 1950 * time.Millisecond / scale,
		ShortJob: time.Millisecond, LongJob: 2 * time.Second / scale,
	}
}

// slack is by how much a run may be late and no tick be run twice, or by nobody.
func (p plan) slack() time.Duration { return min(p.MinHold-2*p.Apart, p.Tick-p.MinHold) }

// REDLATCH_PERIODIC_TICKS asks for the long form, in which nothing is scaled.
func TestPeriodic_EachTickRunsOnce(t *testing.T) {
	t.Parallel()
	p, ticks := scaled(t, 5), 10
	if n, _ := strconv.Atoi(os.Getenv("REDLATCH_PERIODIC_TICKS")); n > 0 {
		p, ticks = scaled(t, 1), n
	}
	for range tries {
		var out bytes.Buffer
		r, err := show(t.Context(), p, ticks, false, &out)
		t.Logf("%v late at most\n%s", r.late, out.String())
		assert.Zero(t, r.runs, "runs overlap")
		assert.Zero(t, r.leaders, "terms overlap")
		if r.once < ticks && r.late > p.slack() {
			continue // the machine was busy
		}
		require.NoError(t, err)
		assert.Equal(t, ticks, r.once)
		return
	}
	t.Fatal("runs were late each time")
}

// Without this the test above would prove nothing.
func TestPeriodic_WithoutMinHoldTicksRunTwice(t *testing.T) {
	t.Parallel()
	p := scaled(t, 5)
	p.MinHold = 0
	var out bytes.Buffer
	r, err := show(t.Context(), p, 10, false, &out)
	require.ErrorIs(t, err, errWrong, out.String())
	assert.Positive(t, r.twice)
	assert.Zero(t, r.runs, "the lock excludes, but does not remember")
	assert.Contains(t, out.String(), " AND process ")
}

// A process dies halfway. Its lock and its term end with the ttl.
func TestPeriodic_OthersGoOnAfterAProcessWasKilled(t *testing.T) {
	t.Parallel()
	p, ticks := scaled(t, 5), 8
	for range tries {
		var out bytes.Buffer
		r, err := show(t.Context(), p, ticks, true, &out)
		t.Logf("%v late at most\n%s", r.late, out.String())
		assert.Zero(t, r.runs)
		assert.Zero(t, r.leaders)
		if r.late > p.slack() {
			continue
		}
		require.NoError(t, err)
		assert.LessOrEqual(t, r.gaps, 1+int(p.TTL/p.Tick))
		assert.NotEmpty(t, r.ticks[ticks-1])
		assert.GreaterOrEqual(t, len(r.terms), 2)
		assert.Contains(t, out.String(), "then it was KILLED")
		return
	}
	t.Fatal("runs were late each time")
}

func TestPeriodic_JudgeSeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	at := func(ms int, process int, what string, n int) event {
		e := event{At: begin.Add(time.Duration(ms) * time.Millisecond), Process: process, What: what}
		if what == termBegan || what == termEnded {
			e.Fence = uint64(n) //nolint:gosec // small
		} else {
			e.Tick = n
		}
		return e
	}
	for name, row := range map[string]struct {
		log                              []event
		once, twice, gaps, runs, leaders int
	}{
		"once each": {
			log: []event{
				at(0, 0, termBegan, 1), at(0, 0, jobBegan, 0), at(10, 0, jobEnded, 0),
				at(20, 1, jobBegan, 1), at(30, 1, jobEnded, 1), at(40, 0, termEnded, 1), at(41, 1, termBegan, 2),
			},
			once: 2,
		},
		"one after the other": {
			log:  []event{at(0, 0, jobBegan, 0), at(1, 0, jobEnded, 0), at(2, 1, jobBegan, 0), at(3, 1, jobEnded, 0)},
			gaps: 1, twice: 1,
		},
		"at once": {
			log:  []event{at(0, 0, jobBegan, 0), at(1, 1, jobBegan, 1), at(2, 0, jobEnded, 0), at(3, 1, jobEnded, 1)},
			once: 2, runs: 1,
		},
		"beside one that never said that it ended": {
			log:  []event{at(0, 0, jobBegan, 0), at(1, 1, jobBegan, 1), at(3, 1, jobEnded, 1)},
			once: 2, runs: 1,
		},
		"after a kill": {
			log: []event{
				at(0, 0, jobBegan, 0), at(0, 0, termBegan, 1), at(1, 0, killed, 0),
				at(2, 1, jobBegan, 1), at(2, 1, termBegan, 2), at(3, 1, jobEnded, 1),
			},
			once: 2,
		},
		"two leaders": {
			log:  []event{at(0, 0, termBegan, 1), at(5, 1, termBegan, 2), at(6, 0, termEnded, 1)},
			gaps: 2, leaders: 1,
		},
		"a fence goes back": {
			log:  []event{at(0, 0, termBegan, 2), at(5, 0, termEnded, 2), at(6, 1, termBegan, 1)},
			gaps: 2, leaders: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := judge(plan{Begin: begin}, 2, row.log)
			assert.Equal(t, []int{row.once, row.twice, row.gaps, row.runs, row.leaders}, []int{r.once, r.twice, r.gaps, r.runs, r.leaders})
			assert.Equal(t, row.twice+row.runs+row.leaders > 0, r.wrong())
		})
	}
}

package task_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/internal/task"
)

// inTurn does n pieces of work that take so long each, and says when each began and when all
// were done.
func inTurn(t *testing.T, g *task.Group, n int, patience, each time.Duration) (begun []time.Duration, all time.Duration) {
	t.Helper()
	begun = make([]time.Duration, n)
	var mu sync.Mutex
	times := make([]int, n)
	start := time.Now()
	g.InTurn(n, patience, func(i int) {
		mu.Lock()
		begun[i] = time.Since(start)
		times[i]++
		mu.Unlock()
		time.Sleep(each)
	})
	for i := range n {
		assert.Equal(t, 1, times[i], "piece %d", i)
	}
	return begun, time.Since(start)
}

func TestInTurn(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		n              int
		patience, each time.Duration
		begun          []time.Duration
		all            time.Duration
	}{
		"nothing":                   {0, 50 * ms, ms, []time.Duration{}, 0},
		"one":                       {1, 0, ms, []time.Duration{0}, ms},
		"the rest goes out beside":  {4, 50 * ms, 30 * ms, []time.Duration{0, 30 * ms, 50 * ms, 50 * ms}, 80 * ms},
		"a slow one delays none":    {2, 50 * ms, time.Second, []time.Duration{0, 50 * ms}, 1050 * ms},
		"without patience, at once": {3, 0, 10 * ms, []time.Duration{0, 0, 0}, 10 * ms},
		"it waits for what began":   {2, 0, time.Minute, []time.Duration{0, 0}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := task.NewGroup()
				begun, all := inTurn(t, g, test.n, test.patience, test.each)
				assert.Equal(t, test.begun, begun)
				assert.Equal(t, test.all, all)
				<-g.Close()
			})
		})
	}
}

// A closed group starts nothing: the caller does all of it itself.
func TestInTurn_OfAClosedGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := task.NewGroup()
		<-g.Close()
		for _, patience := range []time.Duration{0, 5 * time.Millisecond} {
			_, all := inTurn(t, g, 3, patience, 10*time.Millisecond)
			assert.Equal(t, 30*time.Millisecond, all)
		}
	})
}

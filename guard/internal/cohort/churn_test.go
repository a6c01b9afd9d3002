package cohort_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// machineIsBusy is how late timers are where commands go unanswered for a second, which is when
// they are given up, and that is nobody's fault.
const machineIsBusy = 250 * time.Millisecond

// longest keeps the longest of some times.
type longest struct{ atomic.Int64 }

func (l *longest) since(at time.Time) {
	d := int64(time.Since(at))
	for old := l.Load(); d > old && !l.CompareAndSwap(old, d); old = l.Load() {
	}
}

// Two thousand callers of eight Guards come, wait, give up, time out, nest and work on
// twenty keys. One is in at a time, fences grow, whoever waits on gets in, and nothing is
// left.
func TestChurn_ThousandsComeAndGo(t *testing.T) {
	const callers, keys, runtime = 2000, 20, 5 * time.Second
	s := testenv.NewRedis(t)
	windows := []time.Duration{0, time.Millisecond, guard.DefaultHandoverWindow, 50 * time.Millisecond}
	seen := &guardtest.Recorder{}
	var gs []*guard.Guard
	for i := range 8 {
		gs = append(gs, s.Guard(guard.HandoverWindow(windows[i%4]), guard.Observe(seen)))
	}
	var wait longest
	var entered, gaveUp atomic.Int64
	late := testenv.Lateness()
	over, end := context.WithTimeout(t.Context(), runtime)
	defer end()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(i))) //nolint:gosec // a seed is the point
			for over.Err() == nil {
				key, at := fmt.Sprint("k", rnd.IntN(keys)), time.Now()
				err := s.ComeAndGo(rnd, gs[i%len(gs)], key, &entered)
				wait.since(at)
				if err != nil {
					assert.True(t, errors.Is(err, guard.ErrBusy) || errors.Is(err, context.Canceled) ||
						errors.Is(err, context.DeadlineExceeded), "%v", err)
					gaveUp.Add(1)
				}
			}
		})
	}
	s.AwaitAll(&wg, func() int { return int(entered.Load() + gaveUp.Load()) })
	worst := late()
	t.Logf("%d came in, %d gave up; the longest call took %v, timers were up to %v late",
		entered.Load(), gaveUp.Load(), time.Duration(wait.Load()), worst)
	assert.Positive(t, entered.Load())
	assert.Positive(t, gaveUp.Load())
	if worst < machineIsBusy {
		assert.Less(t, time.Duration(wait.Load()), testenv.TooLong, "somebody was forgotten for long")
		assert.Empty(t, seen.Events(guard.StoreFailure), "nothing went unanswered")
	}
	assert.Empty(t, seen.Events(guard.Loss))
	s.LeftNothing(gs, keys)
}

// The connections on which messages come are killed again and again, under load. Grants
// are lost; whoever waited asks when it is connected again, and nobody waits for longer
// than a ttl.
func TestChurn_SubscriptionsAreKilledUnderLoad(t *testing.T) {
	const keys, ttl, runtime = 4, 5 * time.Second, 4 * time.Second
	s := testenv.NewRedis(t)
	var gs []*guard.Guard
	for range 4 {
		gs = append(gs, s.Guard(guard.TTL(ttl), guard.HandoverWindow(0)))
	}
	var wait longest
	late := testenv.Lateness()
	over, end := context.WithTimeout(t.Context(), runtime)
	defer end()
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for over.Err() == nil {
				key, at := fmt.Sprint("k", i%keys), time.Now()
				assert.NoError(t, gs[i/8].WithLock(t.Context(), guard.Key(key), func(ctx context.Context) error {
					defer s.Book.Enter(ctx, key, fmt.Sprint("caller ", i))()
					wait.since(at)
					time.Sleep(time.Millisecond) // the work
					return nil
				}))
			}
		})
	}
	killed := int64(0)
	pulse := time.NewTicker(50 * time.Millisecond)
	defer pulse.Stop()
	for ; over.Err() == nil; <-pulse.C {
		n, err := s.Admin.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Result()
		require.NoError(t, err)
		killed += n
	}
	s.AwaitAll(&wg, func() int { return len(s.Book.Entered()) })
	worst := late()
	t.Logf("%d killed, %d got in, the longest wait took %v, timers were up to %v late",
		killed, len(s.Book.Entered()), time.Duration(wait.Load()), worst)
	assert.Positive(t, killed)
	assert.Less(t, time.Duration(wait.Load()), ttl+10*worst)
	s.LeftNothing(gs, keys)
}

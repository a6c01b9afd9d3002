package guard_test

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
)

// longest keeps the longest of some times.
type longest struct{ atomic.Int64 }

func (l *longest) since(at time.Time) {
	d := int64(time.Since(at))
	for old := l.Load(); d > old && !l.CompareAndSwap(old, d); old = l.Load() {
	}
}

// leftNothing checks that nobody holds or waits for k0, k1 and so on, and that no Guard
// remembers them.
func (s *site) leftNothing(guards []*guard.Guard, keys int) {
	s.Helper()
	for i, g := range guards {
		s.eventually(func() bool { return guard.Remembered(g) == 0 }, "Guard %d forgets its keys and claims", i)
	}
	for k := range keys {
		key := fmt.Sprint("k", k)
		s.awaitFree(key)
		assert.Zero(s, s.admin.HLen(s.Context(), "guard:{"+key+"}:seen").Val(), "seen in the queue of %s", key)
	}
}

// awaitAll waits for callers that were told to end.
func (s *site) awaitAll(callers *sync.WaitGroup) {
	s.Helper()
	done := make(chan struct{})
	go func() {
		callers.Wait()
		close(done)
	}()
	s.await(done, "the last caller: somebody was forgotten")
}

// Two thousand callers of eight Guards come, wait, give up, time out, nest and work on
// twenty keys. One is in at a time, fences grow, whoever waits on gets in, and nothing is
// left.
func TestThousandsComeAndGo(t *testing.T) {
	const callers, keys, runtime = 2000, 20, 5 * time.Second
	s := newSite(t)
	windows := []time.Duration{0, time.Millisecond, guard.DefaultHandoverWindow, 50 * time.Millisecond}
	seen := &guardtest.Recorder{}
	var gs []*guard.Guard
	for i := range 8 {
		gs = append(gs, s.guard(guard.HandoverWindow(windows[i%4]), guard.Observe(seen)))
	}
	var wait longest
	var entered, gaveUp atomic.Int64
	over, end := context.WithTimeout(t.Context(), runtime)
	defer end()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(i))) //nolint:gosec // a seed is the point
			for over.Err() == nil {
				key, at := fmt.Sprint("k", rnd.IntN(keys)), time.Now()
				err := s.comeAndGo(rnd, gs[i%len(gs)], key, &entered)
				wait.since(at)
				if err != nil {
					assert.True(t, errors.Is(err, guard.ErrBusy) || errors.Is(err, context.Canceled) ||
						errors.Is(err, context.DeadlineExceeded), "%v", err)
					gaveUp.Add(1)
				}
			}
		})
	}
	s.awaitAll(&wg)
	t.Logf("%d came in, %d gave up; the longest call took %v", entered.Load(), gaveUp.Load(), time.Duration(wait.Load()))
	assert.Positive(t, entered.Load())
	assert.Positive(t, gaveUp.Load())
	assert.Less(t, time.Duration(wait.Load()), tooLong, "somebody was forgotten")
	assert.Empty(t, seen.Events(guard.StoreFailure), "nothing went unanswered")
	assert.Empty(t, seen.Events(guard.Loss))
	s.leftNothing(gs, keys)
}

// comeAndGo is one call with a temper of its own.
func (s *site) comeAndGo(rnd *rand.Rand, g *guard.Guard, key string, entered *atomic.Int64) error {
	some := func(most time.Duration) time.Duration { return time.Duration(rnd.Int64N(int64(most))) }
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	var opts []guard.LockOption
	switch rnd.IntN(5) {
	case 0:
		defer time.AfterFunc(some(300*time.Millisecond), cancel).Stop()
	case 1:
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, some(300*time.Millisecond))
		defer stop()
	case 2:
		opts = append(opts, guard.Wait(some(300*time.Millisecond)))
	case 3:
		opts = append(opts, guard.NoWait())
	}
	section, nest := some(2*time.Millisecond), rnd.IntN(8) == 0
	err := g.WithLock(ctx, guard.Key(key), func(ctx context.Context) error {
		defer s.book.enter(ctx, key, "somebody")()
		entered.Add(1)
		if nest {
			return g.WithLock(ctx, guard.Key(key), func(context.Context) error { return nil })
		}
		time.Sleep(section) // the work
		return nil
	}, opts...)
	if errors.Is(err, guard.ErrBusy) {
		time.Sleep(some(20 * time.Millisecond)) // a caller that spins is another test
	}
	return err
}

// The connections on which messages come are killed again and again, under load. Grants
// are lost; whoever waited asks when it is connected again, and nobody waits for longer
// than a ttl.
func TestSubscriptionsAreKilledUnderLoad(t *testing.T) {
	const keys, ttl, runtime = 4, 5 * time.Second, 4 * time.Second
	s := newSite(t)
	var gs []*guard.Guard
	for range 4 {
		gs = append(gs, s.guard(guard.TTL(ttl), guard.HandoverWindow(0)))
	}
	var wait longest
	over, end := context.WithTimeout(t.Context(), runtime)
	defer end()
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for over.Err() == nil {
				key, at := fmt.Sprint("k", i%keys), time.Now()
				assert.NoError(t, gs[i/8].WithLock(t.Context(), guard.Key(key), func(ctx context.Context) error {
					defer s.book.enter(ctx, key, fmt.Sprint("caller ", i))()
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
		n, err := s.admin.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Result()
		require.NoError(t, err)
		killed += n
	}
	s.awaitAll(&wg)
	t.Logf("%d killed, %d got in, the longest wait took %v", killed, len(s.book.entered()), time.Duration(wait.Load()))
	assert.Positive(t, killed)
	assert.Less(t, time.Duration(wait.Load()), ttl)
	s.leftNothing(gs, keys)
}

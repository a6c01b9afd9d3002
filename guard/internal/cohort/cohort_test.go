package cohort_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// ranker notes the order in which callers get in.
type ranker struct {
	mu    sync.Mutex
	order []int
	fence uint64
}

func (r *ranker) in(t *testing.T, ctx context.Context, who int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.order = append(r.order, who)
	fence, _ := guard.Fence(ctx)
	assert.Greater(t, fence, r.fence, "fences grow")
	r.fence = fence
}

func TestCohort_CallersOfOneProcessAreServedInOrder(t *testing.T) {
	testenv.Guards(t, 1, func(t *testing.T, s *guardtest.Store, gs []*guard.Guard) {
		l, err := gs[0].Acquire(t.Context(), testenv.Order)
		require.NoError(t, err)
		var r ranker
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				assert.NoError(t, gs[0].WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
					r.in(t, ctx, i)
					return nil
				}))
			})
			synctest.Wait()
		}
		assert.Equal(t, 1, s.Calls("acquire"), "they wait for the process, not for the store")
		time.Sleep(time.Second) // the grant is old now: its window is over
		require.NoError(t, l.Release(t.Context()))
		wg.Wait()
		assert.IsIncreasing(t, r.order)
		assert.Len(t, r.order, 100)
	})
}

// A grant serves local callers for the length of the window only: then those who wait
// elsewhere get their turn.
func TestCohort_HandoverWindowLetsOthersIn(t *testing.T) {
	testenv.Guards(t, 2, func(t *testing.T, s *guardtest.Store, gs []*guard.Guard) {
		var r ranker
		var wg sync.WaitGroup
		for who, g := range gs {
			for range 200 {
				wg.Go(func() {
					assert.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
						r.in(t, ctx, who)
						time.Sleep(time.Millisecond)
						return nil
					}))
				})
			}
		}
		wg.Wait()
		longest, run := 0, 0
		for i, who := range r.order {
			if i > 0 && who == r.order[i-1] {
				run++
			} else {
				run = 1
			}
			if i < 380 { // in the end, one of them is alone
				longest = max(longest, run)
			}
		}
		assert.LessOrEqual(t, longest, 6, "5 ms of 1 ms each, and the one that ends it")
		assert.Less(t, s.Calls("release"), 100, "most were passed on without the store")
	})
}

func TestCohort_WindowOfZeroIsStrictOrderThroughTheStore(t *testing.T) {
	testenv.Guards(t, 3, func(t *testing.T, _ *guardtest.Store, gs []*guard.Guard) {
		l, err := gs[0].Acquire(t.Context(), testenv.Order)
		require.NoError(t, err)
		var r ranker
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				assert.NoError(t, gs[i%3].WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
					r.in(t, ctx, i%3)
					time.Sleep(time.Millisecond) // for the claim that follows a release to arrive
					return nil
				}))
			})
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, l.Release(t.Context()))
		wg.Wait()
		for i := range r.order[:27] {
			assert.Equal(t, (i+1)%3, r.order[i], "in turn, beginning behind the first holder")
		}
	}, guard.HandoverWindow(0))
}

// The work of a lost grant may hang: those behind it do not wait for it.
func TestCohort_CallerBehindALostGrantGetsIn(t *testing.T) {
	testenv.Guards(t, 1, func(t *testing.T, s *guardtest.Store, gs []*guard.Guard) {
		hang, started := make(chan struct{}), make(chan struct{})
		lost := make(chan error, 1)
		go func() {
			lost <- gs[0].WithLock(t.Context(), testenv.Order, func(context.Context) error {
				close(started)
				<-hang
				return nil
			})
		}()
		<-started
		behind := make(chan error, 1)
		go func() {
			behind <- gs[0].WithLock(t.Context(), testenv.Order, func(context.Context) error { return nil })
		}()
		synctest.Wait()
		s.Drop("order:42")
		require.NoError(t, <-behind)
		close(hang)
		require.ErrorIs(t, <-lost, guard.ErrLost)
	})
}

func TestCohort_OutageFailsThoseInTheQueue(t *testing.T) {
	testenv.Guards(t, 2, func(t *testing.T, s *guardtest.Store, gs []*guard.Guard) {
		l, err := gs[0].Acquire(t.Context(), testenv.Order)
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				err := gs[1].WithLock(t.Context(), testenv.Order, func(context.Context) error { return nil })
				assert.ErrorIs(t, err, guard.ErrStore)
			})
		}
		synctest.Wait()
		s.Fail(errors.New("down"))
		wg.Wait()
		s.Fail(nil)
		require.NoError(t, l.Release(t.Context()))
		time.Sleep(time.Minute)
		assert.Empty(t, s.Queue("order:42"))
	})
}

// Callers come, wait, give up, time out and hang, over several instances, while messages
// and answers get lost.
func TestCohort_Churn(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { churn(t, seed) })
	}
}

func churn(t *testing.T, seed uint64) {
	t.Helper()
	testenv.Guards(t, 4, func(t *testing.T, s *guardtest.Store, gs []*guard.Guard) {
		rnd := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a seed is the point
		type state struct {
			inside int
			fence  uint64
		}
		keys := make([]state, 5)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 500 {
			k, g := rnd.IntN(len(keys)), gs[rnd.IntN(len(gs))]
			timeout := time.Duration(rnd.Int64N(int64(10 * time.Second)))
			section := time.Duration(rnd.Int64N(int64(20 * time.Millisecond)))
			arrive := time.Duration(rnd.Int64N(int64(2 * time.Second)))
			wg.Go(func() {
				time.Sleep(arrive)
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				err := g.WithLock(ctx, guard.Keyf("k%d", k), func(ctx context.Context) error {
					fence, _ := guard.Fence(ctx)
					mu.Lock()
					keys[k].inside++
					assert.Equal(t, 1, keys[k].inside, "call %d", i)
					assert.Greater(t, fence, keys[k].fence)
					keys[k].fence = fence
					mu.Unlock()
					time.Sleep(section)
					mu.Lock()
					keys[k].inside--
					mu.Unlock()
					return nil
				})
				assert.True(t, err == nil || errors.Is(err, context.DeadlineExceeded), "%v", err)
			})
		}
		for range 30 {
			time.Sleep(time.Duration(rnd.Int64N(int64(200 * time.Millisecond))))
			s.Mute(rnd.IntN(3) == 0)
			if rnd.IntN(3) == 0 {
				s.Fail(errors.New("down"))
				time.Sleep(time.Duration(rnd.Int64N(int64(100 * time.Millisecond))))
				s.Fail(nil)
			}
		}
		s.Mute(false)
		wg.Wait()
		time.Sleep(3 * time.Second) // releases that were not confirmed are repeated
		for k := range keys {
			key := fmt.Sprint("k", k)
			assert.Zero(t, s.Depth(key))
			assert.Empty(t, s.Queue(key))
		}
	}, guard.TTL(2*time.Second))
}

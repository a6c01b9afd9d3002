package cohort_test

import (
	"context"
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

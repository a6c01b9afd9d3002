package cohort_test

import (
	"context"
	"fmt"
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

func TestWaiting_AsksSeldom(t *testing.T) {
	testenv.Guards(t, 50, func(t *testing.T, s *guardtest.Store, gs []*guard.Guard) {
		l, err := gs[0].Acquire(t.Context(), testenv.Order)
		require.NoError(t, err)
		var wg sync.WaitGroup
		for _, g := range gs {
			for range 20 {
				wg.Go(func() {
					assert.NoError(t, g.WithLock(t.Context(), testenv.Order, func(context.Context) error { return nil }))
				})
			}
		}
		time.Sleep(10 * time.Second)
		assert.LessOrEqual(t, s.Calls("acquire"), 1+49+26+6*3, "one each, and those in front now and then")
		require.NoError(t, l.Release(t.Context()))
		wg.Wait()
	})
}

func TestWaiting_LostMessagesOnlyDelay(t *testing.T) {
	testenv.Guards(t, 3, func(t *testing.T, s *guardtest.Store, gs []*guard.Guard) {
		l, err := gs[0].Acquire(t.Context(), testenv.Order)
		require.NoError(t, err)
		var wg sync.WaitGroup
		for _, g := range gs[1:] {
			wg.Go(func() {
				assert.NoError(t, g.WithLock(t.Context(), testenv.Order, func(context.Context) error { return nil }))
			})
		}
		synctest.Wait()
		s.Mute(true)
		start := time.Now()
		require.NoError(t, l.Release(t.Context()))
		wg.Wait()
		assert.Less(t, time.Since(start), 20*time.Second)
	})
}

func TestWaiting_LostGrantKeepsThePlace(t *testing.T) {
	testenv.Guards(t, 3, func(t *testing.T, s *guardtest.Store, gs []*guard.Guard) {
		l, err := gs[0].Acquire(t.Context(), testenv.Order)
		require.NoError(t, err)
		var r ranker
		var wg sync.WaitGroup
		for i := 1; i < 3; i++ {
			wg.Go(func() {
				assert.NoError(t, gs[i].WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
					r.in(t, ctx, i)
					return nil
				}))
			})
			synctest.Wait()
		}
		s.Mute(true) // the grant to 1 is lost; its ack window passes; 2 is first in the queue now
		require.NoError(t, l.Release(t.Context()))
		time.Sleep(500 * time.Millisecond)
		s.Mute(false)
		wg.Wait()
		assert.Equal(t, []int{1, 2}, r.order)
	})
}

func TestWaiting_CancellationAtAnyPlaceInTheQueue(t *testing.T) {
	for _, gone := range [][]int{{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}} {
		t.Run(fmt.Sprint(gone), func(t *testing.T) {
			testenv.Guards(t, 4, func(t *testing.T, s *guardtest.Store, gs []*guard.Guard) {
				l, err := gs[3].Acquire(t.Context(), testenv.Order)
				require.NoError(t, err)
				var r ranker
				var wg sync.WaitGroup
				cancels := make([]context.CancelFunc, 3)
				for i := range 3 {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					cancels[i] = cancel
					wg.Go(func() {
						err := gs[i].WithLock(ctx, testenv.Order, func(ctx context.Context) error {
							r.in(t, ctx, i)
							return nil
						})
						if err != nil {
							assert.ErrorIs(t, err, guard.ErrBusy)
							assert.ErrorIs(t, err, context.Canceled)
						}
					})
					synctest.Wait()
				}
				for _, i := range gone {
					cancels[i]()
				}
				synctest.Wait()
				assert.Len(t, s.Queue("order:42"), 3-len(gone))
				require.NoError(t, l.Release(t.Context()))
				start := time.Now()
				wg.Wait()
				assert.Zero(t, time.Since(start), "nobody waits for those who left")
				assert.Len(t, r.order, 3-len(gone))
				assert.Empty(t, s.Queue("order:42"))
			})
		})
	}
}

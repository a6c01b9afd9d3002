package cohort_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// lateReply holds the reply to one acquire back.
type lateReply struct {
	*guardtest.Store

	armed          atomic.Bool
	asked, arrives chan struct{}
}

func (s *lateReply) Acquire(ctx context.Context, c guardstore.Claim) (guardstore.ClaimReply, error) {
	reply, err := s.Store.Acquire(ctx, c)
	if s.armed.CompareAndSwap(true, false) {
		close(s.asked)
		<-s.arrives
	}
	return reply, err
}

// The message that grants the lock overtakes the reply which says that it is busy: nobody
// waits under that owner yet. The claim asks as soon as it does, not at its next pulse.
func TestOvertaken_MessageThatOvertakesTheReplyIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guardtest.NewStore()
		late := &lateReply{Store: store, asked: make(chan struct{}), arrives: make(chan struct{})}
		g, err := guard.NewWithStore(store)
		require.NoError(t, err)
		other, err := guard.NewWithStore(late)
		require.NoError(t, err)

		holder, err := g.Acquire(t.Context(), testenv.Order)
		require.NoError(t, err)
		late.armed.Store(true)
		in := make(chan time.Time, 1)
		go func() {
			assert.NoError(t, other.WithLock(t.Context(), testenv.Order, func(context.Context) error { in <- time.Now(); return nil }))
		}()
		<-late.asked
		require.NoError(t, holder.Release(t.Context()))
		synctest.Wait()
		begun := time.Now()
		close(late.arrives)
		assert.Zero(t, (<-in).Sub(begun))
		synctest.Wait()
		require.NoError(t, g.Close())
		require.NoError(t, other.Close())
	})
}

package guard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

func TestLeaseInfo_CheckAsksTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := guardtest.NewStore()
		g, err := guard.NewWithStore(s)
		require.NoError(t, err)
		defer g.Close()
		for name, fixed := range map[string]guard.LockOption{"renewed": nil, "fixed": guard.FixedLease()} {
			l, err := g.Acquire(t.Context(), guard.Key(name), fixed)
			require.NoError(t, err)
			deadline := l.Deadline()
			require.NoError(t, l.Check(t.Context()))
			assert.Equal(t, deadline, l.Deadline(), "it moves no expiry")
			s.Fail(errors.New("down"))
			require.ErrorIs(t, l.Check(t.Context()), guard.ErrStore)
			require.NoError(t, l.Err())
			s.Fail(nil)
			s.Drop(name)
			require.NoError(t, l.Err(), "nobody knows")
			require.ErrorIs(t, l.Check(t.Context()), guard.ErrLost)
			require.ErrorIs(t, context.Cause(l.Context()), guard.ErrLost)
			_ = l.Release(t.Context())
		}
		l, err := g.Acquire(t.Context(), guard.Key("released"))
		require.NoError(t, err)
		require.NoError(t, l.Release(t.Context()))
		require.ErrorIs(t, l.Check(t.Context()), guard.ErrReleased)
	})
}

func TestLeaseInfo_LeasesAreThoseOfThisGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.NewGuard(t)
		assert.Empty(t, g.Leases())
		assert.Empty(t, new(guard.Guard).Leases())
		begun := time.Now()
		l, err := g.Acquire(t.Context(), guard.Key("k"), guard.Name("n"))
		require.NoError(t, err)
		inner, err := g.Acquire(l.Context(), guard.Key("k"))
		require.NoError(t, err)
		go func() { _ = g.WithLock(t.Context(), guard.Key("k"), func(context.Context) error { return nil }) }()
		synctest.Wait()
		all := g.Leases()
		require.Len(t, all, 1)
		assert.Equal(t, guard.LeaseInfo{
			Key: "k", Name: "n", Fence: l.Fence(), Since: all[0].Since, Deadline: all[0].Deadline, Depth: 2, Waiting: 1,
		}, all[0])
		assert.WithinDuration(t, begun, all[0].Since, time.Millisecond)
		require.NoError(t, inner.Release(t.Context()))
		require.NoError(t, l.Release(t.Context()))
		synctest.Wait()
		assert.Empty(t, g.Leases())
	})
}

func TestLeaseInfo_PingSaysWhetherLocksCanBeHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := guardtest.NewStore()
		g, err := guard.NewWithStore(s)
		require.NoError(t, err)
		require.NoError(t, g.Ping(t.Context()))
		s.Fail(errors.New("down"))
		require.ErrorIs(t, g.Ping(t.Context()), guard.ErrStore)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, g.Ping(ctx), context.DeadlineExceeded)
		s.Fail(nil)
		require.NoError(t, g.Close())
		require.ErrorIs(t, g.Ping(t.Context()), guard.ErrClosed)
		require.ErrorIs(t, (*guard.Guard)(nil).Ping(t.Context()), guard.ErrNoGuard)
	})
}

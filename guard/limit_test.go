package guard_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/guardhook"
)

func TestLimit_AtMostNAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		three := []guard.LockOption{guard.Limit(3), guard.Metadata("export")}
		a, b, c := g.take(three...), g.take(three...), g.take(three...)
		assert.Equal(t, guard.Lock{Key: "k", Limit: 3}, g.r.Observations("HoldStart")[2].Lock)
		assert.EqualValues(t, 3, guardhook.Limit(a))
		busy := g.busy(three...)
		assert.EqualValues(t, 3, busy.Limit)
		assert.Equal(t, "export", busy.Holder)
		next := g.later(guard.Limit(3))
		time.Sleep(10 * time.Minute) // all are renewed
		g.free(b)
		g.free(a, c, <-next)
		g.knowsNothing()
		later := g.take(guard.Limit(3), guard.Limit(1))
		assert.Equal(t, guardstore.Exclusive, guardhook.Limit(later), "the later Limit counts")
		g.free(later)
	})
}

func TestLimit_APermitWithMaxHoldIsHandedOver(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		opts := []guard.LockOption{guard.Limit(2), guard.MaxHold(time.Hour)}
		a, b := g.take(opts...), g.take(opts...)
		next := g.later(opts...)
		g.free(a)
		c := <-next
		assert.Equal(t, testenv.Owner(a), testenv.Owner(c))
		g.free(b, c)
	})
}

// choosy is a store that has no limit but 2, and no readers.
type choosy struct{ *testenv.Faulty }

func (choosy) CheckLimit(l guardstore.Limit) error {
	if l == 2 {
		return nil
	}
	return errBoom
}

func TestLimit_AStoreMayRefuseOne(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		choosy := testenv.GuardOnStore(t, choosy{g.s})
		require.NoError(t, choosy.WithLock(t.Context(), k, nothing, guard.Limit(2)))
		require.EqualError(t, choosy.WithLock(t.Context(), k, never(t), guard.Shared()), "guard: Shared boom")
		require.EqualError(t, choosy.WithLock(t.Context(), k, never(t), guard.Limit(3)), "guard: Limit boom")
		require.NoError(t, choosy.WithLock(t.Context(), k, nothing), "each store has exclusive locks")
	})
}

// A call joins a hold that is at least as strict.
func TestLimit_ReentryUnderALimit(t *testing.T) {
	for _, c := range []struct {
		outer, inner guard.LockOption
		refused      string // the OptionError, if any
	}{
		{nil, nil, ""},
		{nil, guard.Limit(3), ""},
		{nil, guard.Shared(), ""},
		{guard.Limit(3), guard.Limit(3), ""},
		{guard.Limit(3), guard.Limit(4), ""},
		{guard.Limit(3), guard.Shared(), ""},
		{guard.Shared(), guard.Shared(), ""},
		{guard.Limit(3), guard.Limit(2), "with Limit(3), and the call wants it with Limit(2)"},
		{guard.Limit(3), nil, "with Limit(3), and the call wants it with Limit(1), exclusively"},
		{guard.Shared(), guard.Limit(9), "with Shared, and the call wants it with Limit(9)"},
		{guard.Shared(), nil, "with Shared, and the call wants it with Limit(1), exclusively"},
	} {
		bubble(t, func(t *testing.T, g *env) {
			outer := g.take(c.outer)
			inner, err := g.Acquire(outer.Context(), k, c.inner)
			if c.refused == "" {
				require.NoError(t, err)
				assert.Equal(t, []any{guardhook.Limit(outer), outer.Fence()}, []any{guardhook.Limit(inner), inner.Fence()})
				g.free(inner)
			} else {
				is(t, err, guard.ErrOption, guard.ErrBusy)
				require.EqualError(t, err, "guard: ctx holds the key "+c.refused+": release it first")
			}
			g.free(outer)
			assert.Zero(t, g.s.Depth("k"))
		})
	}
}

// For code that asserts a lock before it writes: Held and Fence see exclusive leases.
func TestLimit_HeldSeesExclusiveLeasesOnly(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		for _, o := range []guard.LockOption{guard.Shared(), guard.Limit(2)} {
			l := g.take(o)
			_, held := guard.Held(l.Context(), guard.Key("k"))
			assert.False(t, held)
			_, fenced := guard.Fence(l.Context())
			assert.False(t, fenced)
			around, _ := guard.FromContext(l.Context())
			assert.Same(t, l, around)
			g.free(l)
		}
		outer := g.take()
		inner := g.acquire(outer.Context(), "tenant:7", guard.Limit(5))
		fence, fenced := guard.Fence(inner.Context())
		assert.True(t, fenced)
		assert.Equal(t, outer.Fence(), fence, "a permit hides no fence")
		l, held := guard.Held(inner.Context(), guard.Key("k"))
		assert.True(t, held)
		assert.Same(t, outer, l)
		g.free(inner, outer)
		_, held = guard.Held(inner.Context(), guard.Key("k"))
		assert.False(t, held, "it was released")
		assert.Equal(t, []*guard.Lease{outer}, slices.Collect(guard.ExclusiveLeases(inner.Context())), "held or not")
	})
}

// readers takes k as n readers at once, each of which must get it at once.
func (g *env) readers(n int, opts ...guard.LockOption) []*guard.Lease {
	leases := make([]*guard.Lease, n)
	var all sync.WaitGroup
	for i := range leases {
		all.Go(func() { leases[i] = g.take(append(opts, guard.Shared())...) })
	}
	all.Wait()
	return leases
}

func TestShared_ReadersOfOneProcessShareAClaim(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		readers := g.readers(100)
		assert.Equal(t, 1, g.s.Calls("acquire"))
		assert.Len(t, g.Holds(), 100)
		g.free(readers[1:]...)
		assert.Zero(t, g.s.Calls("release"), "one is inside")
		assert.Zero(t, g.busy().Limit)
		time.Sleep(10 * time.Minute) // it is renewed
		g.free(readers[0])
		assert.Equal(t, 1, g.s.Calls("release"))
		g.knowsNothing()
		local := 0
		for _, o := range g.r.Observations("WaitEnd") {
			if o.Wait.Local {
				local++
			}
		}
		assert.Equal(t, 99, local)
	})
}

// A reader that others outlast does not release anything: it asks whether it held the lock to the end.
func TestShared_AReaderThatLeavesAsynchronouslyFindsTheLoss(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		other := g.take(guard.Shared())
		require.NoError(t, g.WithLock(t.Context(), k, func(context.Context) error {
			g.s.Drop("k")
			time.Sleep(time.Second)
			return nil
		}, guard.Shared(), guard.AsyncRelease()))
		synctest.Wait()
		require.ErrorIs(t, other.Err(), guard.ErrLost)
		assert.Len(t, g.r.Events(guard.EventLoss), 2)
		require.ErrorIs(t, other.Release(t.Context()), guard.ErrLost)
	})
}

// MaxHold of several locks is counted when all are there: it does not end the lock of another caller.
func TestShared_MaxHoldOfSeveralLocksEndsItsOwnReads(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		capped := g.readers(2, guard.MaxHold(time.Hour))
		assert.NotEqual(t, testenv.Owner(capped[0]), testenv.Owner(capped[1]), "a call with MaxHold shares nothing")
		g.free(capped...)
		held, release := g.holdAll("k b", guard.Shared(), guard.MaxHold(time.Second))
		other := g.take(guard.Shared())
		<-held.Done()
		require.ErrorIs(t, context.Cause(held), guard.ErrMaxHold)
		require.NoError(t, other.Err())
		g.free(other)
		require.ErrorIs(t, release(), guard.ErrLost)
	})
}

// The first call that asks finds the loss: here a nested call that ends.
func TestShared_TheLossOfASharedGrantEndsAllItsReaders(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		readers := g.readers(3)
		readers = append(readers, g.acquire(readers[1].Context(), "k", guard.Shared()))
		time.Sleep(time.Second)
		begun := time.Now()
		require.ErrorIs(t, g.WithLock(readers[0].Context(), k, func(context.Context) error { g.s.Drop("k"); return nil }, guard.Shared()), guard.ErrLost)
		for _, l := range readers {
			<-l.Context().Done()
			require.ErrorIs(t, context.Cause(l.Context()), guard.ErrLost)
		}
		assert.Zero(t, time.Since(begun))
		synctest.Wait()
		assert.Len(t, g.r.Events(guard.EventLoss), 3, "of each hold")
		assert.Empty(t, g.Holds())
		next := g.take(guard.Shared()) // no reader joins the lost grant
		for _, l := range readers {
			require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
		}
		g.free(next)
		g.knowsNothing()
	})
}

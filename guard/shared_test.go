package guard_test

import (
	"context"
	"errors"
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
		for _, l := range readers {
			assert.Equal(t, testenv.Owner(readers[0]), testenv.Owner(l))
			assert.Equal(t, readers[0].Fence(), l.Fence())
			assert.Equal(t, guardstore.Unlimited, guardhook.Limit(l))
			require.NoError(t, l.Check(t.Context()))
		}
		assert.Equal(t, 1, g.s.Calls("acquire"))
		assert.Len(t, g.Holds(), 100)
		g.free(readers[1:]...)
		assert.Zero(t, g.s.Calls("release"), "one is inside")
		assert.Zero(t, g.busy().Limit)
		time.Sleep(10 * time.Minute) // it is renewed
		assert.Equal(t, 1, g.s.Depth("k"))
		g.free(readers[0])
		assert.Equal(t, 1, g.s.Calls("release"))
		g.knowsNothing()
		assert.Empty(t, g.r.Events(guard.EventHandover))
		local := 0
		for _, o := range g.r.Observations("WaitEnd") {
			if o.Wait.Local {
				local++
			}
		}
		assert.Equal(t, 99, local)
	})
}

// The window is short: a reader that comes later asks, and so waits after a writer that came before. No reader joins
// a grant that is given back.
func TestShared_ReadersJoinWhileAGrantIsNew(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		a := g.readers(1)
		time.Sleep(5 * time.Millisecond)
		b := g.readers(2)
		assert.NotEqual(t, testenv.Owner(a[0]), testenv.Owner(b[0]))
		assert.Equal(t, testenv.Owner(b[0]), testenv.Owner(b[1]), "a new grant is joined in turn")
		assert.Equal(t, 2, g.s.Calls("acquire"))
		g.free(b...)
		assert.Zero(t, g.s.Calls("renew"), "what the store said a moment ago is believed")
		c := g.readers(1)
		assert.NotEqual(t, testenv.Owner(b[0]), testenv.Owner(c[0]))
		g.free(append(a, c...)...)
		g.knowsNothing()
	})
}

// What differs between callers and counts for a grant as a whole is not shared. What they only say of themselves is no
// difference.
func TestShared_ReadersShareEqualClaims(t *testing.T) {
	for name, c := range map[string]struct {
		window time.Duration
		opts   [2][]guard.LockOption
		alike  bool
	}{
		"alike":     {5 * time.Millisecond, [2][]guard.LockOption{{guard.Name("a")}, {guard.Name("b")}}, true},
		"TTL":       {5 * time.Millisecond, [2][]guard.LockOption{nil, {guard.TTL(time.Minute)}}, false},
		"Metadata":  {5 * time.Millisecond, [2][]guard.LockOption{{guard.Metadata("a")}, {guard.Metadata("b")}}, true},
		"MaxHold":   {5 * time.Millisecond, [2][]guard.LockOption{{guard.MaxHold(time.Hour)}, {guard.MaxHold(time.Hour)}}, false},
		"no window": {0, [2][]guard.LockOption{}, false},
	} {
		bubble(t, func(t *testing.T, g *env) {
			a, b := g.take(append(c.opts[0], guard.Shared())...), g.take(append(c.opts[1], guard.Shared())...)
			assert.Equal(t, c.alike, testenv.Owner(a) == testenv.Owner(b), name)
			g.free(b, a)
			g.knowsNothing()
		}, guard.HandoverWindow(c.window))
	}
}

// MaxHold of several locks is counted when all are there: it does not end the lock of another caller.
func TestShared_MaxHoldOfSeveralLocksEndsItsOwnReads(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		held, release := g.holdAll("k b", guard.Shared(), guard.MaxHold(time.Second))
		other := g.take(guard.Shared())
		<-held.Done()
		require.ErrorIs(t, context.Cause(held), guard.ErrMaxHold)
		require.NoError(t, other.Err())
		g.free(other)
		require.ErrorIs(t, release(), guard.ErrLost)
	})
}

func TestShared_TheLossOfASharedGrantEndsAllItsReaders(t *testing.T) {
	for name, lose := range map[string]func(s *store, l *guard.Lease){
		"revoked": func(s *store, l *guard.Lease) { s.Revoke("k", l.Fence()) },
		"found by one": func(s *store, l *guard.Lease) {
			s.Drop("k")
			_ = l.Check(context.Background())
		},
		"found by a re-entry": func(s *store, l *guard.Lease) {
			s.Drop("k")
			_ = guard.WithLock(l.Context(), k, nothing, guard.Shared())
		},
	} {
		bubble(t, func(t *testing.T, g *env) {
			readers := g.readers(3)
			inner := g.acquire(readers[1].Context(), "k", guard.Shared())
			time.Sleep(time.Second) // it listens
			begun := time.Now()
			lose(g.s, readers[0])
			for _, l := range append(readers, inner) {
				<-l.Context().Done()
				require.ErrorIs(t, context.Cause(l.Context()), guard.ErrLost)
				assert.Equal(t, name == "revoked", errors.Is(l.Err(), guard.ErrRevoked))
			}
			assert.Zero(t, time.Since(begun))
			synctest.Wait()
			assert.Len(t, g.r.Events(guard.EventLoss), 3, "of each hold")
			assert.Empty(t, g.Holds())
			next := g.take(guard.Shared()) // no reader joins the lost grant
			for _, l := range append(readers, inner) {
				require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
			}
			g.free(next)
			g.knowsNothing()
		})
	}
}

func TestShared_ANestedCallThatEndsLearnsOfALoss(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		readers := g.readers(2)
		time.Sleep(time.Second)
		err := g.WithLock(readers[0].Context(), k, func(context.Context) error { g.s.Drop("k"); return nil }, guard.Shared())
		require.ErrorIs(t, err, guard.ErrLost)
		for _, l := range readers {
			require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
		}
		synctest.Wait()
		assert.Len(t, g.r.Events(guard.EventLoss), 2)
		g.knowsNothing()
	})
}

func TestShared_LeasesNamesEachReader(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		a := g.take(guard.Shared(), guard.Name("a"))
		inner := g.acquire(a.Context(), "k", guard.Shared())
		time.Sleep(time.Millisecond)
		b := g.take(guard.Shared(), guard.Name("b"))
		all := g.Holds()
		require.Len(t, all, 2)
		assert.Equal(t, []any{"a", 2, "b", 1}, []any{all[0].Name, all[0].Depth, all[1].Name, all[1].Depth})
		assert.Equal(t, time.Millisecond, all[1].Since.Sub(all[0].Since))
		g.free(inner, a, b)
	})
}

// The grant is lost when a reader has joined it, and before its work begins.
func TestShared_AReaderThatBeginsUnderALostGrantIsNotified(t *testing.T) {
	o := &faulty{method: "WaitEnd"}
	bubble(t, func(t *testing.T, g *env) {
		first := g.take(guard.Shared())
		o.fault = func() {
			g.s.Drop("k")
			assert.ErrorIs(t, first.Check(t.Context()), guard.ErrLost)
		}
		o.n.Store(1)
		second := g.take(guard.Shared())
		assert.Equal(t, testenv.Owner(first), testenv.Owner(second))
		<-second.Context().Done()
		require.ErrorIs(t, context.Cause(second.Context()), guard.ErrLost)
		for _, l := range []*guard.Lease{first, second} {
			require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
		}
		g.knowsNothing()
	}, guard.Observe(o))
}

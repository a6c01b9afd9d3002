package guard_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
)

// readers takes k as n readers at once, each of which must get it at once.
func (g *rig) readers(n int, opts ...guard.LockOption) []*guard.Lease {
	leases := make([]*guard.Lease, n)
	var all sync.WaitGroup
	for i := range leases {
		all.Go(func() { leases[i] = g.take(append(opts, guard.Shared())...) })
	}
	all.Wait()
	return leases
}

const pastWindow = guard.DefaultHandoverWindow + time.Millisecond

func TestShared_ReadersOfOneProcessShareAClaim(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		readers := g.readers(100)
		time.Sleep(guard.DefaultHandoverWindow - time.Millisecond)
		readers = append(readers, g.readers(1)...)
		assert.Equal(t, 1, g.s.Calls("acquire"))
		for _, l := range readers {
			assert.Equal(t, readers[0].Owner(), l.Owner())
			assert.Equal(t, readers[0].Fence(), l.Fence())
			assert.Zero(t, l.Limit())
			require.NoError(t, l.Check(t.Context()))
		}
		assert.Len(t, g.Leases(), 101)
		asked := g.s.Calls("renew")

		time.Sleep(time.Second)
		var out sync.WaitGroup
		for _, l := range readers[1:] {
			out.Go(func() { g.free(l) })
		}
		out.Wait()
		assert.Equal(t, 1, g.s.Calls("renew")-asked, "they ask once whether they held the lock to the end")
		assert.Zero(t, g.s.Calls("release"), "one is inside")
		_ = g.busy()
		time.Sleep(10 * time.Minute) // it is renewed
		assert.Equal(t, 1, g.s.Depth("k"))
		g.free(readers[0])
		assert.Equal(t, 1, g.s.Calls("release"))
		g.knowsNothing()
		renewed := g.s.Calls("renew")
		time.Sleep(time.Minute)
		assert.Equal(t, renewed, g.s.Calls("renew"), "nothing is renewed any more")
		g.free(g.take())

		local := 0
		for _, o := range g.r.Observations("WaitEnd")[:101] {
			assert.Zero(t, o.Wait.Elapsed)
			if o.Wait.Local {
				local++
			}
		}
		assert.Equal(t, 100, local)
		assert.False(t, g.r.Observations("WaitEnd")[100].Wait.Queued)
		assert.Empty(t, g.r.Events(guard.Handover))
	})
}

// The window is short: a reader that comes later asks, and so waits after a writer that came before. What is given back
// is joined by nobody.
func TestShared_ReadersJoinWhileAGrantIsNew(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		a := g.readers(1)
		time.Sleep(guard.DefaultHandoverWindow)
		b := g.readers(2)
		assert.NotEqual(t, a[0].Owner(), b[0].Owner())
		assert.Equal(t, b[0].Owner(), b[1].Owner(), "a new grant is joined in turn")
		assert.Equal(t, 2, g.s.Calls("acquire"))
		g.free(b...)
		assert.Zero(t, g.s.Calls("renew"), "what the store said a moment ago is believed")
		c := g.readers(1)
		assert.NotEqual(t, b[0].Owner(), c[0].Owner())
		g.free(append(a, c...)...)
		g.knowsNothing()
	})
}

// A window is half a ttl at most, as with exclusive locks.
func TestShared_NobodyJoinsForLongerThanHalfATTL(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		short := guard.TTL(guard.MinTTL)
		a := g.readers(1, short)
		time.Sleep(guard.MinTTL/2 - time.Millisecond)
		b := g.readers(1, short)
		assert.Equal(t, a[0].Owner(), b[0].Owner())
		time.Sleep(time.Millisecond)
		c := g.readers(1, short)
		assert.NotEqual(t, a[0].Owner(), c[0].Owner())
		g.free(a[0], b[0], c[0])
	}, guard.HandoverWindow(time.Minute))
}

// Readers that come all the time do not keep a writer out, whichever process it is of.
func TestShared_AWriterIsDelayedByOneWindowAndTheLongestRead(t *testing.T) {
	for _, same := range []bool{true, false} {
		bubble(t, func(t *testing.T, g *rig) {
			const read = 20 * time.Millisecond
			var readers sync.WaitGroup
			ctx, stop := context.WithCancel(t.Context())
			readers.Go(func() {
				for ctx.Err() == nil {
					time.Sleep(time.Millisecond)
					readers.Go(func() {
						assert.NoError(t, g.WithLock(t.Context(), k, func(context.Context) error { time.Sleep(read); return nil }, guard.Shared()))
					})
				}
			})
			writer := g
			if !same {
				writer = g.another()
			}
			for range 20 {
				time.Sleep(37 * time.Millisecond)
				begun := time.Now()
				w := writer.acquire(t.Context(), "k")
				assert.LessOrEqual(t, time.Since(begun), guard.DefaultHandoverWindow+read)
				g.free(w)
			}
			stop()
			readers.Wait()
		})
	}
}

// What differs between callers and counts for a grant as a whole is not shared. What they only say of themselves is no
// difference.
func TestShared_ReadersShareWhatIsAlike(t *testing.T) {
	for name, c := range map[string]struct {
		window time.Duration
		opts   [2][]guard.LockOption
		alike  bool
	}{
		"alike":      {guard.DefaultHandoverWindow, [2][]guard.LockOption{{guard.Name("a")}, {guard.Name("b")}}, true},
		"TTL":        {guard.DefaultHandoverWindow, [2][]guard.LockOption{nil, {guard.TTL(time.Minute)}}, false},
		"Metadata":   {guard.DefaultHandoverWindow, [2][]guard.LockOption{{guard.Metadata("a")}, {guard.Metadata("b")}}, true},
		"FixedLease": {guard.DefaultHandoverWindow, [2][]guard.LockOption{{guard.FixedLease()}, {guard.FixedLease()}}, false},
		"MaxHold":    {guard.DefaultHandoverWindow, [2][]guard.LockOption{{guard.MaxHold(time.Hour)}, {guard.MaxHold(time.Hour)}}, false},
		"no window":  {0, [2][]guard.LockOption{}, false},
	} {
		bubble(t, func(t *testing.T, g *rig) {
			a, b := g.take(append(c.opts[0], guard.Shared())...), g.take(append(c.opts[1], guard.Shared())...)
			assert.Equal(t, c.alike, a.Owner() == b.Owner(), name)
			g.free(b, a)
			g.knowsNothing()
		}, guard.HandoverWindow(c.window))
	}
}

// MaxHold of several locks is counted when all are there: it is nobody else's.
func TestShared_MaxHoldOfSeveralLocksEndsItsOwnReads(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		ls, err := g.AcquireAll(t.Context(), keysOf("k b"), guard.Shared(), guard.MaxHold(time.Second))
		require.NoError(t, err)
		other := g.take(guard.Shared())
		<-ls.Context().Done()
		require.ErrorIs(t, ls.Err(), guard.ErrMaxHold)
		require.NoError(t, other.Err())
		g.free(other)
		require.ErrorIs(t, ls.Release(t.Context()), guard.ErrLost)
	})
}

func TestShared_TheLossOfASharedGrantEndsAllItsReaders(t *testing.T) {
	for name, c := range map[string]struct {
		lose  func(s *store, l *guard.Lease)
		most  time.Duration // until they learn of it
		cause error
	}{
		"dropped": {func(s *store, _ *guard.Lease) { s.Drop("k") }, 11 * time.Second, guard.ErrLost},
		"revoked": {func(s *store, l *guard.Lease) { s.Revoke("k", l.Fence()) }, 0, guard.ErrRevoked},
		"down":    {func(s *store, _ *guard.Lease) { s.Fail(errDown) }, 28 * time.Second, guard.ErrLost},
		"found by one": {func(s *store, l *guard.Lease) {
			s.Drop("k")
			_ = l.Check(context.Background())
		}, 0, guard.ErrLost},
		"found by one that re-enters": {func(s *store, l *guard.Lease) {
			s.Drop("k")
			_ = guard.WithLock(l.Context(), k, nothing, guard.Shared())
		}, 0, guard.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, g *rig) {
				readers := g.readers(10)
				inner := g.acquire(readers[3].Context(), "k", guard.Shared())
				time.Sleep(time.Second)
				begun := time.Now()
				c.lose(g.s, readers[0])
				for _, l := range append(readers, inner) {
					<-l.Context().Done()
					assert.LessOrEqual(t, time.Since(begun), c.most)
					require.ErrorIs(t, context.Cause(l.Context()), c.cause)
					require.ErrorIs(t, l.Err(), guard.ErrLost)
				}
				synctest.Wait()
				assert.Len(t, g.r.Events(guard.Loss), 10, "of each hold")
				assert.Empty(t, g.Leases())
				g.s.Fail(nil)
				next := g.readers(2) // the lost grant is joined by nobody
				for _, l := range append(readers, inner) {
					require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
				}
				require.NoError(t, next[0].Err())
				g.free(next...)
				g.knowsNothing()
				assert.Zero(t, g.s.Depth("k"))
			})
		})
	}
}

// A reader that leaves before the last one asks whether the grant was held to the end, whatever the window: a loss that
// no renewal has found yet is not silent, nor is one after another reader asked.
func TestShared_AReaderThatLeavesLearnsOfALoss(t *testing.T) {
	for name, c := range map[string]struct {
		lose  func(s *store, l *guard.Lease)
		cause error
	}{
		"dropped": {func(s *store, _ *guard.Lease) { s.Drop("k") }, guard.ErrLost},
		"revoked, and nobody is told": {func(s *store, l *guard.Lease) {
			s.Mute(true)
			s.Revoke("k", l.Fence())
		}, guard.ErrRevoked},
	} {
		for _, window := range []time.Duration{guard.DefaultHandoverWindow, 10 * time.Second} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T, g *rig) {
					readers := g.readers(3)
					time.Sleep(pastWindow)
					g.free(readers[0])
					time.Sleep(pastWindow)
					err := g.WithLock(readers[1].Context(), k, func(context.Context) error { c.lose(g.s, readers[1]); return nil }, guard.Shared())
					require.ErrorIs(t, err, guard.ErrLost)
					require.ErrorIs(t, readers[1].Release(t.Context()), c.cause)
					require.ErrorIs(t, readers[2].Err(), c.cause, "the others learn of it as well")
					require.ErrorIs(t, readers[2].Release(t.Context()), guard.ErrLost)
					synctest.Wait()
					assert.Len(t, g.r.Events(guard.Loss), 2)
					g.knowsNothing()
				}, guard.HandoverWindow(window))
			})
		}
	}
}

// A reader that leaves and gets no answer learns so, and those inside go on.
func TestShared_AReaderThatLeavesWithoutAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		readers := g.readers(3)
		time.Sleep(pastWindow)
		g.s.Fail(errDown)
		assert.Equal(t, "check", as[*guard.StoreError](t, readers[0].Release(t.Context())).Op)
		require.ErrorIs(t, readers[1].Release(canceled(t.Context())), context.Canceled)
		g.s.Fail(nil)
		require.NoError(t, readers[2].Err())
		g.free(readers[2])
		time.Sleep(time.Second)
		assert.Zero(t, g.s.Depth("k"))
		g.knowsNothing()
	})
}

// WithLock waits for that answer as long as for a release.
func TestReadersLeave_AReaderThatLeavesDoesNotWaitForASilentStore(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		stays := g.take(guard.Shared())
		var begun time.Time
		require.NoError(t, g.WithLock(t.Context(), k, func(context.Context) error {
			time.Sleep(time.Second)
			g.s.trouble(func(ctx context.Context, op, _ string) error {
				if op == "depth" {
					<-ctx.Done()
					return errReply
				}
				return nil
			}, nil)
			begun = time.Now()
			return nil
		}, guard.Shared()))
		assert.Equal(t, 250*time.Millisecond, time.Since(begun))
		g.s.trouble(nil, nil)
		g.free(stays)
	})
}

// Two leave at the same time, and each takes the other for one that stays.
func TestShared_TheLastTwoReadersLeaveTogether(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		readers := g.readers(2)
		time.Sleep(pastWindow)
		g.s.Fail(errDown)
		var out sync.WaitGroup
		for _, l := range readers {
			out.Go(func() { g.free(l) })
		}
		time.Sleep(10 * time.Millisecond)
		g.s.Fail(nil)
		out.Wait()
		assert.Equal(t, 1, g.s.Depth("k")+g.s.Calls("release"), "it was given back once")
		g.free(g.take())
	})
}

func TestShared_ShutdownWaitsForAllReadersAndCloseEndsThem(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		readers := g.readers(3)
		shut := begin(func() error { return g.Shutdown(t.Context()) })
		time.Sleep(time.Second)
		g.free(readers[:2]...)
		synctest.Wait()
		assert.Empty(t, shut)
		require.ErrorIs(t, g.lock(guard.Shared()), guard.ErrClosed)
		require.NoError(t, g.Close())
		require.NoError(t, <-shut)
		require.ErrorIs(t, readers[2].Err(), guard.ErrClosed)
		require.ErrorIs(t, readers[2].Release(t.Context()), guard.ErrLost)
		assert.Zero(t, g.s.Depth("k"))
	})
}

func TestShared_LeasesNamesEachReader(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		a := g.take(guard.Shared(), guard.Name("a"))
		inner := g.acquire(a.Context(), "k", guard.Shared())
		time.Sleep(time.Millisecond)
		b := g.take(guard.Shared(), guard.Name("b"))
		all := g.Leases()
		require.Len(t, all, 2)
		assert.Equal(t, []any{"a", 2, "b", 1}, []any{all[0].Name, all[0].Depth, all[1].Name, all[1].Depth})
		assert.Equal(t, time.Millisecond, all[1].Since.Sub(all[0].Since))
		g.free(inner, a, b)
	})
}

// A grant that is over is joined by nobody, however new it is.
func TestShared_NobodyJoinsALostGrant(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		lost := g.take(guard.Shared())
		g.s.Drop("k")
		require.ErrorIs(t, lost.Check(t.Context()), guard.ErrLost)
		next := g.take(guard.Shared())
		assert.NotEqual(t, lost.Owner(), next.Owner())
		require.NoError(t, next.Err())
		require.ErrorIs(t, lost.Release(t.Context()), guard.ErrLost)
		g.free(next)
	}, guard.HandoverWindow(time.Second))
}

// The grant is lost when a reader has joined it, and before its work begins.
func TestShared_AReaderThatBeginsUnderALostGrantIsTold(t *testing.T) {
	o := &faulty{method: "WaitEnd"}
	bubble(t, func(t *testing.T, g *rig) {
		first := g.take(guard.Shared())
		o.fault = func() {
			g.s.Drop("k")
			assert.ErrorIs(t, first.Check(t.Context()), guard.ErrLost)
		}
		o.n.Store(1)
		second := g.take(guard.Shared())
		assert.Equal(t, first.Owner(), second.Owner())
		<-second.Context().Done()
		require.ErrorIs(t, context.Cause(second.Context()), guard.ErrLost)
		for _, l := range []*guard.Lease{first, second} {
			require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
		}
		g.knowsNothing()
	}, guard.Observe(o))
}

// Readers of one process are revoked: the last one out gives back what is left, and the key is free at once.
func TestShared_TheLastOfRevokedReadersFreesTheKey(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		readers := g.readers(2)
		time.Sleep(100 * time.Millisecond)
		require.True(t, g.s.Revoke("k", readers[0].Fence()))
		synctest.Wait()
		for _, l := range readers {
			require.ErrorIs(t, l.Err(), guard.ErrRevoked)
			require.ErrorIs(t, l.Release(t.Context()), guard.ErrRevoked)
		}
		g.free(g.take())
	})
}

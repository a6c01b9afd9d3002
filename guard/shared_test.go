package guard_test

import (
	"context"
	"errors"
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

// reading takes the lock as n readers of g at once, each of whom must get it at once.
func reading(t *testing.T, g *guard.Guard, n int, opts ...guard.LockOption) []*guard.Lease {
	t.Helper()
	leases := make([]*guard.Lease, n)
	var all sync.WaitGroup
	for i := range leases {
		all.Go(func() { leases[i] = taken(t, g, append(opts, guard.Shared())...) })
	}
	all.Wait()
	return leases
}

func owners(leases []*guard.Lease) map[string]int {
	all := map[string]int{}
	for _, l := range leases {
		all[l.Owner()]++
	}
	return all
}

const pastWindow = guard.DefaultHandoverWindow + time.Millisecond

func TestShared_ReadersOfOneProcessShareAClaim(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		readers := reading(t, g, 100)
		time.Sleep(guard.DefaultHandoverWindow - time.Millisecond)
		readers = append(readers, reading(t, g, 1)...)
		assert.Equal(t, 1, s.Calls("acquire"))
		assert.Len(t, owners(readers), 1)
		for _, l := range readers {
			assert.Equal(t, readers[0].Fence(), l.Fence())
			assert.Zero(t, l.Limit())
			require.NoError(t, l.Check(t.Context()))
		}
		assert.Len(t, g.Leases(), 101)
		asked := s.Calls("renew")

		time.Sleep(time.Second)
		var out sync.WaitGroup
		for _, l := range readers[1:] {
			out.Go(func() { given(t, l) })
		}
		out.Wait()
		assert.Equal(t, 1, s.Calls("renew")-asked, "they ask once whether they held the lock to the end")
		assert.Zero(t, s.Calls("release"), "one is inside")
		_ = kept(t, g)
		time.Sleep(10 * time.Minute) // it is renewed
		assert.Equal(t, 1, s.Depth("order:42"))
		given(t, readers[0])
		assert.Equal(t, 1, s.Calls("release"))
		assert.Zero(t, testenv.Remembered(g))
		renewed := s.Calls("renew")
		time.Sleep(time.Minute)
		assert.Equal(t, renewed, s.Calls("renew"), "nothing is renewed any more")
		given(t, taken(t, g))

		local := 0
		for _, o := range r.Observations("WaitEnd")[:101] {
			assert.Zero(t, o.Wait.Elapsed)
			if o.Wait.Local {
				local++
			}
		}
		assert.Equal(t, 100, local)
		joined := r.Observations("WaitEnd")[100].Wait
		assert.False(t, joined.Queued)
		assert.Empty(t, r.Events(guard.Handover))
	})
}

// The window is short: who comes later asks, and so waits behind a writer that came before.
func TestShared_ReadersJoinWhileAGrantIsNew(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		a := reading(t, g, 1)
		time.Sleep(guard.DefaultHandoverWindow)
		b := reading(t, g, 2)
		assert.NotEqual(t, a[0].Owner(), b[0].Owner())
		assert.Equal(t, b[0].Owner(), b[1].Owner(), "a new grant is joined in turn")
		assert.Equal(t, 2, s.Calls("acquire"))
		given(t, b...)
		assert.Zero(t, s.Calls("renew"), "what the store said a moment ago is believed")
		c := reading(t, g, 1)
		assert.NotEqual(t, b[0].Owner(), c[0].Owner(), "what is given back is joined by nobody")
		given(t, append(a, c...)...)
		assert.Zero(t, testenv.Remembered(g))
	})
}

// Who leaves asks whether the grant was held to the end, whatever the window: no loss is silent.
func TestShared_ALongWindowHidesNoLossFromAReader(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		readers := reading(t, g, 2)
		time.Sleep(100 * time.Millisecond)
		s.Drop("order:42")
		for _, l := range readers {
			require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
		}
	}, guard.HandoverWindow(10*time.Second))
}

// Callers that say something else of themselves each, as the ID of a request, wait with the claims of
// one process all the same.
func TestShared_MetadataOfEachCallIsNoReasonForAClaim(t *testing.T) {
	for name, c := range map[string]struct {
		kind   guard.LockOption
		claims int
	}{"readers": {guard.Shared(), 1}, "permits": {guard.Limit(3), 3}} {
		t.Run(name, func(t *testing.T) {
			testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
				other, err := guard.NewWithStore(s)
				require.NoError(t, err)
				writer := taken(t, other)
				var all sync.WaitGroup
				for i := range 100 {
					all.Go(func() {
						assert.NoError(t, g.WithLock(t.Context(), testenv.Order, quick, c.kind, guard.Metadata(fmt.Sprint("request ", i))))
					})
				}
				synctest.Wait()
				assert.Len(t, s.Queue("order:42"), c.claims)
				given(t, writer)
				all.Wait()
				require.NoError(t, other.Close())
			})
		})
	}
}

// A window is half a ttl at most, as with exclusive locks.
func TestShared_NobodyJoinsForLongerThanHalfATTL(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		short := guard.TTL(guard.MinTTL)
		a := reading(t, g, 1, short)
		time.Sleep(guard.MinTTL/2 - time.Millisecond)
		b := reading(t, g, 1, short)
		assert.Equal(t, a[0].Owner(), b[0].Owner())
		time.Sleep(time.Millisecond)
		c := reading(t, g, 1, short)
		assert.NotEqual(t, a[0].Owner(), c[0].Owner())
		given(t, append(append(a, b...), c...)...)
	}, guard.HandoverWindow(time.Minute))
}

// Readers that come all the time do not keep a writer out, whichever process it is of.
func TestShared_AWriterIsDelayedByOneWindowAndTheLongestRead(t *testing.T) {
	for name, writer := range map[string]int{"of the same process": 0, "of another process": 1} {
		t.Run(name, func(t *testing.T) {
			testenv.Guards(t, 2, func(t *testing.T, _ *guardtest.Store, gs []*guard.Guard) {
				const read = 20 * time.Millisecond
				stop := make(chan struct{})
				var readers sync.WaitGroup
				readers.Go(func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(time.Millisecond):
							readers.Go(func() {
								assert.NoError(t, gs[0].WithLock(t.Context(), testenv.Order, func(context.Context) error {
									time.Sleep(read)
									return nil
								}, guard.Shared()))
							})
						}
					}
				})
				for range 20 {
					time.Sleep(37 * time.Millisecond)
					begun := time.Now()
					w, err := gs[writer].Acquire(t.Context(), testenv.Order)
					require.NoError(t, err)
					assert.LessOrEqual(t, time.Since(begun), guard.DefaultHandoverWindow+read)
					given(t, w)
				}
				close(stop)
				readers.Wait()
			})
		})
	}
}

func TestShared_WaitingReadersAreOneClaimAndStartTogether(t *testing.T) {
	testenv.Guards(t, 2, func(t *testing.T, s *guardtest.Store, gs []*guard.Guard) {
		writer := taken(t, gs[1])
		leases := make(chan *guard.Lease, 50)
		for range 50 {
			go func() {
				l, err := gs[0].Acquire(t.Context(), testenv.Order, guard.Shared())
				assert.NoError(t, err)
				leases <- l
			}()
		}
		synctest.Wait()
		assert.Len(t, s.Queue("order:42"), 1)
		assert.Equal(t, 50, testenv.Queued(gs[0]))
		time.Sleep(20 * time.Second)
		freed := time.Now()
		given(t, writer)
		var all []*guard.Lease
		for range 50 {
			all = append(all, <-leases)
		}
		assert.Zero(t, time.Since(freed))
		assert.Len(t, owners(all), 1)
		given(t, all...)
	})
}

// What differs between callers and counts for a grant as a whole is not shared. What they only
// say of themselves is no difference.
func TestShared_ReadersShareWhatIsAlike(t *testing.T) {
	for name, c := range map[string]struct {
		window time.Duration
		opts   [2][]guard.LockOption
		alike  bool
	}{
		"alike":      {guard.DefaultHandoverWindow, [2][]guard.LockOption{{guard.Name("a")}, {guard.Name("b"), guard.FailOpen()}}, true},
		"TTL":        {guard.DefaultHandoverWindow, [2][]guard.LockOption{nil, {guard.TTL(time.Minute)}}, false},
		"Metadata":   {guard.DefaultHandoverWindow, [2][]guard.LockOption{{guard.Metadata("a")}, {guard.Metadata("b")}}, true},
		"FixedLease": {guard.DefaultHandoverWindow, [2][]guard.LockOption{{guard.FixedLease()}, {guard.FixedLease()}}, false},
		"MaxHold":    {guard.DefaultHandoverWindow, [2][]guard.LockOption{{guard.MaxHold(time.Hour)}, {guard.MaxHold(time.Hour)}}, false},
		"no window":  {0, [2][]guard.LockOption{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
				got := map[string]bool{}
				_ = g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
					a, _ := guard.FromContext(ctx)
					got[a.Owner()] = true
					return g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
						b, _ := guard.FromContext(ctx)
						got[b.Owner()] = true
						return nil
					}, append(c.opts[1], guard.Shared())...)
				}, append(c.opts[0], guard.Shared())...)
				assert.Equal(t, c.alike, len(got) == 1)
				assert.Zero(t, testenv.Remembered(g))
			}, guard.HandoverWindow(c.window))
		})
	}
}

// MaxHold of several locks is counted when all are there: it is nobody else's.
func TestShared_MaxHoldOfSeveralLocksEndsItsOwnReads(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		ls, err := g.AcquireAll(t.Context(), []guard.KeyFunc{testenv.Order, guard.Key("b")}, guard.Shared(), guard.MaxHold(time.Second))
		require.NoError(t, err)
		other := taken(t, g, guard.Shared())
		<-ls.Context().Done()
		require.ErrorIs(t, ls.Err(), guard.ErrMaxHold)
		require.NoError(t, other.Err())
		given(t, other)
		require.ErrorIs(t, ls.Release(t.Context()), guard.ErrLost)
	})
}

func TestShared_TheLossOfASharedGrantEndsAllItsReaders(t *testing.T) {
	for name, c := range map[string]struct {
		lose  func(s *guardtest.Store, l *guard.Lease)
		most  time.Duration // until they are told
		cause error
	}{
		"dropped": {func(s *guardtest.Store, _ *guard.Lease) { s.Drop("order:42") }, 11 * time.Second, guard.ErrLost},
		"revoked": {func(s *guardtest.Store, l *guard.Lease) { s.Revoke("order:42", l.Fence()) }, 0, guard.ErrRevoked},
		"down":    {func(s *guardtest.Store, _ *guard.Lease) { s.Fail(errors.New("down")) }, 28 * time.Second, guard.ErrLost},
		"found by one": {func(s *guardtest.Store, l *guard.Lease) {
			s.Drop("order:42")
			_ = l.Check(context.Background())
		}, 0, guard.ErrLost},
		"found by one that re-enters": {func(s *guardtest.Store, l *guard.Lease) {
			s.Drop("order:42")
			_, _ = l.Context(), guard.WithLock(l.Context(), testenv.Order, testenv.Nothing, guard.Shared())
		}, 0, guard.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
				readers := reading(t, g, 10)
				inner, err := g.Acquire(readers[3].Context(), testenv.Order, guard.Shared())
				require.NoError(t, err)
				time.Sleep(time.Second)
				begun := time.Now()
				c.lose(s, readers[0])
				for _, l := range append(readers, inner) {
					<-l.Context().Done()
					assert.LessOrEqual(t, time.Since(begun), c.most)
					require.ErrorIs(t, context.Cause(l.Context()), c.cause)
					require.ErrorIs(t, l.Err(), guard.ErrLost)
				}
				synctest.Wait()
				assert.Len(t, r.Events(guard.Loss), 10, "of each hold")
				assert.Empty(t, g.Leases())
				s.Fail(nil)
				next := reading(t, g, 2) // the lost grant is joined by nobody
				for _, l := range append(readers, inner) {
					require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
				}
				require.NoError(t, next[0].Err())
				given(t, next...)
				assert.Zero(t, testenv.Remembered(g))
				assert.Zero(t, s.Depth("order:42"))
			})
		})
	}
}

// A loss that no renewal has found yet is not silent for who leaves before the last one.
func TestShared_AReaderThatLeavesLearnsOfALoss(t *testing.T) {
	for name, c := range map[string]struct {
		lose  func(s *guardtest.Store, l *guard.Lease)
		cause error
	}{
		"dropped": {func(s *guardtest.Store, _ *guard.Lease) { s.Drop("order:42") }, guard.ErrLost},
		"revoked, and nobody is told": {func(s *guardtest.Store, l *guard.Lease) {
			s.Mute(true)
			s.Revoke("order:42", l.Fence())
		}, guard.ErrRevoked},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
				var stays *guard.Lease
				err := g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
					stays = taken(t, g, guard.Shared())
					time.Sleep(pastWindow)
					c.lose(s, stays)
					return nil
				}, guard.Shared())
				require.ErrorIs(t, err, guard.ErrLost)
				require.ErrorIs(t, err, c.cause)
				require.ErrorIs(t, stays.Err(), c.cause, "the others are told as well")
				require.ErrorIs(t, stays.Release(t.Context()), guard.ErrLost)
				synctest.Wait() // the watchdog tells the observers last
				assert.Len(t, r.Events(guard.Loss), 2)
				assert.Zero(t, testenv.Remembered(g))
			})
		})
	}
}

// Who leaves and gets no answer is told, and those inside go on.
func TestShared_AReaderThatLeavesWithoutAnAnswer(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		readers := reading(t, g, 3)
		time.Sleep(pastWindow)
		s.Fail(errors.New("down"))
		var failure *guard.StoreError
		require.ErrorAs(t, readers[0].Release(t.Context()), &failure)
		assert.Equal(t, "check", failure.Op)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, readers[1].Release(ctx), context.Canceled)
		s.Fail(nil)
		require.NoError(t, readers[2].Err())
		given(t, readers[2])
		time.Sleep(time.Second)
		assert.Zero(t, s.Depth("order:42"))
		assert.Zero(t, testenv.Remembered(g))
	})
}

// Two leave at the same time, and each takes the other for one that stays.
func TestShared_TheLastTwoReadersLeaveTogether(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		readers := reading(t, g, 2)
		time.Sleep(pastWindow)
		s.Fail(errors.New("down"))
		var out sync.WaitGroup
		for _, l := range readers {
			out.Go(func() { assert.NoError(t, l.Release(t.Context())) })
		}
		time.Sleep(10 * time.Millisecond)
		s.Fail(nil)
		out.Wait()
		assert.Equal(t, 1, s.Depth("order:42")+s.Calls("release"), "it was given back once")
		given(t, taken(t, g))
	})
}

func TestShared_ShutdownWaitsForAllReadersAndCloseEndsThem(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		readers := reading(t, g, 3)
		over := make(chan error, 1)
		go func() { over <- g.Shutdown(t.Context()) }()
		time.Sleep(time.Second)
		given(t, readers[:2]...)
		synctest.Wait()
		assert.Empty(t, over)
		require.NoError(t, readers[2].Err())
		_, err := g.Acquire(t.Context(), testenv.Order, guard.Shared())
		require.ErrorIs(t, err, guard.ErrClosed)
		require.NoError(t, g.Close())
		require.NoError(t, <-over)
		<-readers[2].Context().Done()
		require.ErrorIs(t, readers[2].Err(), guard.ErrClosed)
		require.ErrorIs(t, readers[2].Release(t.Context()), guard.ErrLost)
		assert.Zero(t, s.Depth("order:42"))
	})
}

func TestShared_LeasesNamesEachReader(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		a := taken(t, g, guard.Shared(), guard.Name("a"))
		inner, err := g.Acquire(a.Context(), testenv.Order, guard.Shared())
		require.NoError(t, err)
		time.Sleep(time.Millisecond)
		b := taken(t, g, guard.Shared(), guard.Name("b"))
		all := g.Leases()
		require.Len(t, all, 2)
		assert.Equal(t, "a", all[0].Name)
		assert.Equal(t, 2, all[0].Depth)
		assert.Equal(t, "b", all[1].Name)
		assert.Equal(t, 1, all[1].Depth)
		assert.Equal(t, time.Millisecond, all[1].Since.Sub(all[0].Since))
		assert.Equal(t, a.Owner(), b.Owner())
		given(t, inner, a, b)
	})
}

// passes is what a key lets in up to a limit.
type passes struct {
	mu     sync.Mutex
	inside int
	most   int
	fences map[uint64]int
}

func (p *passes) visit(ctx context.Context, work time.Duration) error {
	l, _ := guard.FromContext(ctx)
	p.mu.Lock()
	p.inside++
	p.most = max(p.most, p.inside)
	p.fences[l.Fence()]++
	p.mu.Unlock()
	time.Sleep(work)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inside--
	return l.Err()
}

func TestShared_APermitIsPassedOn(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		p := passes{fences: map[uint64]int{}}
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				assert.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
					return p.visit(ctx, time.Millisecond)
				}, guard.Limit(3)))
			})
		}
		all.Wait()
		assert.Equal(t, 3, p.most)
		assert.Len(t, p.fences, 3, "a fence names the permit")
		assert.Equal(t, 3, s.Calls("acquire"), "more could not be granted")
		assert.Equal(t, 3, s.Calls("release"))
		assert.Len(t, r.Events(guard.Handover), 9)
		assert.Zero(t, testenv.Remembered(g))
	})
}

// A lost permit is passed on to nobody, and who waits in this process claims for itself.
func TestShared_APermitThatIsLostIsNotPassedOn(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		a := taken(t, g, guard.Limit(2))
		b := taken(t, g, guard.Limit(2))
		got := make(chan *guard.Lease)
		go func() {
			l, err := g.Acquire(t.Context(), testenv.Order, guard.Limit(2))
			assert.NoError(t, err)
			got <- l
		}()
		synctest.Wait()
		assert.Empty(t, s.Queue("order:42"), "both permits are of this process: it need not ask")
		s.Drop("order:42")
		c := <-got
		assert.NotEqual(t, a.Owner(), c.Owner())
		assert.NotEqual(t, b.Owner(), c.Owner())
		require.NoError(t, c.Err())
		require.ErrorIs(t, a.Release(t.Context()), guard.ErrLost)
		require.ErrorIs(t, b.Release(t.Context()), guard.ErrLost)
		given(t, c)
		assert.Zero(t, testenv.Remembered(g))
	})
}

// A process waits with as many claims as it could have permits, however many callers it has.
func TestShared_WaitingPermitsAreNoMoreClaimsThanTheLimit(t *testing.T) {
	testenv.Guards(t, 2, func(t *testing.T, s *guardtest.Store, gs []*guard.Guard) {
		held := []*guard.Lease{taken(t, gs[1], guard.Limit(3)), taken(t, gs[1], guard.Limit(3)), taken(t, gs[1], guard.Limit(3))}
		p := passes{fences: map[uint64]int{}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				ctx, stays := ctx, i < 2
				if stays {
					ctx = t.Context()
				}
				err := gs[0].WithLock(ctx, testenv.Order, func(ctx context.Context) error {
					return p.visit(ctx, time.Second)
				}, guard.Limit(3))
				if stays {
					assert.NoError(t, err)
				} else {
					assert.ErrorIs(t, err, context.Canceled)
				}
			})
		}
		synctest.Wait()
		assert.Len(t, s.Queue("order:42"), 3)
		cancel()
		synctest.Wait()
		assert.Len(t, s.Queue("order:42"), 2, "nobody wants the third")
		given(t, held...)
		all.Wait()
		assert.Equal(t, 2, p.most, "they start together")
	})
}

func TestShared_ACallThatDoesNotWaitKnowsThatAllPermitsAreOfItsProcess(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		mine := []guard.LockOption{guard.Limit(2), guard.Metadata("export")}
		a, b := taken(t, g, mine...), taken(t, g, mine...)
		asked := s.Calls("acquire")
		busy := kept(t, g, mine...)
		assert.Equal(t, 2, busy.Limit)
		assert.Equal(t, "export", busy.Holder)
		assert.Equal(t, asked, s.Calls("acquire"))
		given(t, a)
		given(t, taken(t, g, mine...), b)
		assert.Zero(t, testenv.Remembered(g))
	})
}

// An expired MaxHold is of one holder of a permit, not of the next.
func TestShared_APermitIsPassedOnWithoutItsMaxHold(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		one := guard.Limit(2)
		a, b := taken(t, g, one, guard.MaxHold(time.Second)), taken(t, g, one)
		got := make(chan *guard.Lease)
		go func() {
			l, err := g.Acquire(t.Context(), testenv.Order, one)
			assert.NoError(t, err)
			got <- l
		}()
		synctest.Wait()
		given(t, a)
		c := <-got
		assert.Equal(t, a.Owner(), c.Owner())
		time.Sleep(time.Minute)
		require.NoError(t, c.Err())
		assert.Equal(t, 2, s.Calls("acquire"))
		given(t, b, c)
	})
}

// A grant that is over is joined by nobody, however new it is.
func TestShared_NobodyJoinsALostGrant(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		lost := taken(t, g, guard.Shared())
		s.Drop("order:42")
		require.ErrorIs(t, lost.Check(t.Context()), guard.ErrLost)
		next := taken(t, g, guard.Shared())
		assert.NotEqual(t, lost.Owner(), next.Owner())
		require.NoError(t, next.Err())
		require.ErrorIs(t, lost.Release(t.Context()), guard.ErrLost)
		given(t, next)
	}, guard.HandoverWindow(time.Second))
}

// betweenObserver runs something when a caller has the lock, and its hold has not begun.
type betweenObserver struct {
	guard.NopObserver

	run func()
}

func (o *betweenObserver) WaitEnd(context.Context, guard.Lock, guard.WaitResult) { o.run() }

// The grant is lost when a reader has joined it, and before its work begins.
func TestShared_AReaderThatBeginsUnderALostGrantIsTold(t *testing.T) {
	between := &betweenObserver{run: func() {}}
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		first := taken(t, g, guard.Shared())
		between.run = func() {
			s.Drop("order:42")
			assert.ErrorIs(t, first.Check(t.Context()), guard.ErrLost)
		}
		second := taken(t, g, guard.Shared())
		assert.Equal(t, first.Owner(), second.Owner())
		<-second.Context().Done()
		require.ErrorIs(t, context.Cause(second.Context()), guard.ErrLost)
		for _, l := range []*guard.Lease{first, second} {
			require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
		}
		assert.Zero(t, testenv.Remembered(g))
	}, guard.Observe(between))
}

// What the store told one who left is no word for who leaves later.
func TestShared_AReaderThatLeavesLaterAsksAnew(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		readers := reading(t, g, 3)
		time.Sleep(pastWindow)
		given(t, readers[0])
		time.Sleep(pastWindow)
		s.Drop("order:42")
		require.ErrorIs(t, readers[1].Release(t.Context()), guard.ErrLost)
		require.ErrorIs(t, readers[2].Err(), guard.ErrLost)
		require.ErrorIs(t, readers[2].Release(t.Context()), guard.ErrLost)
	})
}

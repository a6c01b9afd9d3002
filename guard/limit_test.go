package guard_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// taken acquires what has to be there at once.
func taken(t *testing.T, g *guard.Guard, opts ...guard.LockOption) *guard.Lease {
	t.Helper()
	l, err := g.Acquire(t.Context(), testenv.Order, append(opts, guard.NoWait())...)
	require.NoError(t, err)
	return l
}

// kept acquires what is not to be had.
func kept(t *testing.T, g *guard.Guard, opts ...guard.LockOption) *guard.BusyError {
	t.Helper()
	_, err := g.Acquire(t.Context(), testenv.Order, append(opts, guard.NoWait())...)
	var busy *guard.BusyError
	require.ErrorAs(t, err, &busy)
	return busy
}

func given(t *testing.T, leases ...*guard.Lease) {
	t.Helper()
	for _, l := range leases {
		require.NoError(t, l.Release(context.WithoutCancel(t.Context())))
	}
}

func TestLimit_AtMostNAtOnce(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, r *guardtest.Recorder) {
		three := []guard.LockOption{guard.Limit(3), guard.Metadata("export")}
		a, b, c := taken(t, g, three...), taken(t, g, three...), taken(t, g, three...)
		assert.Equal(t, 3, a.Limit())
		assert.NotEqual(t, a.Owner(), b.Owner())
		assert.Less(t, a.Fence(), b.Fence())
		busy := kept(t, g, three...)
		assert.Equal(t, 3, busy.Limit)
		assert.Equal(t, "export", busy.Holder)

		got := make(chan *guard.Lease)
		go func() {
			l, err := g.Acquire(t.Context(), testenv.Order, guard.Limit(3))
			assert.NoError(t, err)
			got <- l
		}()
		time.Sleep(10 * time.Minute) // all are renewed
		synctest.Wait()
		assert.Equal(t, 1, testenv.Queued(g))
		for _, l := range []*guard.Lease{a, b, c} {
			require.NoError(t, l.Err())
		}
		freed := time.Now()
		given(t, b)
		d := <-got
		assert.Zero(t, time.Since(freed), "it was told")
		given(t, a, c, d)
		assert.Zero(t, testenv.Remembered(g))
		given(t, taken(t, g))

		for _, o := range r.Observations("HoldEnd") {
			require.NoError(t, o.Hold.Err)
		}
	})
}

func TestLimit_ReadersAndWriters(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		a, b := taken(t, g, guard.Shared()), taken(t, g, guard.Shared())
		assert.Equal(t, 0, a.Limit())
		assert.Zero(t, kept(t, g).Limit)
		writer := make(chan *guard.Lease)
		go func() {
			l, err := g.Acquire(t.Context(), testenv.Order)
			assert.NoError(t, err)
			writer <- l
		}()
		synctest.Wait()
		time.Sleep(guard.DefaultHandoverWindow)
		_ = kept(t, g, guard.Shared()) // it would pass the writer
		readers := make(chan *guard.Lease)
		for range 3 {
			go func() {
				l, err := g.Acquire(t.Context(), testenv.Order, guard.Shared())
				assert.NoError(t, err)
				readers <- l
			}()
		}
		synctest.Wait()
		given(t, a)
		given(t, b)
		w := <-writer
		assert.Equal(t, 1, w.Limit())
		assert.Greater(t, w.Fence(), b.Fence())
		_ = kept(t, g, guard.Shared())
		given(t, w)
		c, d, e := <-readers, <-readers, <-readers
		assert.Greater(t, min(c.Fence(), d.Fence(), e.Fence()), w.Fence())
		_ = kept(t, g)
		given(t, c, d, e)
		assert.Zero(t, testenv.Remembered(g))
	})
}

func TestLimit_TheStrictestInsideRules(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		two := taken(t, g, guard.Limit(2))
		five := taken(t, g, guard.Limit(5))
		_ = kept(t, g, guard.Limit(5))
		_ = kept(t, g, guard.Shared())
		given(t, two)
		reader := taken(t, g, guard.Shared())
		_ = kept(t, g, guard.Limit(2))
		given(t, five, reader)
		one := taken(t, g, guard.Limit(1))
		assert.Equal(t, 1, one.Limit())
		_ = kept(t, g, guard.Limit(5))
		given(t, one)
	})
}

// TestLimit_ALimitedCallGivesUp covers a wait that ends by its time, by its context, and by Close.
func TestLimit_ALimitedCallGivesUp(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		a := taken(t, g, guard.Limit(2))
		b := taken(t, g, guard.Limit(2))
		_, err := g.Acquire(t.Context(), testenv.Order, guard.Limit(2), guard.Wait(time.Second))
		var busy *guard.BusyError
		require.ErrorAs(t, err, &busy)
		assert.Equal(t, 2, busy.Limit)
		assert.Equal(t, time.Second, busy.Waited)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = g.Acquire(ctx, testenv.Order, guard.Shared())
		require.ErrorIs(t, err, guard.ErrBusy)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		assert.Empty(t, s.Queue("order:42"), "nothing of them waits")
		given(t, a, b)
		assert.Zero(t, testenv.Remembered(g))
	})
}

func TestLimit_ALimitedHoldThatIsLostEndsItsWorkAlone(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		renewed := taken(t, g, guard.Shared(), guard.TTL(3*time.Second))
		fixed := taken(t, g, guard.Shared(), guard.FixedLease(), guard.TTL(3*time.Second))
		capped := taken(t, g, guard.Limit(3), guard.MaxHold(2*time.Second), guard.TTL(3*time.Second))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.ErrorIs(t, capped.Err(), guard.ErrMaxHold)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.ErrorIs(t, fixed.Err(), guard.ErrMaxHold)
		require.NoError(t, renewed.Err())
		given(t, renewed)
		w := taken(t, g) // both others are over
		given(t, w)
		require.ErrorIs(t, fixed.Release(t.Context()), guard.ErrLost)
		require.ErrorIs(t, capped.Release(t.Context()), guard.ErrLost)
	})
}

// TestLimit_ReentryUnderALimit is the rule: a call joins a hold that is at least as strict.
func TestLimit_ReentryUnderALimit(t *testing.T) {
	exclusively, upTo := []guard.LockOption(nil), func(n int) []guard.LockOption { return []guard.LockOption{guard.Limit(n)} }
	shared := []guard.LockOption{guard.Shared()}
	for _, c := range []struct {
		name         string
		outer, inner []guard.LockOption
		held, wanted int // of the UpgradeError, if any
	}{
		{"exclusive in exclusive", exclusively, exclusively, 0, 0},
		{"a limit in exclusive", exclusively, upTo(3), 0, 0},
		{"a limit of 1 in exclusive", exclusively, upTo(1), 0, 0},
		{"shared in exclusive", exclusively, shared, 0, 0},
		{"the same limit", upTo(3), upTo(3), 0, 0},
		{"a higher limit", upTo(3), upTo(4), 0, 0},
		{"shared in a limit", upTo(3), shared, 0, 0},
		{"shared in shared", shared, shared, 0, 0},
		{"a lower limit", upTo(3), upTo(2), 3, 2},
		{"exclusive in a limit", upTo(3), exclusively, 3, 1},
		{"a limit in shared", shared, upTo(9), 0, 9},
		{"exclusive in shared", shared, exclusively, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
				begun, ran := time.Now(), false
				err := g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
					outer, _ := guard.FromContext(ctx)
					return g.WithLock(ctx, testenv.Order, func(ctx context.Context) error {
						ran = true
						inner, _ := guard.FromContext(ctx)
						assert.Equal(t, outer.Limit(), inner.Limit())
						assert.Equal(t, outer.Fence(), inner.Fence())
						return nil
					}, append(c.inner, guard.Name("inner"))...)
				}, c.outer...)
				assert.Zero(t, time.Since(begun))
				assert.Equal(t, c.wanted == 0, ran)
				if c.wanted == 0 {
					require.NoError(t, err)
				} else {
					var upgrade *guard.UpgradeError
					require.ErrorAs(t, err, &upgrade)
					require.ErrorIs(t, err, guard.ErrUpgrade)
					require.NotErrorIs(t, err, guard.ErrBusy)
					assert.Equal(t, guard.UpgradeError{Name: "inner", Key: "order:42", Held: c.held, Wanted: c.wanted}, *upgrade)
					assert.Equal(t, "lock_upgrade", upgrade.ErrorType())
					assert.NotContains(t, err.Error(), "order:42")
				}
				assert.Zero(t, s.Depth("order:42"))
			})
		})
	}
}

func TestLimit_AReaderReentersBesideAWaitingWriter(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		var writer sync.WaitGroup
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			writer.Go(func() {
				assert.NoError(t, g.WithLock(t.Context(), testenv.Order, func(context.Context) error { return nil }))
			})
			synctest.Wait()
			return g.WithLock(ctx, testenv.Order, func(context.Context) error { return nil }, guard.Shared())
		}, guard.Shared()))
		writer.Wait()
	})
}

// TestLimit_HeldSeesExclusiveLeasesOnly is for code that asserts a lock before it writes.
func TestLimit_HeldSeesExclusiveLeasesOnly(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		for _, o := range []guard.LockOption{guard.Shared(), guard.Limit(2)} {
			require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
				_, held := guard.Held(ctx, "order:42")
				assert.False(t, held)
				_, fenced := guard.Fence(ctx)
				assert.False(t, fenced)
				l, _ := guard.FromContext(ctx)
				assert.Positive(t, l.Fence())
				require.NoError(t, l.Err())
				return nil
			}, o))
		}
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			outer, _ := guard.Fence(ctx)
			return g.WithLock(ctx, guard.Key("tenant:7"), func(ctx context.Context) error {
				inner, fenced := guard.Fence(ctx)
				assert.True(t, fenced)
				assert.Equal(t, outer, inner, "a permit hides no fence")
				_, held := guard.Held(ctx, "order:42")
				assert.True(t, held)
				return nil
			}, guard.Limit(5))
		}))
	})
}

func TestLimit_BadLimits(t *testing.T) {
	g := guardtest.NewGuard(t)
	for name, c := range map[string]struct {
		opts []guard.LockOption
		says string
	}{
		"none":           {[]guard.LockOption{guard.Limit(0)}, "guard: Limit 0 is outside 1 to 10000"},
		"negative":       {[]guard.LockOption{guard.Limit(-1)}, "guard: Limit -1 is outside 1 to 10000"},
		"too many":       {[]guard.LockOption{guard.Limit(10_001)}, "guard: Limit 10001 is outside 1 to 10000"},
		"both":           {[]guard.LockOption{guard.Limit(2), guard.Shared()}, "guard: Limit does not go with Shared: say one of them"},
		"with MinHold":   {[]guard.LockOption{guard.MinHold(time.Second), guard.Limit(2)}, "guard: MinHold does not go with Limit or Shared: it keeps the whole key"},
		"both, reversed": {[]guard.LockOption{guard.Shared(), guard.Limit(1)}, "guard: Limit does not go with Shared: say one of them"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := g.Acquire(t.Context(), testenv.Order, c.opts...)
			require.ErrorIs(t, err, guard.ErrOption)
			require.EqualError(t, err, c.says)
			require.EqualError(t, guard.CheckOptions(c.opts...), c.says)
		})
	}
	for _, o := range []guard.LockOption{guard.Limit(3), guard.Limit(1), guard.Shared()} {
		_, err := guard.NewWithStore(guardtest.NewStore(), o)
		require.ErrorIs(t, err, guard.ErrOption)
		assert.ErrorContains(t, err, "is for a call or a rule, not for a Guard")
	}
	l, err := g.Acquire(t.Context(), testenv.Order, guard.Limit(guard.MaxLimit), guard.Limit(7))
	require.NoError(t, err)
	assert.Equal(t, 7, l.Limit(), "the last one counts")
	given(t, l)
}

func TestLimit_AQuorumRefusesLimits(t *testing.T) {
	clients := make([]redis.UniversalClient, 3)
	for i := range clients {
		clients[i] = guardtest.NewRedis(t)
	}
	g := testenv.GuardOnServers(t, clients)
	for want, o := range map[string]guard.LockOption{
		"Limit 3 does not go with a quorum": guard.Limit(3), "Shared does not go with a quorum": guard.Shared(),
	} {
		_, err := g.Acquire(t.Context(), testenv.Order, o)
		require.ErrorIs(t, err, guard.ErrOption)
		assert.ErrorContains(t, err, want)
	}
	given(t, taken(t, g, guard.Limit(1)))
}

func TestLimit_ObserversLearnTheMode(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, r *guardtest.Recorder) {
		given(t, taken(t, g, guard.Shared()), taken(t, g, guard.Limit(3)))
		given(t, taken(t, g, guard.Limit(1)))
		modes := map[guard.Lock]bool{}
		for _, o := range r.Observations() {
			modes[o.Lock] = true
		}
		assert.Equal(t, map[guard.Lock]bool{
			{Name: "default", Key: "order:42", Mode: guard.ModeShared}:          true,
			{Name: "default", Key: "order:42", Mode: guard.ModeLimit, Limit: 3}: true,
			{Name: "default", Key: "order:42"}:                                  true,
		}, modes)
	})
}

// TestLimit_FailOpenGoesWithALimit is for limits that protect something which can bear more.
func TestLimit_FailOpenGoesWithALimit(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		s.Fail(errors.New("down"))
		ran := false
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			_, has := guard.FromContext(ctx)
			assert.False(t, has)
			ran = true
			return nil
		}, guard.Limit(3), guard.FailOpen()))
		assert.True(t, ran)
		assert.Len(t, r.Events(guard.FailedOpen), 1)
		s.Fail(nil)
	})
}

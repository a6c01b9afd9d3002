package guard_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/guardhook"
)

func TestLimit_AtMostNAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		three := []guard.LockOption{guard.Limit(3), guard.Metadata("export")}
		a, b, c := g.take(three...), g.take(three...), g.take(three...)
		assert.EqualValues(t, 3, guardhook.Limit(a))
		assert.NotEqual(t, testenv.Owner(a), testenv.Owner(b))
		assert.Less(t, a.Fence(), b.Fence())
		asked := g.s.Calls("acquire")
		busy := g.busy(three...)
		assert.EqualValues(t, 3, busy.Limit)
		assert.Equal(t, "export", busy.Holder)
		assert.Equal(t, asked, g.s.Calls("acquire"), "all permits are of this process")
		assert.Equal(t, time.Second, g.busy(guard.Limit(3), guard.Wait(time.Second)).Waited)

		next := g.later(guard.Limit(3))
		time.Sleep(10 * time.Minute) // all are renewed
		assert.Equal(t, 1, testenv.Queued(g.Guard))
		freed := time.Now()
		g.free(b)
		d := <-next
		assert.Zero(t, time.Since(freed))
		g.free(a, c, d)
		g.knowsNothing()
		g.free(g.take(guard.Limit(10_000), guard.Limit(7)))
		for _, o := range g.r.Observations("HoldEnd") {
			require.NoError(t, o.Hold.Err)
		}
	})
}

// The later Limit counts.
func TestLimit_TheLaterLimitCounts(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		l := g.take(guard.Limit(3), guard.Limit(1))
		assert.Equal(t, guardstore.Exclusive, guardhook.Limit(l))
		g.free(l)
	})
}

// choosy is a store that has limits, and no readers.
type choosy struct{ *store }

func (choosy) CheckLimit(l guardstore.Limit) error {
	if l == guardstore.Unlimited {
		return errBoom
	}
	return nil
}

func TestLimit_AStoreMayRefuseOne(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		choosy := testenv.GuardOnStore(t, choosy{g.s})
		require.NoError(t, choosy.WithLock(t.Context(), k, nothing, guard.Limit(2)))
		require.EqualError(t, choosy.WithLock(t.Context(), k, never(t), guard.Shared()), "guard: Shared boom")
	})
}

// A fence names the permit, and MaxHold is of one holder of it.
func TestLimit_APermitIsPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		two := guard.Limit(2)
		a, b := g.take(two, guard.MaxHold(time.Second)), g.take(two)
		next := g.later(two)
		assert.Empty(t, g.s.Queue("k"), "both permits are of this process: it need not ask")
		g.free(a)
		c := <-next
		assert.Equal(t, testenv.Owner(a), testenv.Owner(c))
		assert.Equal(t, a.Fence(), c.Fence())
		assert.Len(t, g.r.Events(guard.EventHandover), 1)
		time.Sleep(time.Minute)
		require.NoError(t, c.Err())
		assert.Equal(t, 2, g.s.Calls("acquire"))
		g.free(b, c)
		g.knowsNothing()
	})
}

func TestLimit_ReadersAndWriters(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		a, b := g.take(guard.Shared()), g.take(guard.Shared())
		assert.Equal(t, guardstore.Unlimited, guardhook.Limit(a))
		assert.Zero(t, g.busy().Limit)
		writer := g.later()
		g.free(g.acquire(a.Context(), "k", guard.Shared())) // re-entry passes the writer
		time.Sleep(5 * time.Millisecond)
		_ = g.busy(guard.Shared()) // another reader does not
		c, d := g.later(guard.Shared()), g.later(guard.Shared())
		g.free(a, b)
		w := <-writer
		assert.Equal(t, guardstore.Exclusive, guardhook.Limit(w))
		assert.Greater(t, w.Fence(), b.Fence())
		_ = g.busy(guard.Shared())
		g.free(w)
		first, second := <-c, <-d
		assert.Greater(t, min(first.Fence(), second.Fence()), w.Fence())
		_ = g.busy()
		g.free(first, second)
		g.knowsNothing()
	})
}

// A call joins a hold that is at least as strict.
func TestLimit_ReentryUnderALimit(t *testing.T) {
	for _, c := range []struct {
		name         string
		outer, inner guard.LockOption
		refused      string // the OptionError, if any
	}{
		{"exclusive in exclusive", nil, nil, ""},
		{"a limit in exclusive", nil, guard.Limit(3), ""},
		{"a limit of 1 in exclusive", nil, guard.Limit(1), ""},
		{"shared in exclusive", nil, guard.Shared(), ""},
		{"the same limit", guard.Limit(3), guard.Limit(3), ""},
		{"a higher limit", guard.Limit(3), guard.Limit(4), ""},
		{"shared in a limit", guard.Limit(3), guard.Shared(), ""},
		{"shared in shared", guard.Shared(), guard.Shared(), ""},
		{"a lower limit", guard.Limit(3), guard.Limit(2), "with Limit(3), and the call wants it with Limit(2)"},
		{"exclusive in a limit", guard.Limit(3), nil, "with Limit(3), and the call wants it with Limit(1), exclusively"},
		{"a limit in shared", guard.Shared(), guard.Limit(9), "with Shared, and the call wants it with Limit(9)"},
		{"exclusive in shared", guard.Shared(), nil, "with Shared, and the call wants it with Limit(1), exclusively"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, g *env) {
				ran := false
				outer := g.take(c.outer)
				err := g.WithLock(outer.Context(), k, func(ctx context.Context) error {
					ran = true
					inner, _ := guard.FromContext(ctx)
					assert.Equal(t, guardhook.Limit(outer), guardhook.Limit(inner))
					assert.Equal(t, outer.Fence(), inner.Fence())
					return nil
				}, c.inner, guard.Name("inner"))
				assert.Equal(t, c.refused == "", ran)
				if c.refused == "" {
					require.NoError(t, err)
				} else {
					is(t, err, guard.ErrOption, guard.ErrBusy)
					require.EqualError(t, err, "guard: ctx holds the key "+c.refused+": release it first")
				}
				g.free(outer)
				assert.Zero(t, g.s.Depth("k"))
			})
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
			around, found := guard.FromContext(l.Context())
			assert.True(t, found)
			assert.Same(t, l, around)
			assert.Positive(t, l.Fence())
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
		_, held = guard.Held(inner.Context(), guard.Key("other"))
		assert.False(t, held)
		assert.Equal(t, []*guard.Lease{outer}, slices.Collect(guard.ExclusiveLeases(inner.Context())))
		g.free(inner, outer)
		_, held = guard.Held(inner.Context(), guard.Key("k"))
		assert.False(t, held, "it was released")
		_, fenced = guard.Fence(inner.Context())
		assert.True(t, fenced)
		assert.Len(t, slices.Collect(guard.ExclusiveLeases(inner.Context())), 1, "held or not")
	})
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
		err := g.WithLock(t.Context(), k, never(t), o)
		require.ErrorIs(t, err, guard.ErrOption)
		assert.ErrorContains(t, err, want)
	}
	require.NoError(t, g.WithLock(t.Context(), k, nothing, guard.Limit(1)))
}

func TestLimit_ObserversLearnTheMode(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		g.free(g.take(guard.Shared()), g.take(guard.Limit(3)))
		g.free(g.take(guard.Limit(1)))
		modes := map[guard.Lock]bool{}
		for _, o := range g.r.Observations() {
			modes[o.Lock] = true
		}
		assert.Equal(t, map[guard.Lock]bool{
			{Key: "k", Limit: guardstore.Unlimited}: true,
			{Key: "k", Limit: 3}:                    true,
			{Key: "k"}:                              true,
		}, modes)
	})
}

// As many goroutines as the limit allows never find a key busy because of what their process is giving back at that
// moment: a release that is not waited for, or a claim that no caller needs any more.
func TestLimit_OwnReleaseInFlightIsNotBusy(t *testing.T) {
	for _, limit := range []int{1, 2, 3} {
		bubble(t, func(t *testing.T, g *env) {
			var mu sync.Mutex
			rnd := rand.New(rand.NewPCG(1, uint64(limit)))
			pause := func() {
				mu.Lock()
				d := time.Duration(rnd.IntN(4)) * 500 * time.Microsecond
				mu.Unlock()
				time.Sleep(d)
			}
			takes := func(context.Context, string, string) error { pause(); return nil }
			g.s.trouble(takes, takes)
			var callers sync.WaitGroup
			for range limit {
				callers.Go(func() {
					for i := range 500 {
						work := func(context.Context) error { pause(); return nil }
						assert.NoError(t, g.WithLock(t.Context(), k, work, guard.Limit(limit), guard.AsyncRelease(), guard.NoWait()), "limit %d, call %d", limit, i)
					}
				})
			}
			callers.Wait()
		})
	}
}

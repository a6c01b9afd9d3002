package inspect_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

func nothing(context.Context) error { return nil }

func TestRevoke_EndsAHoldAndTheNextGetsIn(t *testing.T) {
	r := newEnv(t)
	h := r.hold(r.guard(), "k")
	next := r.start(r.guard(), "k")
	r.await("k", 1, 1)
	r.revokes("k", r.fence("k"), true)
	h.awaitEnd()
	close(h.leave)
	err := <-h.result
	require.ErrorIs(t, err, guard.ErrRevoked)
	require.ErrorIs(t, err, guard.ErrLost)
	var lost *guard.LostError
	require.ErrorAs(t, err, &lost)
	assert.Equal(t, "lock_revoked", lost.ErrorType())
	(<-next).finish(nil)
}

func TestRevoke_AHungHolderKeepsItsLockUntilItsLeaseIsOver(t *testing.T) {
	r := newEnv(t)
	h := r.hold(r.guard(), "k", guard.TTL(1500*time.Millisecond))
	next := r.start(r.guard(), "k")
	r.await("k", 1, 1)
	r.revokes("k", r.fence("k"), true)
	h.awaitEnd() // and does not end
	deadline := h.Deadline()
	in := <-next
	assert.False(t, time.Now().Before(deadline), "the next caller got in before the lease was over")
	in.finish(nil)
	h.finish(guard.ErrRevoked)
}

// The message does not come: the next renewal finds out.
func TestRevoke_IsFoundByTheNextRenewal(t *testing.T) {
	r := newEnv(t)
	h := r.hold(r.withoutMessages(), "k", guard.TTL(600*time.Millisecond))
	r.revokes("k", r.fence("k"), true)
	h.ends(guard.ErrRevoked)
	assert.Zero(t, r.rdb.Exists(t.Context(), "redlatch:{k}").Val(), "its release frees the key")
}

// The work ends before the revocation reaches it.
func TestRevoke_AReleaseOfARevokedHoldSaysSo(t *testing.T) {
	r := newEnv(t)
	withoutMessages, other := r.withoutMessages(), r.guard()
	for key, waits := range map[string]bool{"nobody waits": false, "somebody waits": true} {
		h := r.hold(withoutMessages, key)
		var next <-chan held
		if waits {
			next = r.start(other, key)
			r.await(key, 1, 1)
		}
		r.revokes(key, h.Fence(), true)
		h.finish(guard.ErrRevoked)
		if !waits {
			next = r.start(other, key)
		}
		in := <-next
		assert.Greater(t, in.Fence(), h.Fence())
		in.finish(nil)
	}
}

func TestRevoke_ARevokedHoldIsNotEnteredAgain(t *testing.T) {
	r := newEnv(t)
	g := r.withoutMessages()
	h := r.hold(g, "k")
	inner, err := g.Acquire(h.ctx, guard.Key("k"))
	require.NoError(t, err)
	info := r.get("k")
	assert.Equal(t, 2, info.Holders[0].Depth)
	r.revokes("k", info.Holders[0].Fence, true)
	err = g.WithLock(h.ctx, guard.Key("k"), func(context.Context) error { t.Error("ran"); return nil })
	require.ErrorIs(t, err, guard.ErrRevoked)
	<-inner.Context().Done()
	require.ErrorIs(t, inner.Release(t.Context()), guard.ErrRevoked)
	h.ends(guard.ErrRevoked)
}

// Redis knows the fence under which the process got the lock, not those that it handed over.
func TestRevoke_AfterAHandOver(t *testing.T) {
	r := newEnv(t)
	g := r.guard(guard.HandoverWindow(time.Minute))
	first := r.hold(g, "k")
	next := r.start(g, "k")
	require.Eventually(t, func() bool {
		all := g.Holds()
		return len(all) == 1 && all[0].Waiting == 1
	}, patience, time.Millisecond)
	first.finish(nil)
	second := <-next
	require.Greater(t, second.Fence(), first.Fence())
	r.revokes("k", second.Fence(), false)
	require.NoError(t, second.ctx.Err())
	r.revokes("k", first.Fence(), true)
	second.ends(guard.ErrRevoked)
}

func TestRevoke_TwiceAndLate(t *testing.T) {
	r := newEnv(t)
	g := r.guard()
	h := r.hold(g, "k")
	for range 3 {
		r.revokes("k", h.Fence(), true)
	}
	holder := r.get("k").Holders[0]
	assert.Equal(t, h.Fence(), holder.Fence, "it is still named by its fence")
	assert.True(t, holder.Revoked)
	assert.False(t, holder.Since.IsZero())
	r.revokes("k", h.Fence()+1, false)
	h.finish(guard.ErrRevoked)
	r.revokes("k", h.Fence(), false)

	next := r.hold(g, "k")
	before := r.rdb.HGetAll(t.Context(), "redlatch:{k}").Val()
	r.revokes("k", h.Fence(), false)
	r.breaks("k", h.Fence(), false)
	assert.Equal(t, before, r.rdb.HGetAll(t.Context(), "redlatch:{k}").Val())
	for _, owner := range []string{testenv.Owner(h.Lease), testenv.Owner(next.Lease)} { // a late message, and a forged one
		instance, _, _ := strings.Cut(owner, "-")
		require.NoError(t, r.rdb.Publish(t.Context(), "redlatch:grant:"+instance, "!"+owner).Err())
	}
	require.NoError(t, next.Check(t.Context()))
	require.NoError(t, next.ctx.Err())
	next.finish(nil)
}

// The reply to an acquire is lost, and the hold is revoked before its caller knows of it: no work runs under that
// fence, and the next claim of the caller gets the key.
func TestRevoke_OfAHoldThatNobodyKnowsOf(t *testing.T) {
	r := newEnv(t)
	proxy := redistest.NewProxy(t, r.server.Addr())
	g := guardOn(t, proxy.Client(t), guard.StoreTimeout(patience))
	require.NoError(t, g.WithLock(t.Context(), guard.Key("other"), nothing))
	lost := proxy.SwallowReply(redistest.Contains("redlatch:{k}:queue"), 1)
	begun := r.start(g, "k")
	<-lost
	proxy.Freeze() // the next attempt does not overtake what follows
	fence := r.fence("k")
	_, err := r.Revoke(t.Context(), "k", fence)
	require.NoError(t, err)
	proxy.Thaw()
	h, in := <-begun
	require.True(t, in, "it waits for itself")
	assert.GreaterOrEqual(t, h.Fence(), fence)
	h.finish(nil)
}

func TestRevoke_WhenMemoryIsFull(t *testing.T) {
	r := newEnv(t)
	g := r.guard()
	h, broken := r.hold(g, "k"), r.hold(g, "l")
	require.NoError(t, r.rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	r.revokes("k", h.Fence(), true)
	r.breaks("l", broken.Fence(), true)
	require.NoError(t, r.rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	h.ends(guard.ErrRevoked)
	broken.ends(guard.ErrRevoked)
}

// A key that only a MinHold keeps is a lock like others. A hold that was revoked keeps nothing.
func TestRevoke_AndMinHold(t *testing.T) {
	r := newEnv(t)
	h := r.hold(r.guard(), "ended", guard.MinHold(time.Hour))
	r.revokes("ended", h.Fence(), true)
	h.ends(guard.ErrRevoked)
	assert.Empty(t, r.get("ended").Holders)

	before := time.Now()
	kept := r.hold(r.guard(guard.Instance("web-1")), "kept", guard.MinHold(time.Hour), guard.Metadata("nightly"))
	kept.finish(nil)
	r.revokes("kept", kept.Fence()+1, false)
	r.revokes("kept", kept.Fence(), true)
	info := r.get("kept")
	require.Len(t, info.Holders, 1)
	got := info.Holders[0]
	assert.Greater(t, got.Left, 59*time.Minute)
	assert.WithinDuration(t, before, got.Since, patience)
	got.Left, got.Since = 0, time.Time{}
	assert.Equal(t, inspect.Holder{Instance: "web-1", Metadata: "nightly", Fence: kept.Fence(), Limit: 1, Revoked: true}, got, "no call is open")
	assert.Equal(t, []string{"kept"}, r.all("ke*"))

	next := r.start(r.guard(), "kept")
	r.await("kept", 1, 1)
	r.breaks("kept", kept.Fence(), true)
	(<-next).finish(nil)
}

// Several holders are shown, revoked and broken one by one.
func TestRevoke_OneOfSeveralHolders(t *testing.T) {
	r := newEnv(t)
	g, key := r.guard(), guard.Key("rates")
	var leases []*guard.Lease
	for _, opts := range [][]guard.LockOption{
		{guard.Shared(), guard.Metadata("a b")}, {guard.Limit(3)}, {guard.Shared(), guard.MaxHold(50 * time.Millisecond), guard.TTL(100 * time.Millisecond)},
	} {
		l, err := g.Acquire(t.Context(), key, opts...)
		require.NoError(t, err)
		leases = append(leases, l)
	}
	<-leases[2].Context().Done() // its deadline is before its ttl
	next := r.start(g, "rates", guard.Limit(1))
	info := r.await("rates", 2, 1)
	assert.Equal(t, 1, info.Waiting[0].Limit)
	for n, want := range []inspect.Holder{{Metadata: "a b", Limit: 0}, {Limit: 3}} {
		got := info.Holders[n]
		assert.Equal(t, want.Limit, got.Limit)
		assert.Equal(t, want.Metadata, got.Metadata)
		assert.Equal(t, leases[n].Fence(), got.Fence)
		assert.Greater(t, got.Left, 20*time.Second)
		assert.WithinDuration(t, info.Now, got.Since, patience)
	}
	r.revokes("rates", leases[2].Fence()+1_000_000, false)
	for range 2 {
		r.revokes("rates", leases[0].Fence(), true)
	}
	<-leases[0].Context().Done()
	require.ErrorIs(t, leases[0].Err(), guard.ErrRevoked)
	require.NoError(t, leases[1].Check(t.Context()), "the other one is not touched")
	r.breaks("rates", leases[1].Fence(), true)
	<-leases[1].Context().Done()
	require.ErrorIs(t, leases[1].Err(), guard.ErrLost)
	_ = leases[0].Release(t.Context())
	(<-next).finish(nil)
}

// onQuorum holds a key on three servers.
func onQuorum(t *testing.T, ttl time.Duration) (servers []*env, g *guard.Guard, h held) {
	t.Helper()
	t.Parallel()
	var clients []redis.UniversalClient
	for _, s := range redistest.StartN(t, 3) {
		clients = append(clients, s.Client(t))
		rdb := s.Client(t)
		servers = append(servers, &env{t, inspect.New(rdb), s, rdb})
	}
	g = testenv.GuardOnServers(t, clients)
	h = servers[0].hold(g, "k", guard.TTL(ttl))
	for _, r := range servers {
		r.await("k", 1, 0)
	}
	return servers, g, h
}

func TestRevoke_OnAQuorumTakesAMajority(t *testing.T) {
	servers, g, h := onQuorum(t, 900*time.Millisecond)
	servers[0].revokes("k", servers[0].fence("k"), true)
	require.NoError(t, h.Check(t.Context()), "a majority holds")
	for before := h.Deadline(); !h.Deadline().After(before.Add(300 * time.Millisecond)); time.Sleep(10 * time.Millisecond) {
		require.NoError(t, h.Err(), "renewals go on")
	}
	for _, r := range servers {
		if info := r.get("k"); len(info.Holders) == 1 {
			r.revokes("k", info.Holders[0].Fence, true)
		}
	}
	h.ends(guard.ErrRevoked)
	require.NoError(t, g.WithLock(t.Context(), guard.Key("k"), nothing, guard.Wait(patience)))
}

// The renewal of a majority does not give a server back what was revoked on it.
func TestRevoke_RepairDoesNotUndoARevocation(t *testing.T) {
	servers, _, h := onQuorum(t, 10*time.Second)
	servers[0].revokes("k", servers[0].fence("k"), true)
	for range 5 {
		require.NoError(t, h.Check(t.Context())) // each asks for a repair
	}
	for _, r := range servers[:2] {
		r.revokes("k", r.fence("k"), true)
	}
	h.ends(guard.ErrRevoked)
}

func TestRevoke_OnACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	r := &env{t, inspect.New(c.Client(t)), nil, nil}
	a, b := guardOn(t, c.Client(t)), guardOn(t, c.Client(t))
	keys, holds := []string{"a", "b", "c", "d", "}e", `\f`}, map[string]held{}
	for _, key := range keys {
		holds[key] = r.hold(a, key)
	}
	assert.ElementsMatch(t, keys, r.all(""))
	for key, h := range holds {
		next := r.start(b, key)
		r.await(key, 1, 1)
		r.revokes(key, h.Fence(), true)
		h.ends(guard.ErrRevoked)
		(<-next).finish(nil)
	}
}

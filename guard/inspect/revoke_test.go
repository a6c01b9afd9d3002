package inspect_test

import (
	"context"
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

// A holder that heeds its context is told at once, and the next one gets in. The times are
// those that the documents promise; a busy machine may need another try.
func TestRevoke_TellsAHolderAndTheNextGetsIn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	i := inspect.New(s.Client(t))
	told, next := time.Hour, time.Hour
	for range 10 {
		if told < 50*time.Millisecond && next < 100*time.Millisecond {
			break
		}
		a, b := guardOn(t, s.Client(t)), guardOn(t, s.Client(t))
		h := hold(t, a, "k")
		in := enters(t, b, "k")
		awaitWaiting(t, i, "k", 1)
		fence := fenceOf(t, i, "k")
		begun := time.Now()
		revoked(t, i, "k", fence)
		ended(t, h.ctx)
		told = time.Since(begun)
		close(h.finish)
		next = (<-in).Sub(begun)
		err := <-h.result
		require.ErrorIs(t, err, guard.ErrRevoked)
		require.ErrorIs(t, err, guard.ErrLost)
		var lost *guard.LostError
		require.ErrorAs(t, err, &lost)
		assert.Equal(t, "lock_revoked", lost.ErrorType())
	}
	assert.Less(t, told, 50*time.Millisecond)
	assert.Less(t, next, 100*time.Millisecond)
}

func TestRevoke_AHungHolderKeepsItsLockUntilItsLeaseIsOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b, i := guardOn(t, s.Client(t)), guardOn(t, s.Client(t)), inspect.New(s.Client(t))
	h := hold(t, a, "k", guard.TTL(1500*time.Millisecond))
	lease, _ := guard.FromContext(h.ctx)
	in := enters(t, b, "k")
	awaitWaiting(t, i, "k", 1)
	revoked(t, i, "k", fenceOf(t, i, "k"))
	ended(t, h.ctx)
	// It does not end. What was certain to it is certain to all others.
	deadline := lease.Deadline()
	assert.False(t, (<-in).Before(deadline), "somebody got in before the lease was over")
	close(h.finish)
	require.ErrorIs(t, <-h.result, guard.ErrRevoked)
}

// The message does not come: the next renewal is the net.
func TestRevoke_ARevocationIsFoundByTheNextRenewal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, i := guardOn(t, deaf(t, s)), inspect.New(s.Client(t))
	h := hold(t, a, "k", guard.TTL(600*time.Millisecond))
	revoked(t, i, "k", fenceOf(t, i, "k"))
	ended(t, h.ctx)
	close(h.finish)
	require.ErrorIs(t, <-h.result, guard.ErrRevoked)
	assert.Zero(t, s.Client(t).Exists(t.Context(), "guard:{k}").Val(), "its release frees the key")
}

// The work is over before anybody told it: that it was revoked is not hidden.
func TestRevoke_AReleaseOfARevokedHoldSaysSo(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	i := inspect.New(s.Client(t))
	for name, wait := range map[string]bool{"nobody waits": false, "somebody waits": true} {
		a, b := guardOn(t, deaf(t, s)), guardOn(t, s.Client(t))
		h := hold(t, a, name)
		var in <-chan time.Time
		if wait {
			in = enters(t, b, name)
			awaitWaiting(t, i, name, 1)
		}
		fence := fenceOf(t, i, name)
		revoked(t, i, name, fence)
		close(h.finish)
		require.ErrorIs(t, <-h.result, guard.ErrRevoked, name)
		if wait {
			<-in
		}
		var next uint64
		require.NoError(t, b.WithLock(t.Context(), guard.Key(name), func(ctx context.Context) error {
			next, _ = guard.Fence(ctx)
			return nil
		}, guard.Wait(patience)))
		assert.Greater(t, next, fence)
	}
}

func TestRevoke_ARevokedHoldIsNotEnteredAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, i := guardOn(t, deaf(t, s)), inspect.New(s.Client(t))
	h := hold(t, a, "k")
	require.NoError(t, a.WithLock(h.ctx, guard.Key("k"), func(context.Context) error { return nil }))
	revoked(t, i, "k", fenceOf(t, i, "k"))
	err := a.WithLock(h.ctx, guard.Key("k"), func(context.Context) error { t.Error("ran"); return nil })
	require.ErrorIs(t, err, guard.ErrRevoked)
	ended(t, h.ctx)
	close(h.finish)
	require.ErrorIs(t, <-h.result, guard.ErrRevoked)
}

func TestRevoke_EndsAllThatWasReentered(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, i := guardOn(t, s.Client(t)), inspect.New(s.Client(t))
	h := hold(t, a, "k")
	inner, err := a.Acquire(h.ctx, guard.Key("k"))
	require.NoError(t, err)
	info, err := i.Get(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, 2, info.Holders[0].Depth)
	revoked(t, i, "k", info.Holders[0].Fence)
	ended(t, inner.Context())
	ended(t, h.ctx)
	require.ErrorIs(t, inner.Release(t.Context()), guard.ErrRevoked)
	close(h.finish)
	require.ErrorIs(t, <-h.result, guard.ErrRevoked)
}

// Renewals are on their way all the time.
func TestRevoke_UnderRenewal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, i := guardOn(t, s.Client(t)), inspect.New(s.Client(t))
	for range 20 {
		h := hold(t, a, "k", guard.TTL(guard.MinTTL))
		select {
		case <-time.After(70 * time.Millisecond): // two renewals
		case <-h.ctx.Done(): // a busy machine
		}
		info, err := i.Get(t.Context(), "k")
		require.NoError(t, err)
		if len(info.Holders) > 0 {
			_, err := i.Revoke(t.Context(), "k", info.Holders[0].Fence)
			require.NoError(t, err)
		}
		ended(t, h.ctx)
		require.ErrorIs(t, context.Cause(h.ctx), guard.ErrLost)
		close(h.finish)
		require.ErrorIs(t, <-h.result, guard.ErrLost)
	}
}

// What Redis knows is the fence under which this process got the lock. Whoever has it there
// by now is told.
func TestRevoke_AfterAHandOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, i := guardOn(t, s.Client(t), guard.HandoverWindow(time.Minute)), inspect.New(s.Client(t))
	first := hold(t, a, "k")
	fence := fenceOf(t, i, "k")
	second := holdBehind(t, a, "k", first)
	own, _ := guard.Fence(second.ctx)
	require.Greater(t, own, fence, "a hand-over")
	assert.Equal(t, fence, fenceOf(t, i, "k"))

	there, err := i.Revoke(t.Context(), "k", own)
	require.NoError(t, err)
	assert.False(t, there, "Redis does not know that fence")
	require.NoError(t, second.ctx.Err())
	revoked(t, i, "k", fence)
	ended(t, second.ctx)
	close(second.finish)
	require.ErrorIs(t, <-second.result, guard.ErrRevoked)
}

func TestRevoke_ReachesAFixedLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, rdb := guardOn(t, s.Client(t)), s.Client(t)
	i := inspect.New(rdb)
	h := hold(t, a, "k", guard.FixedLease(), guard.TTL(time.Hour))
	require.NoError(t, rdb.PExpire(t.Context(), "guard:{k}", 5*time.Minute).Err())
	lease, _ := guard.FromContext(h.ctx)
	require.NoError(t, lease.Check(t.Context()))
	assert.LessOrEqual(t, rdb.PTTL(t.Context(), "guard:{k}").Val(), 5*time.Minute, "to ask prolongs nothing")
	revoked(t, i, "k", fenceOf(t, i, "k"))
	ended(t, h.ctx)
	close(h.finish)
	require.ErrorIs(t, <-h.result, guard.ErrRevoked)
}

func TestRevoke_TwiceAndLate(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	a, i := guardOn(t, s.Client(t)), inspect.New(rdb)
	h := hold(t, a, "k")
	lease, _ := guard.FromContext(h.ctx)
	fence := fenceOf(t, i, "k")
	for range 3 {
		revoked(t, i, "k", fence)
	}
	info, err := i.Get(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, fence, info.Holders[0].Fence, "it is still named by its fence")
	assert.True(t, info.Holders[0].Revoked)
	assert.False(t, info.Holders[0].Since.IsZero())
	there, err := i.Revoke(t.Context(), "k", fence+1)
	require.NoError(t, err)
	assert.False(t, there)
	close(h.finish)
	require.ErrorIs(t, <-h.result, guard.ErrRevoked)
	there, err = i.Revoke(t.Context(), "k", fence)
	require.NoError(t, err)
	assert.False(t, there, "it is gone")

	next := hold(t, a, "k")
	before := rdb.HGetAll(t.Context(), "guard:{k}").Val()
	for _, late := range []func(context.Context, string, uint64) (bool, error){i.Revoke, i.Break} {
		there, err = late(t.Context(), "k", fence)
		require.NoError(t, err)
		assert.False(t, there)
	}
	assert.Equal(t, before, rdb.HGetAll(t.Context(), "guard:{k}").Val())
	publish(t, rdb, lease.Owner(), "!"+lease.Owner()) // a late message
	own, _ := guard.FromContext(next.ctx)
	publish(t, rdb, own.Owner(), "!"+own.Owner()) // a forged one
	require.NoError(t, own.Check(t.Context()))
	require.NoError(t, next.ctx.Err())
	close(next.finish)
	require.NoError(t, <-next.result)
}

// The reply to an acquire is lost, and the hold is revoked before anybody knows of it: it
// does no work under that fence, and does not stand in its own way.
func TestRevoke_OfAHoldThatNobodyKnowsOf(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := redistest.NewProxy(t, s.Addr())
	g, i := guardOn(t, proxy.Client(t), guard.StoreTimeout(patience)), inspect.New(s.Client(t))
	require.NoError(t, g.WithLock(t.Context(), guard.Key("other"), func(context.Context) error { return nil }))
	lost := proxy.SwallowReply(redistest.Contains("guard:{k}:queue"), 1)
	type got struct {
		fence uint64
		err   error
	}
	done := make(chan got, 1)
	go func() {
		var f uint64
		err := g.WithLock(t.Context(), guard.Key("k"), func(ctx context.Context) error { f, _ = guard.Fence(ctx); return nil })
		done <- got{f, err}
	}()
	<-lost
	fence := fenceOf(t, i, "k")
	_, err := i.Revoke(t.Context(), "k", fence)
	require.NoError(t, err)
	select {
	case r := <-done:
		require.NoError(t, r.err)
		assert.GreaterOrEqual(t, r.fence, fence)
	case <-time.After(patience):
		require.FailNow(t, "it waits for itself")
	}
}

func TestRevoke_BreakFreesTheKeyAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b, i := guardOn(t, s.Client(t)), guardOn(t, s.Client(t)), inspect.New(s.Client(t))
	h := hold(t, a, "k", guard.TTL(time.Hour))
	fence := fenceOf(t, i, "k")
	in := enters(t, b, "k")
	awaitWaiting(t, i, "k", 1)
	there, err := i.Break(t.Context(), "k", fence+1)
	require.NoError(t, err)
	assert.False(t, there)
	there, err = i.Break(t.Context(), "k", fence)
	require.NoError(t, err)
	assert.True(t, there)
	select {
	case <-in:
	case <-time.After(900 * time.Millisecond): // those in front ask each second by themselves
		require.FailNow(t, "who waits was not told")
	}
	ended(t, h.ctx)
	// A late acquire of the owner is not heeded: see what stands in the queue.
	assert.Equal(t, int64(1), s.Client(t).ZCount(t.Context(), "guard:{k}:queue", "-inf", "(0").Val())
	there, err = i.Break(t.Context(), "k", fence)
	require.NoError(t, err)
	assert.False(t, there)
	info, err := i.Get(t.Context(), "k")
	require.NoError(t, err)
	assert.Greater(t, info.LastFence, fence)
	close(h.finish)
	require.ErrorIs(t, <-h.result, guard.ErrRevoked)
}

func TestRevoke_WhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	a, i := guardOn(t, s.Client(t)), inspect.New(rdb)
	h, broken := hold(t, a, "k"), hold(t, a, "l")
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	revoked(t, i, "k", fenceOf(t, i, "k"))
	there, err := i.Break(t.Context(), "l", fenceOf(t, i, "l"))
	require.NoError(t, err)
	assert.True(t, there)
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	for _, h := range []held{h, broken} {
		ended(t, h.ctx)
		close(h.finish)
		require.ErrorIs(t, <-h.result, guard.ErrRevoked)
	}
}

func TestRevoke_OnAQuorumTakesAMajority(t *testing.T) {
	t.Parallel()
	var clients []redis.UniversalClient
	var servers []*inspect.Inspector
	for _, s := range redistest.StartN(t, 3) {
		clients = append(clients, s.Client(t))
		servers = append(servers, inspect.New(s.Client(t)))
	}
	g := testenv.GuardOnServers(t, clients)
	h := hold(t, g, "k", guard.TTL(900*time.Millisecond))
	lease, _ := guard.FromContext(h.ctx)
	for _, i := range servers {
		awaitHeld(t, i, "k")
	}
	revoked(t, servers[0], "k", fenceOf(t, servers[0], "k"))
	require.NoError(t, lease.Check(t.Context()), "a majority holds")
	// Renewals go on, and do not undo what one server was told.
	for until := lease.Deadline().Add(300 * time.Millisecond); !lease.Deadline().After(until); {
		require.NoError(t, lease.Err())
		time.Sleep(10 * time.Millisecond)
	}

	for _, i := range servers {
		info, err := i.Get(t.Context(), "k")
		require.NoError(t, err)
		if len(info.Holders) == 1 {
			revoked(t, i, "k", info.Holders[0].Fence)
		}
	}
	ended(t, h.ctx)
	close(h.finish)
	require.ErrorIs(t, <-h.result, guard.ErrRevoked)
	require.NoError(t, g.WithLock(t.Context(), guard.Key("k"), func(context.Context) error { return nil }, guard.Wait(patience)))
}

// The renewal of a majority does not give a server back what was revoked on it.
func TestRevoke_RepairDoesNotUndoARevocation(t *testing.T) {
	t.Parallel()
	var clients []redis.UniversalClient
	var servers []*inspect.Inspector
	for _, s := range redistest.StartN(t, 3) {
		clients = append(clients, s.Client(t))
		servers = append(servers, inspect.New(s.Client(t)))
	}
	g := testenv.GuardOnServers(t, clients)
	h := hold(t, g, "k", guard.TTL(10*time.Second))
	for _, i := range servers {
		awaitHeld(t, i, "k")
	}
	lease, _ := guard.FromContext(h.ctx)
	revoked(t, servers[0], "k", fenceOf(t, servers[0], "k"))
	for range 5 {
		require.NoError(t, lease.Check(t.Context())) // each asks for a repair
	}
	fence := fenceOf(t, servers[0], "k")
	revoked(t, servers[0], "k", fence)
	revoked(t, servers[1], "k", fenceOf(t, servers[1], "k"))
	ended(t, h.ctx)
	close(h.finish)
	require.ErrorIs(t, <-h.result, guard.ErrRevoked)
}

func TestRevoke_OnACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	a, b, i := guardOn(t, c.Client(t)), guardOn(t, c.Client(t)), inspect.New(c.Client(t))
	keys := map[string]held{}
	for _, key := range []string{"a", "b", "c", "d", "}e", `\f`} {
		keys[key] = hold(t, a, key)
	}
	seen := map[string]bool{}
	for info, err := range i.All(t.Context(), "") {
		require.NoError(t, err)
		seen[info.Key] = true
	}
	assert.Len(t, seen, len(keys))
	for key, h := range keys {
		in := enters(t, b, key)
		awaitWaiting(t, i, key, 1)
		revoked(t, i, key, fenceOf(t, i, key))
		ended(t, h.ctx)
		close(h.finish)
		require.ErrorIs(t, <-h.result, guard.ErrRevoked)
		<-in
	}
}

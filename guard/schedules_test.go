package guard_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
)

// Each test below is a schedule that does harm without one of the protocol's rules. The
// server executes a request late, or its reply is lost; the proxy sees to that.

// lands lets a request that was held back go on, and returns when Redis has executed it.
func (s *site) lands(release func()) {
	s.Helper()
	before := s.scripts()
	release()
	s.eventually(func() bool { return s.scripts() > before }, "the late request")
}

// unharmed checks that a late request of an owner that is over left nothing, or nothing
// that lasts: somebody else gets in.
func (s *site) unharmed(key string, other *guard.Guard) {
	s.Helper()
	s.awaitFree(key)
	s.visit(other, key)
}

// A waiting claim asks, the request gets stuck on the way, the claim asks once more on
// another connection, is granted, works and is released. Somebody else comes and goes,
// so that Redis does not know the owner from its last release. Then the first request
// arrives: a free lock, which it would take for nobody, for a whole ttl.
func TestPollOnTheWireWhenItsClaimIsReleased(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other := s.guard()
	proxy, client := s.proxy()
	g := s.guardOn(client, guard.StoreTimeout(2*time.Second))
	holder := s.acquire(other, "k")
	waiter := s.visitor(t.Context(), "waiter", g, "k")
	s.awaitQueue("k", 1)
	held, release := proxy.HoldRequest(s.runs("acquire", 1))
	s.await(held, "the claim asks by itself")
	before := s.scripts()
	s.eventually(func() bool { return s.scripts() > before }, "the claim asks again")
	s.release(holder)
	waiter.pass()
	s.visit(other, "k")
	s.lands(release)
	s.unharmed("k", other)
}

// The same, but the caller gives up while the request is stuck.
func TestPollOnTheWireWhenItsClaimIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other := s.guard()
	proxy, client := s.proxy()
	g := s.guardOn(client, guard.StoreTimeout(time.Second))
	holder := s.acquire(other, "k")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiter := s.visitor(ctx, "waiter", g, "k")
	s.awaitQueue("k", 1)
	held, release := proxy.HoldRequest(s.runs("acquire", 1))
	s.await(held, "the claim asks by itself")
	cancel()
	require.ErrorIs(t, waiter.out(), guard.ErrBusy)
	s.awaitQueue("k", 0)
	s.release(holder)
	s.visit(other, "k")
	s.lands(release)
	s.unharmed("k", other)
}

// A caller's first request gets stuck, the second one is on its way when the caller
// gives up. That the second one is answered says nothing of the first, which takes a
// free lock for nobody when it arrives.
func TestEarlierRequestOnTheWireWhenItsClaimIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other := s.guard()
	proxy, client := s.proxy()
	g := s.guardOn(client, guard.StoreTimeout(2*time.Second))
	s.visit(g, "open the subscription")
	holder := s.acquire(other, "k")
	first, releaseFirst := proxy.HoldRequest(s.runs("acquire", 1))
	second, releaseSecond := proxy.HoldRequest(s.runs("acquire", 1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiter := s.visitor(ctx, "waiter", g, "k")
	s.await(first, "the first request")
	s.await(second, "the second request")
	cancel()
	require.ErrorIs(t, waiter.out(), context.Canceled)
	s.lands(releaseSecond)
	s.awaitQueue("k", 0) // it is settled
	s.eventually(func() bool { return s.buried("k") > 0 }, "the owner is buried")
	s.release(holder)
	s.visit(other, "k")
	s.lands(releaseFirst)
	s.unharmed("k", other)
}

// A caller's first request gets stuck, the second one takes the lock, and the lock is
// deleted under its work. There is nothing to release then, but the first request is
// still on its way, to take the free lock for nobody.
func TestEarlierRequestOnTheWireWhenTheLockIsLost(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other := s.guard()
	proxy, client := s.proxy()
	g := s.guardOn(client, guard.StoreTimeout(2*time.Second))
	held, release := proxy.HoldRequest(s.runs("acquire", 1))
	l := s.acquire(g, "k", guard.TTL(time.Minute))
	s.await(held, "the first request")
	require.NoError(t, s.admin.Del(t.Context(), "guard:{k}").Err())
	_, err := g.Acquire(l.Context(), guard.Key("k"))
	require.ErrorIs(t, err, guard.ErrLost)
	require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
	s.visit(other, "k")
	s.lands(release)
	s.unharmed("k", other)
}

// A caller gives up while its only request is on the way, for longer than anybody waits
// for the answer. Whether it took the lock, or will, nobody knows.
func TestOnlyRequestOnTheWireWhenItsClaimIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other := s.guard()
	proxy, client := s.proxy()
	g := s.guardOn(client, guard.StoreTimeout(time.Second))
	s.visit(g, "open the subscription")
	held, release := proxy.HoldRequest(s.runs("acquire", 1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiter := s.visitor(ctx, "waiter", g, "k")
	s.await(held, "the request")
	cancel()
	require.ErrorIs(t, waiter.out(), context.Canceled)
	s.eventually(func() bool { return s.buried("k") > 0 }, "the owner is buried")
	s.visit(other, "k")
	s.lands(release)
	s.unharmed("k", other)
}

// A caller gives up while its only request is on the way. The request takes the lock,
// and nobody is there who wants it.
func TestGrantForACallerThatLeftIsGivenBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other := s.guard()
	proxy, client := s.proxy()
	g := s.guardOn(client)
	held, release := proxy.HoldRequest(s.runs("acquire", 1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiter := s.visitor(ctx, "waiter", g, "k")
	s.await(held, "the request")
	cancel()
	require.ErrorIs(t, waiter.out(), context.Canceled)
	s.lands(release)
	s.unharmed("k", other)
}

// The first caller gives up while its request is on the way. Another one stands in line
// behind it and goes on with the claim: whoever settles the first caller's affairs must
// not abandon a claim that lives, or it loses its place to whoever came later.
func TestClaimOutlivesTheCallerThatMadeIt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other := s.guard()
	proxy, client := s.proxy()
	g := s.guardOn(client)
	s.visit(g, "open the subscription")
	holder := s.acquire(other, "k")
	held, release := proxy.HoldRequest(s.runs("acquire", 1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := s.visitor(ctx, "first", g, "k")
	s.await(held, "the request")
	second := s.visitor(t.Context(), "second", g, "k")
	s.awaitInLine(g, 1)
	cancel()
	require.ErrorIs(t, first.out(), context.Canceled)
	owner := s.awaitQueue("k", 1)[0]
	later := s.visitor(t.Context(), "later", s.guard(), "k")
	s.awaitQueue("k", 2)
	s.lands(release)
	s.stays(func() bool { return s.queue("k")[0] == owner }, "its place")
	s.release(holder)
	second.pass()
	later.pass()
}

// A release is executed, its reply lost. The next holder comes and goes, and one more
// is in when the release is repeated. Redis says that the owner does not hold the lock:
// that is no loss, and none of the next holder's business.
func TestRepeatedReleaseAfterTheNextHolderCameAndWent(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	proxy, client := s.proxy()
	g := s.guardOn(client)
	holder := s.visitor(t.Context(), "holder", g, "k")
	holder.awaitIn()
	next := s.visitor(t.Context(), "next", s.guard(), "k")
	s.awaitQueue("k", 1)
	fired := proxy.SwallowReply(s.runs("release", 1), 1)
	held, release := proxy.HoldRequest(s.runs("release", 2))
	close(holder.leave)
	s.await(fired, "the reply is lost")
	s.await(held, "the release is repeated")
	next.pass()
	last := s.acquire(s.guard(), "k")
	release()
	require.NoError(t, holder.out())
	assert.Equal(t, map[string]string{last.Owner(): "1"}, s.holders("k"))
	s.release(last)
}

// A release carries the next claim of those in line, and its reply is lost: the claim may
// hold the lock, be in the queue, or be unknown. It asks at once, and does not wait for
// a message that may never come.
func TestNextClaimWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	for name, contended := range map[string]bool{"granted": false, "queued": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			proxy, client := s.proxy()
			g := s.guardOn(client, guard.HandoverWindow(0))
			holder := s.visitor(t.Context(), "holder", g, "k")
			holder.awaitIn()
			second := s.visitor(t.Context(), "second", g, "k")
			s.awaitInLine(g, 1)
			var remote *visitor
			if contended {
				remote = s.visitor(t.Context(), "remote", s.guard(), "k")
				s.awaitQueue("k", 1)
			}
			fired := proxy.SwallowReply(s.runs("release", 1), 1)
			close(holder.leave)
			s.await(fired, "the reply is lost")
			at := time.Now()
			require.NoError(t, holder.out())
			if contended {
				remote.pass()
			}
			second.awaitIn()
			assert.Less(t, second.at.Sub(at), 5*time.Second, "it did not wait for its turn to ask by itself")
			second.pass()
			s.unharmed("k", g)
		})
	}
}

// A release that carries a next claim gets stuck. Its caller does not wait for it, those
// in line give up, and their claim is buried. Then the release arrives: the next claim
// must not enter the queue, or the lock would go to nobody.
func TestNextClaimThatWasGivenUpBeforeItArrived(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other := s.guard()
	proxy, client := s.proxy()
	g := s.guardOn(client, guard.HandoverWindow(0))
	l := s.acquire(g, "k")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	second := s.visitor(ctx, "second", g, "k")
	s.awaitInLine(g, 1)
	held, release := proxy.HoldRequest(s.runs("release", 1))
	dead, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, l.Release(dead), context.Canceled)
	s.await(held, "the release")
	s.awaitQueue("k", 1) // the claim asked for itself
	cancel()
	require.ErrorIs(t, second.out(), guard.ErrBusy)
	s.awaitQueue("k", 0)
	s.lands(release)
	s.unharmed("k", other)
}

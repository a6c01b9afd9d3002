package cohort_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// schedule is what each test below has: a server, and a Guard that reaches it through a proxy,
// which has a request executed late, or a reply lost. Without one of the protocol's rules that
// does harm.
type schedule struct {
	*testenv.Redis
	proxy *redistest.Proxy
	g     *guard.Guard // behind the proxy
	other *guard.Guard
}

func newSchedule(t *testing.T, opts ...guard.Option) *schedule {
	t.Helper()
	s := &schedule{Redis: testenv.NewRedis(t)}
	s.other = s.Guard()
	proxy, client := s.Proxy()
	s.proxy, s.g = proxy, s.GuardOn(client, opts...)
	return s
}

// comes has somebody behind the proxy come for the lock, who may give up.
func (s *schedule) comes(name string) (v *testenv.Caller, giveUp context.CancelFunc) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	s.Cleanup(cancel)
	return s.Caller(ctx, name, s.g, "k"), cancel
}

// A waiting claim asks, the request gets stuck on the way, the claim asks once more on
// another connection, is granted, works and is released. Somebody else comes and goes,
// so that Redis does not know the owner from its last release. Then the first request
// arrives: a free lock, which it would take for nobody, for a whole ttl.
func TestSchedules_PollOnTheWireWhenItsClaimIsReleased(t *testing.T) {
	t.Parallel()
	s := newSchedule(t, guard.StoreTimeout(2*time.Second))
	holder := s.Acquire(s.other, "k")
	waiter := s.Caller(t.Context(), "waiter", s.g, "k")
	s.AwaitQueue("k", 1)
	held, release := s.proxy.HoldRequest(s.Runs("acquire", 1))
	s.Await(held, "the claim asks by itself")
	before := s.Scripts()
	s.Eventually(func() bool { return s.Scripts() > before }, "the claim asks again")
	s.Release(holder)
	waiter.Pass()
	s.Visit(s.other, "k")
	s.Lands(release)
	s.Unharmed("k", s.other)
}

// The same, but the caller gives up while the request is stuck.
func TestSchedules_PollOnTheWireWhenItsClaimIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newSchedule(t, guard.StoreTimeout(time.Second))
	holder := s.Acquire(s.other, "k")
	waiter, giveUp := s.comes("waiter")
	s.AwaitQueue("k", 1)
	held, release := s.proxy.HoldRequest(s.Runs("acquire", 1))
	s.Await(held, "the claim asks by itself")
	giveUp()
	require.ErrorIs(t, waiter.Out(), guard.ErrBusy)
	s.AwaitQueue("k", 0)
	s.Release(holder)
	s.Visit(s.other, "k")
	s.Lands(release)
	s.Unharmed("k", s.other)
}

// A caller's first request gets stuck, the second one is on its way when the caller
// gives up. That the second one is answered says nothing of the first, which takes a
// free lock for nobody when it arrives. The StoreTimeout outlasts the test, so that the
// second request goes out on a busy machine, too.
func TestSchedules_EarlierRequestOnTheWireWhenItsClaimIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newSchedule(t)
	s.Visit(s.g, "open the subscription")
	holder := s.Acquire(s.other, "k")
	first, releaseFirst := s.proxy.HoldRequest(s.Runs("acquire", 1))
	second, releaseSecond := s.proxy.HoldRequest(s.Runs("acquire", 1))
	waiter, giveUp := s.comes("waiter")
	s.Await(first, "the first request")
	s.Await(second, "the second request")
	giveUp()
	require.ErrorIs(t, waiter.Out(), context.Canceled)
	s.Lands(releaseSecond)
	s.AwaitQueue("k", 0) // it is settled
	s.Eventually(func() bool { return s.Tombstones("k") > 0 }, "the owner has a tombstone")
	s.Release(holder)
	s.Visit(s.other, "k")
	s.Lands(releaseFirst)
	s.Unharmed("k", s.other)
}

// A caller's first request gets stuck, the second one takes the lock, and the lock is
// deleted under its work. There is nothing to release then, but the first request is
// still on its way, to take the free lock for nobody.
func TestSchedules_EarlierRequestOnTheWireWhenTheLockIsLost(t *testing.T) {
	t.Parallel()
	s := newSchedule(t, guard.StoreTimeout(2*time.Second))
	held, release := s.proxy.HoldRequest(s.Runs("acquire", 1))
	l := s.Acquire(s.g, "k", guard.TTL(time.Minute))
	s.Await(held, "the first request")
	require.NoError(t, s.Admin.Del(t.Context(), "guard:{k}").Err())
	_, err := s.g.Acquire(l.Context(), guard.Key("k"))
	require.ErrorIs(t, err, guard.ErrLost)
	require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
	s.Visit(s.other, "k")
	s.Lands(release)
	s.Unharmed("k", s.other)
}

// A caller gives up while its only request is on the way, for longer than anybody waits
// for the answer. Whether it took the lock, or will, nobody knows.
func TestSchedules_OnlyRequestOnTheWireWhenItsClaimIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newSchedule(t, guard.StoreTimeout(time.Second))
	s.Visit(s.g, "open the subscription")
	held, release := s.proxy.HoldRequest(s.Runs("acquire", 1))
	waiter, giveUp := s.comes("waiter")
	s.Await(held, "the request")
	giveUp()
	require.ErrorIs(t, waiter.Out(), context.Canceled)
	s.Eventually(func() bool { return s.Tombstones("k") > 0 }, "the owner has a tombstone")
	s.Visit(s.other, "k")
	s.Lands(release)
	s.Unharmed("k", s.other)
}

// A caller gives up while its only request is on the way. The request takes the lock,
// and nobody is there who wants it.
func TestSchedules_GrantForACallerThatLeftIsGivenBack(t *testing.T) {
	t.Parallel()
	s := newSchedule(t)
	held, release := s.proxy.HoldRequest(s.Runs("acquire", 1))
	waiter, giveUp := s.comes("waiter")
	s.Await(held, "the request")
	giveUp()
	require.ErrorIs(t, waiter.Out(), context.Canceled)
	s.Lands(release)
	s.Unharmed("k", s.other)
}

// The first caller gives up while its request is on the way. Another one stands in the queue
// behind it and goes on with the claim: whoever settles the first caller's affairs must
// not abandon a claim that lives, or it loses its place to whoever came later.
func TestSchedules_ClaimOutlivesTheCallerThatMadeIt(t *testing.T) {
	t.Parallel()
	s := newSchedule(t)
	s.Visit(s.g, "open the subscription")
	holder := s.Acquire(s.other, "k")
	held, release := s.proxy.HoldRequest(s.Runs("acquire", 1))
	first, giveUp := s.comes("first")
	s.Await(held, "the request")
	second := s.Caller(t.Context(), "second", s.g, "k")
	s.AwaitQueued(s.g, 1)
	giveUp()
	require.ErrorIs(t, first.Out(), context.Canceled)
	owner := s.AwaitQueue("k", 1)[0]
	later := s.Caller(t.Context(), "later", s.Guard(), "k")
	s.AwaitQueue("k", 2)
	s.Lands(release)
	s.Stays(func() bool { return s.Queue("k")[0] == owner }, "its place")
	s.Release(holder)
	second.Pass()
	later.Pass()
}

// A release is executed, its reply lost. The next holder comes and goes, and one more
// is in when the release is repeated. Redis says that the owner does not hold the lock:
// that is no loss, and none of the next holder's business.
func TestSchedules_RepeatedReleaseAfterTheNextHolderCameAndWent(t *testing.T) {
	t.Parallel()
	s := newSchedule(t)
	holder := s.Caller(t.Context(), "holder", s.g, "k")
	holder.AwaitIn()
	next := s.Caller(t.Context(), "next", s.other, "k")
	s.AwaitQueue("k", 1)
	fired := s.proxy.SwallowReply(s.Runs("release", 1), 1)
	held, release := s.proxy.HoldRequest(s.Runs("release", 2))
	close(holder.Leave)
	s.Await(fired, "the reply is lost")
	s.Await(held, "the release is repeated")
	next.Pass()
	last := s.Acquire(s.Guard(), "k")
	release()
	require.NoError(t, holder.Out())
	assert.Equal(t, map[string]string{last.Owner(): "1"}, s.Holders("k"))
	s.Release(last)
}

// The reply to a release is lost, and those in the queue go on with a claim of their own: they
// do not wait for a message that may never come.
func TestSchedules_ReleaseWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	for name, contended := range map[string]bool{"alone": false, "behind another": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSchedule(t, guard.HandoverWindow(0))
			holder := s.Caller(t.Context(), "holder", s.g, "k")
			holder.AwaitIn()
			second := s.Caller(t.Context(), "second", s.g, "k")
			s.AwaitQueued(s.g, 1)
			var remote *testenv.Caller
			if contended {
				remote = s.Caller(t.Context(), "remote", s.other, "k")
				s.AwaitQueue("k", 1)
			}
			fired := s.proxy.SwallowReply(s.Runs("release", 1), 1)
			close(holder.Leave)
			s.Await(fired, "the reply is lost")
			at := time.Now()
			require.NoError(t, holder.Out())
			if contended {
				remote.Pass()
			}
			second.AwaitIn()
			assert.Less(t, second.At.Sub(at), 5*time.Second, "it did not wait for its turn to ask by itself")
			second.Pass()
			s.Unharmed("k", s.g)
		})
	}
}

// A release gets stuck. Its caller does not wait for it, those in the queue ask for the lock, and
// give up. Then the release arrives: the lock is free for everybody.
func TestSchedules_ReleaseThatArrivesWhenThoseInTheQueueAreGone(t *testing.T) {
	t.Parallel()
	s := newSchedule(t, guard.HandoverWindow(0))
	l := s.Acquire(s.g, "k")
	second, giveUp := s.comes("second")
	s.AwaitQueued(s.g, 1)
	held, release := s.proxy.HoldRequest(s.Runs("release", 1))
	dead, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, l.Release(dead), context.Canceled)
	s.Await(held, "the release")
	s.AwaitQueue("k", 1) // the claim asked for itself
	giveUp()
	require.ErrorIs(t, second.Out(), guard.ErrBusy)
	s.AwaitQueue("k", 0)
	s.Lands(release)
	s.Unharmed("k", s.other)
}

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

package guard_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// Fifty clients queue on a held key, 20 ms apart, each with two callers. The server's
// clock gives the places, so that the first callers get in in exactly that order; each
// release puts its client's second caller behind everybody who waits, so that they
// follow in the same order.
func TestClientsAreServedInTheOrderOfTheirPlaces(t *testing.T) {
	t.Parallel()
	const clients = 50
	s := newSite(t)
	holder := s.acquire(s.guard(), "k")
	var first, second []*visitor
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for i := range clients {
		g := s.guard(guard.HandoverWindow(0))
		first = append(first, s.visitor(t.Context(), fmt.Sprint("first of ", i), g, "k"))
		s.awaitQueue("k", i+1)
		second = append(second, s.visitor(t.Context(), fmt.Sprint("second of ", i), g, "k"))
		s.awaitInLine(g, 2)
		<-pace.C
	}
	all := slices.Concat(first, second)
	var want []string
	for _, v := range all {
		close(v.leave)
		want = append(want, v.name)
	}
	at := time.Now()
	s.release(holder)
	for _, v := range all {
		require.NoError(t, v.out())
	}
	assert.Less(t, time.Since(at), 2*clients*200*time.Millisecond, "they were told, and did not ask by themselves")
	assert.Equal(t, want, s.book.entered())
	s.awaitFree("k")
}

// One Guard has 200 callers that never stop asking, another one has one. Local hand-over
// could go on for ever: the window ends it, and the next claim of the many goes behind
// the one. A section takes a millisecond at least, so that no more than window + 1 of
// them begin before the one is in. Counted, not timed: a slow machine makes them fewer.
func TestRemoteWaiterIsServedWithinTheWindow(t *testing.T) {
	const window, section = 20 * time.Millisecond, time.Millisecond
	s := newSite(t)
	seen := &guardtest.Recorder{}
	many, one := s.guard(guard.HandoverWindow(window), guard.Observe(seen)), s.guard()
	var sections atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for i := range 200 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = many.WithLock(ctx, guard.Key("k"), func(ctx context.Context) error {
					defer s.book.enter(ctx, "k", fmt.Sprint("local ", i))()
					sections.Add(1)
					time.Sleep(section) // the work
					return nil
				})
			}
		})
	}
	s.eventually(func() bool { return sections.Load() > 100 }, "the many at work")
	l := s.acquire(one, "another key")
	me := instanceOf(l.Owner())
	s.release(l)
	queued := func() bool {
		return slices.ContainsFunc(s.queue("k"), func(owner string) bool { return instanceOf(owner) == me })
	}
	for i := range 20 {
		v := s.visitor(t.Context(), fmt.Sprint("remote ", i), one, "k")
		s.eventually(func() bool { return v.isIn() || queued() }, "a place")
		before := sections.Load()
		v.awaitIn()
		assert.LessOrEqual(t, sections.Load()-before, int64(window/section)+1)
		v.pass()
	}
	assert.NotEmpty(t, seen.Events(guard.Handover), "the many passed it on among themselves")
}

// queueOf puts n Guards with a caller each into the queue of k.
func (s *site) queueOf(n int) (waiters []*visitor, owners []string) {
	s.Helper()
	for i := range n {
		v := s.visitor(s.Context(), fmt.Sprint("waiter ", i), s.guard(), "k")
		waiters, owners = append(waiters, v), s.awaitQueue("k", i+1)
	}
	return waiters, owners
}

// Redis forgets everything, and somebody takes the lock. Those who wait are not told. A
// newcomer finds an empty queue; the others bring their places when they ask by
// themselves, and are in front of it again, in their old order.
func TestWaitersKeepTheirPlacesWhenRedisForgets(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	holder := s.acquire(s.guard(), "k")
	waiters, owners := s.queueOf(5)
	_, err := s.admin.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.FlushAll(t.Context())
		p.HSet(t.Context(), "guard:{k}", "stranger-1", "1", "@fence", time.Now().UnixMicro(), "@meta", "")
		p.PExpire(t.Context(), "guard:{k}", time.Minute)
		return nil
	})
	require.NoError(t, err)
	waiters = append(waiters, s.visitor(t.Context(), "newcomer", s.guard(), "k"))
	assert.Equal(t, owners, s.awaitQueue("k", 6)[:5])
	require.ErrorIs(t, holder.Release(t.Context()), guard.ErrLost)
	require.NoError(t, s.admin.Del(t.Context(), "guard:{k}").Err())
	s.passInOrder(waiters)
}

// passInOrder lets visitors leave, and checks that they got in in this order.
func (s *site) passInOrder(visitors []*visitor) {
	s.Helper()
	var want []string
	for _, v := range visitors {
		v.pass()
		want = append(want, v.name)
	}
	assert.Equal(s, want, s.book.entered())
}

// Redis restarts empty: no lock, no queue, no scripts, no subscriptions. When those who
// waited have found it again, one of them has the lock, and the others wait behind it in
// their old order.
func TestWaitersKeepTheirPlacesWhenRedisRestartsEmpty(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	holder := s.acquire(s.guard(), "k")
	waiters, owners := s.queueOf(5)
	s.server.Restart(t)
	left := s.awaitQueue("k", 4)
	var first string
	for owner := range s.holders("k") {
		first = owner
	}
	i := slices.Index(owners, first)
	require.GreaterOrEqual(t, i, 0, "one of them is in")
	assert.Equal(t, slices.Concat(owners[:i], owners[i+1:]), left)
	require.ErrorIs(t, holder.Release(t.Context()), guard.ErrLost)
	s.passInOrder(slices.Concat(waiters[i:i+1], waiters[:i], waiters[i+1:]))
}

// Redis forgets the scripts: whoever asks or releases sends them again.
func TestWaitersAreServedWhenTheScriptsAreGone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	holder := s.acquire(s.guard(), "k")
	waiters, _ := s.queueOf(3)
	require.NoError(t, s.admin.ScriptFlush(t.Context()).Err())
	s.release(holder)
	s.passInOrder(waiters)
}

// Redis takes a claim for one that is over, as it does if it is told so by mistake. The
// caller goes on waiting under another owner, behind everybody.
func TestWaiterWhoseClaimIsWithdrawnGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	holder := s.acquire(s.guard(), "k")
	waiters, owners := s.queueOf(2)
	over := float64(-time.Now().Add(time.Minute).UnixMicro())
	require.NoError(t, s.admin.ZAdd(t.Context(), "guard:{k}:queue", redis.Z{Score: over, Member: owners[0]}).Err())
	queue := s.awaitQueue("k", 2)
	assert.Equal(t, owners[1], queue[0])
	assert.NotContains(t, owners, queue[1])
	s.release(holder)
	s.passInOrder([]*visitor{waiters[1], waiters[0]})
}

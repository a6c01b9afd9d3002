package cohort_test

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
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// Fifty clients queue on a held key, 20 ms apart, each with two callers. The server's
// clock gives the places, so that the first callers get in in exactly that order; a client
// claims for its second caller once its release was answered, behind everybody who waits.
func TestOrder_ClientsAreServedInTheOrderOfTheirPlaces(t *testing.T) {
	t.Parallel()
	const clients = 50
	s := testenv.NewRedis(t)
	holder := s.Acquire(s.Guard(), "k")
	var first, second []*testenv.Caller
	interval := time.NewTicker(20 * time.Millisecond)
	defer interval.Stop()
	for i := range clients {
		g := s.Guard(guard.HandoverWindow(0))
		first = append(first, s.Caller(t.Context(), fmt.Sprint("first of ", i), g, "k"))
		s.AwaitQueue("k", i+1)
		second = append(second, s.Caller(t.Context(), fmt.Sprint("second of ", i), g, "k"))
		s.AwaitQueued(g, 2)
		<-interval.C
	}
	all := slices.Concat(first, second)
	var want []string
	for _, v := range first {
		want = append(want, v.Name)
	}
	for _, v := range all {
		close(v.Leave)
	}
	at := time.Now()
	s.Release(holder)
	for _, v := range all {
		require.NoError(t, v.Out())
	}
	assert.Less(t, time.Since(at), 2*clients*200*time.Millisecond, "they were told, and did not ask by themselves")
	require.Len(t, s.Book.Entered(), 2*clients)
	assert.Equal(t, want, s.Book.Entered()[:clients])
	s.AwaitFree("k")
}

// One Guard has 200 callers that never stop asking, another one has one. Local hand-over
// could go on for ever: the window ends it, and the next claim of the many goes behind
// the one. A section takes a millisecond at least, so that no more than window + 1 of
// them begin before the one is in. Counted, not timed: a slow machine makes them fewer.
func TestOrder_RemoteWaiterIsServedWithinTheWindow(t *testing.T) {
	const window, section = 20 * time.Millisecond, time.Millisecond
	s := testenv.NewRedis(t)
	seen := &guardtest.Recorder{}
	many, one := s.Guard(guard.HandoverWindow(window), guard.Observe(seen)), s.Guard()
	var sections atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for i := range 200 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = many.WithLock(ctx, guard.Key("k"), func(ctx context.Context) error {
					defer s.Book.Enter(ctx, "k", fmt.Sprint("local ", i))()
					sections.Add(1)
					time.Sleep(section) // the work
					return nil
				})
			}
		})
	}
	s.Eventually(func() bool { return sections.Load() > 100 }, "the many at work")
	l := s.Acquire(one, "another key")
	me := testenv.InstanceOf(l.Owner())
	s.Release(l)
	queued := func() bool {
		return slices.ContainsFunc(s.Queue("k"), func(owner string) bool { return testenv.InstanceOf(owner) == me })
	}
	for i := range 20 {
		v := s.Caller(t.Context(), fmt.Sprint("remote ", i), one, "k")
		s.Eventually(func() bool { return v.IsIn() || queued() }, "a place")
		before := sections.Load()
		v.AwaitIn()
		assert.LessOrEqual(t, sections.Load()-before, int64(window/section)+1)
		v.Pass()
	}
	assert.NotEmpty(t, seen.Events(guard.Handover), "the many passed it on among themselves")
}

// Redis forgets everything, and somebody takes the lock. Those who wait are not told. A
// newcomer finds an empty queue; the others bring their places when they ask by
// themselves, and are in front of it again, in their old order.
func TestOrder_WaitersKeepTheirPlacesWhenRedisForgets(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	holder := s.Acquire(s.Guard(), "k")
	waiters, owners := s.QueueOf(5)
	_, err := s.Admin.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.FlushAll(t.Context())
		p.HSet(t.Context(), "guard:{k}", "stranger-1", fmt.Sprint("1 ", time.Now().UnixMicro(), " 0 - "))
		p.PExpire(t.Context(), "guard:{k}", time.Minute)
		return nil
	})
	require.NoError(t, err)
	waiters = append(waiters, s.Caller(t.Context(), "newcomer", s.Guard(), "k"))
	assert.Equal(t, owners, s.AwaitQueue("k", 6)[:5])
	require.ErrorIs(t, holder.Release(t.Context()), guard.ErrLost)
	require.NoError(t, s.Admin.Del(t.Context(), "guard:{k}").Err())
	s.PassInOrder(waiters)
}

// Redis restarts empty: no lock, no queue, no scripts, no subscriptions. When those who
// waited have found it again, one of them has the lock, and the others wait behind it in
// their old order.
func TestOrder_WaitersKeepTheirPlacesWhenRedisRestartsEmpty(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	holder := s.Acquire(s.Guard(), "k")
	waiters, owners := s.QueueOf(5)
	s.Server.Restart(t)
	left := s.AwaitQueue("k", 4)
	var first string
	for owner := range s.Holders("k") {
		first = owner
	}
	i := slices.Index(owners, first)
	require.GreaterOrEqual(t, i, 0, "one of them is in")
	assert.Equal(t, slices.Concat(owners[:i], owners[i+1:]), left)
	require.ErrorIs(t, holder.Release(t.Context()), guard.ErrLost)
	s.PassInOrder(slices.Concat(waiters[i:i+1], waiters[:i], waiters[i+1:]))
}

// Redis forgets the scripts: whoever asks or releases sends them again.
func TestOrder_WaitersAreServedWhenTheScriptsAreGone(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	holder := s.Acquire(s.Guard(), "k")
	waiters, _ := s.QueueOf(3)
	require.NoError(t, s.Admin.ScriptFlush(t.Context()).Err())
	s.Release(holder)
	s.PassInOrder(waiters)
}

// Redis takes a claim for one that is over, as it does if it is told so by mistake. The
// caller goes on waiting under another owner, behind everybody.
func TestOrder_WaiterWhoseClaimIsWithdrawnGoesOn(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	holder := s.Acquire(s.Guard(), "k")
	waiters, owners := s.QueueOf(2)
	over := float64(-time.Now().Add(time.Minute).UnixMicro())
	require.NoError(t, s.Admin.ZAdd(t.Context(), "guard:{k}:queue", redis.Z{Score: over, Member: owners[0]}).Err())
	queue := s.AwaitQueue("k", 2)
	assert.Equal(t, owners[1], queue[0])
	assert.NotContains(t, owners, queue[1])
	s.Release(holder)
	s.PassInOrder([]*testenv.Caller{waiters[1], waiters[0]})
}

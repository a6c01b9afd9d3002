package cohort_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// A waiter's connections break whenever the lock could go to it. Others are served
// meanwhile, but whoever came after it waits behind it again when it is back, however
// often that happens.
func TestGrant_WaiterWhoseGrantsAreLostKeepsItsPlace(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	proxy, client := s.Proxy()
	g := s.GuardOn(client)
	holder := s.Caller(t.Context(), "holder", s.Guard(), "k")
	holder.AwaitIn()
	waiter := s.Caller(t.Context(), "waiter", g, "k")
	owner := s.AwaitQueue("k", 1)[0]
	next := s.Caller(t.Context(), "next", s.Guard(), "k")
	for i := range 3 {
		assert.Equal(t, owner, s.AwaitQueue("k", 2)[0], "round %d: in front", i)
		proxy.Cut()
		s.AwaitSubscribers(owner, 0)
		holder.Pass()
		next.AwaitIn()
		holder, next = next, s.Caller(t.Context(), fmt.Sprint("later ", i), s.Guard(), "k")
		s.AwaitQueue("k", 1)
		proxy.Heal()
	}
	assert.Equal(t, owner, s.AwaitQueue("k", 2)[0], "in front again")
	s.AwaitSubscribers(owner, 1)
	holder.Pass()
	waiter.Pass()
	next.Pass()
	assert.Equal(t, []string{"holder", "next", "later 0", "later 1", "waiter", "later 2"}, s.Book.Entered())
}

// A lock is lost while its work hangs and heeds nothing. The caller behind it in the queue
// does not wait for the work, but claims the key anew.
func TestGrant_CallerBehindALostGrantWhoseWorkHangs(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	g := s.Guard(guard.TTL(900 * time.Millisecond))
	in, hang, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- g.WithLock(context.WithoutCancel(t.Context()), guard.Key("k"), func(context.Context) error {
			close(in)
			<-hang
			return nil
		})
	}()
	goOn := sync.OnceFunc(func() { close(hang) })
	defer goOn()
	s.Await(in, "the work")
	second := s.Caller(t.Context(), "second", g, "k")
	s.AwaitQueued(g, 1)
	require.NoError(t, s.Admin.Del(t.Context(), "guard:{k}").Err())
	second.Pass()
	goOn()
	require.ErrorIs(t, <-done, guard.ErrLost)
	s.AwaitFree("k")
}

// aheadOfTheClock is a site where the last fence of k is ahead of the server's clock: it
// was set back. A Guard has handed its grant over locally, under a fence that the
// server has not heard of; second is in.
func aheadOfTheClock(t *testing.T, opts ...guard.Option) (s *testenv.Redis, g *guard.Guard, second *testenv.Caller) {
	t.Helper()
	s = testenv.NewRedis(t)
	ahead := time.Now().Add(time.Hour).UnixMicro()
	require.NoError(t, s.Admin.Set(t.Context(), "guard:{k}:last", fmt.Sprint(ahead, " "), 0).Err())
	g = s.Guard(append(opts, guard.HandoverWindow(time.Minute))...)
	first := s.Caller(t.Context(), "first", g, "k")
	first.AwaitIn()
	second = s.Caller(t.Context(), "second", g, "k")
	s.AwaitQueued(g, 1)
	first.Pass()
	second.AwaitIn()
	assert.Equal(t, first.Fence+1, second.Fence)
	return s, g, second
}

// The process of that Guard dies, its lock lapses (here: is deleted), and whoever is next
// has a larger fence all the same.
func TestGrant_FencesGrowOverAHandOverThatRedisNeverHeardOf(t *testing.T) {
	t.Parallel()
	s, _, second := aheadOfTheClock(t)
	require.NoError(t, s.Admin.Del(t.Context(), "guard:{k}").Err())
	next := s.Acquire(s.Guard(), "k")
	assert.Greater(t, next.Fence(), second.Fence)
	close(second.Leave)
	require.ErrorIs(t, second.Out(), guard.ErrLost)
	s.Release(next)
}

// Redis forgets everything, the last fence included. The Guard remembers its own.
func TestGrant_FencesGrowOverAHandOverThoughRedisForgets(t *testing.T) {
	t.Parallel()
	s, g, second := aheadOfTheClock(t, guard.TTL(900*time.Millisecond))
	third := make(chan *guard.Lease, 1)
	go func() {
		l, err := g.Acquire(t.Context(), guard.Key("k"))
		assert.NoError(t, err)
		third <- l
	}()
	s.AwaitQueued(g, 1)
	require.NoError(t, s.Admin.FlushAll(t.Context()).Err())
	require.ErrorIs(t, second.Out(), guard.ErrLost)
	l := <-third
	require.NotNil(t, l)
	assert.Greater(t, l.Fence(), second.Fence)
	s.Release(l)
}

// endsWhen is a context that ends, for good, when a condition is first seen to hold. It
// interrupts nobody.
type endsWhen struct {
	context.Context
	over  func() bool
	ended atomic.Bool
}

func (*endsWhen) Done() <-chan struct{} { return nil }

func (c *endsWhen) Err() error {
	if c.ended.Load() || c.over() {
		c.ended.Store(true)
		return context.Canceled
	}
	return nil
}

// A caller's context ends between the grant and the news of it. Its work does not begin.
func TestGrant_CallerWhoseContextEndsWithTheGrantDoesNotWork(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	ctx := &endsWhen{Context: t.Context(), over: func() bool { return len(s.Holders("k")) > 0 }}
	err := s.Guard().WithLock(ctx, guard.Key("k"), func(context.Context) error {
		t.Error("it worked")
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	s.AwaitFree("k")
}

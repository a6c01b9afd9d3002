package guard_test

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
)

// A call nested in another one's work is still inside when the outer one returns, and
// both local and remote callers wait: the last one to leave releases.
func TestNestedCallStillInsideWhenTheOuterOneReturns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.guard(guard.HandoverWindow(time.Minute))
	outer := s.acquire(g, "k")
	local := s.visitor(t.Context(), "local", g, "k")
	s.awaitInLine(g, 1)
	remote := s.visitor(t.Context(), "remote", s.guard(), "k")
	s.awaitQueue("k", 1)
	inner, err := g.Acquire(outer.Context(), guard.Key("k"))
	require.NoError(t, err)
	leave := s.book.enter(inner.Context(), "k", "inner")
	s.release(outer)
	assert.Equal(t, map[string]string{inner.Owner(): "1"}, s.holders("k"))
	require.NoError(t, inner.Err())
	require.NoError(t, inner.Context().Err())
	s.stays(func() bool { return !local.isIn() && !remote.isIn() }, "nobody else is in")
	leave()
	s.release(inner)
	local.pass()
	remote.pass()
	assert.Equal(t, []string{"inner", "local", "remote"}, s.book.entered())
}

// A renewal gets stuck, with the counter of a nested call. The lease ends, the tenure is
// handed over, the next lease is renewed; then the old renewal arrives. It may lengthen
// the tenure, which is the same. It must not end the next lease, nor leave the counter
// wrong for longer than it takes to renew once more.
func TestRenewalOfThePreviousLeaseArrivesLate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	proxy, client := s.proxy()
	g := s.guardOn(client, guard.HandoverWindow(time.Minute), guard.TTL(1500*time.Millisecond))
	held, release := proxy.HoldRequest(s.runs("renew", 1))
	outer := s.acquire(g, "k")
	inner, err := g.Acquire(outer.Context(), guard.Key("k"))
	require.NoError(t, err)
	s.await(held, "the renewal")
	next := s.visitor(t.Context(), "next", g, "k")
	s.awaitInLine(g, 1)
	s.release(inner)
	s.release(outer)
	next.awaitIn()
	assert.Greater(t, next.fence, outer.Fence())
	s.lands(release)
	only := map[string]string{outer.Owner(): "1"}
	s.eventually(func() bool { return assert.ObjectsAreEqual(only, s.holders("k")) }, "the right counter")
	next.pass() // without a loss
	s.awaitFree("k")
}

// The same, but the tenure is over, and somebody else holds the key for a short while:
// nothing of its hold changes.
func TestRenewalOfAReleasedLeaseArrivesLate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	proxy, client := s.proxy()
	g := s.guardOn(client)
	held, release := proxy.HoldRequest(s.runs("renew", 1))
	l := s.acquire(g, "k", guard.TTL(5*time.Second))
	s.await(held, "the renewal")
	s.release(l)
	next := s.acquire(s.guard(), "k", guard.TTL(3*time.Second), guard.FixedLease())
	s.lands(release)
	assert.Equal(t, map[string]string{next.Owner(): "1"}, s.holders("k"))
	assert.LessOrEqual(t, s.admin.PTTL(t.Context(), "guard:{k}").Val(), 3*time.Second)
	s.release(next)
}

// A waiter's connections break whenever the lock could go to it. Others are served
// meanwhile, but whoever came after it waits behind it again when it is back, however
// often that happens.
func TestWaiterWhoseGrantsAreLostKeepsItsPlace(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	proxy, client := s.proxy()
	g := s.guardOn(client)
	holder := s.visitor(t.Context(), "holder", s.guard(), "k")
	holder.awaitIn()
	waiter := s.visitor(t.Context(), "waiter", g, "k")
	owner := s.awaitQueue("k", 1)[0]
	next := s.visitor(t.Context(), "next", s.guard(), "k")
	for i := range 3 {
		assert.Equal(t, owner, s.awaitQueue("k", 2)[0], "round %d: in front", i)
		proxy.Cut()
		s.awaitSubscribers(owner, 0)
		holder.pass()
		next.awaitIn()
		holder, next = next, s.visitor(t.Context(), fmt.Sprint("later ", i), s.guard(), "k")
		s.awaitQueue("k", 1)
		proxy.Heal()
	}
	assert.Equal(t, owner, s.awaitQueue("k", 2)[0], "in front again")
	s.awaitSubscribers(owner, 1)
	holder.pass()
	waiter.pass()
	next.pass()
	assert.Equal(t, []string{"holder", "next", "later 0", "later 1", "waiter", "later 2"}, s.book.entered())
}

// A lock is lost while its work hangs and heeds nothing. The caller behind it in line
// does not wait for the work, but claims the key anew.
func TestCallerBehindALostTenureWhoseWorkHangs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.guard(guard.TTL(900 * time.Millisecond))
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
	s.await(in, "the work")
	second := s.visitor(t.Context(), "second", g, "k")
	s.awaitInLine(g, 1)
	require.NoError(t, s.admin.Del(t.Context(), "guard:{k}").Err())
	second.pass()
	goOn()
	require.ErrorIs(t, <-done, guard.ErrLost)
	s.awaitFree("k")
}

// aheadOfTheClock is a site where the last fence of k is ahead of the server's clock: it
// was set back. A Guard has handed its tenure over locally, under a fence that the
// server has not heard of; second is in.
func aheadOfTheClock(t *testing.T, opts ...guard.Option) (s *site, g *guard.Guard, second *visitor) {
	t.Helper()
	s = newSite(t)
	ahead := time.Now().Add(time.Hour).UnixMicro()
	require.NoError(t, s.admin.Set(t.Context(), "guard:{k}:last", fmt.Sprint(ahead, " "), 0).Err())
	g = s.guard(append(opts, guard.HandoverWindow(time.Minute))...)
	first := s.visitor(t.Context(), "first", g, "k")
	first.awaitIn()
	second = s.visitor(t.Context(), "second", g, "k")
	s.awaitInLine(g, 1)
	first.pass()
	second.awaitIn()
	assert.Equal(t, first.fence+1, second.fence)
	return s, g, second
}

// The process of that Guard dies, its lock lapses (here: is deleted), and whoever is next
// has a larger fence all the same.
func TestFencesGrowOverAHandOverThatRedisNeverHeardOf(t *testing.T) {
	t.Parallel()
	s, _, second := aheadOfTheClock(t)
	require.NoError(t, s.admin.Del(t.Context(), "guard:{k}").Err())
	next := s.acquire(s.guard(), "k")
	assert.Greater(t, next.Fence(), second.fence)
	close(second.leave)
	require.ErrorIs(t, second.out(), guard.ErrLost)
	s.release(next)
}

// Redis forgets everything, the last fence included. The Guard remembers its own.
func TestFencesGrowOverAHandOverThoughRedisForgets(t *testing.T) {
	t.Parallel()
	s, g, second := aheadOfTheClock(t, guard.TTL(900*time.Millisecond))
	third := make(chan *guard.Lease, 1)
	go func() {
		l, err := g.Acquire(t.Context(), guard.Key("k"))
		assert.NoError(t, err)
		third <- l
	}()
	s.awaitInLine(g, 1)
	require.NoError(t, s.admin.FlushAll(t.Context()).Err())
	require.ErrorIs(t, second.out(), guard.ErrLost)
	l := <-third
	require.NotNil(t, l)
	assert.Greater(t, l.Fence(), second.fence)
	s.release(l)
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
func TestCallerWhoseContextEndsWithTheGrantDoesNotWork(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ctx := &endsWhen{Context: t.Context(), over: func() bool { return len(s.holders("k")) > 0 }}
	err := s.guard().WithLock(ctx, guard.Key("k"), func(context.Context) error {
		t.Error("it worked")
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	s.awaitFree("k")
}

// stalled is an observer that takes its time over the first renewal.
type stalled struct {
	guard.NopObserver
	once sync.Once
	goOn chan struct{}
}

func (o *stalled) Event(_ context.Context, _ guard.Lock, e guard.Event) {
	if e.Kind == guard.Renewal {
		o.once.Do(func() { <-o.goOn })
	}
}

// The watchdog tells a lease that it was renewed, while its tenure is handed over to the
// next one. The race detector sees it when whom to tell is looked up too late, unless a
// signal from the observer hides that: hence the sleep.
func TestTenureIsHandedOverWhileARenewalIsTold(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	o := &stalled{goOn: make(chan struct{})}
	g := s.guard(guard.HandoverWindow(time.Minute), guard.TTL(600*time.Millisecond), guard.Observe(o))
	first := s.visitor(t.Context(), "first", g, "k")
	first.awaitIn()
	second := s.visitor(t.Context(), "second", g, "k")
	s.awaitInLine(g, 1)
	before := s.scripts()
	s.eventually(func() bool { return s.scripts() > before }, "the renewal")
	time.Sleep(50 * time.Millisecond)
	first.pass()
	second.awaitIn()
	close(o.goOn)
	second.pass()
}

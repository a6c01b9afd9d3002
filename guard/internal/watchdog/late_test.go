package watchdog_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// The tests in this file hold a request back on its way to Redis, and let it arrive
// when nobody counts on it any more.

const impatient = time.Second // a StoreTimeout

// The caller of an acquire leaves while it is on its way. It arrives when the Guard has
// given up waiting for it, and takes a lock for nobody.
// It would wait in the queue for nobody if somebody else holds the lock.
func TestLate_AnAcquireThatArrivesAfterItWasAbandoned(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"free": guard.Forever, "taken": guard.Forever, "not to wait": 0} {
		t.Run(name, func(t *testing.T) {
			r := testenv.New(t, redistest.Shared(t), guard.StoreTimeout(impatient), guard.Wait(wait))
			if name == "taken" {
				defer r.TakenByAnother(t, t.Name())()
			}
			before := r.Hash(t, t.Name())
			held, land := r.HoldBack(testenv.RunsScript(t, "acquire"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			acquired := testenv.AcquireLater(ctx, r, t.Name())
			testenv.Await(t, held)
			cancel()
			_, err := acquired(t)
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, guard.ErrBusy)
			r.Tombstones(t, t.Name(), 1)
			land(t)
			assert.Equal(t, before, r.Hash(t, t.Name()))
			assert.Empty(t, r.Queue(t, t.Name()))
		})
	}
}

// The same, but it arrives before what withdraws it: what it took is given back.
func TestLate_AnAcquireThatIsGrantedAfterTheCallerLeft(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t), guard.StoreTimeout(2*testenv.Patience))
	held, land := r.HoldBack(testenv.RunsScript(t, "acquire"))
	_, withdraw := r.Proxy.HoldRequest(testenv.RunsScript(t, "release"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	acquired := testenv.AcquireLater(ctx, r, t.Name())
	testenv.Await(t, held)
	cancel()
	_, err := acquired(t)
	require.ErrorIs(t, err, context.Canceled)
	land(t)
	assert.NotEmpty(t, r.Hash(t, t.Name()))
	withdraw()
	testenv.Eventually(t, func() bool { return len(r.Hash(t, t.Name())) == 0 }, "not released")
	_, owner := r.Last(t, t.Name())
	assert.NotEmpty(t, owner)
}

// The same, but the lock is taken: what it is given is a place in the queue.
func TestLate_AnAcquireThatQueuesAfterTheCallerLeft(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t), guard.StoreTimeout(2*testenv.Patience))
	free := r.TakenByAnother(t, t.Name())
	held, release := r.Proxy.HoldRequest(testenv.RunsScript(t, "acquire"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	acquired := testenv.AcquireLater(ctx, r, t.Name())
	testenv.Await(t, held)
	landed := r.Proxy.SwallowReply(testenv.RunsScript(t, "release"), 1) // it leaves the queue, before it is in it or after
	cancel()
	_, err := acquired(t)
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, r.Queue(t, t.Name()))
	release()
	testenv.Await(t, landed)
	testenv.Eventually(t, func() bool { return len(r.Queue(t, t.Name())) == 0 }, "a place for nobody")
	r.Tombstones(t, t.Name(), 1)
	free()
	assert.Empty(t, r.Hash(t, t.Name()))
}

// No try of an acquire arrives within the StoreTimeout. All arrive later.
func TestLate_AnAcquireThatTimedOut(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t), guard.StoreTimeout(impatient))
	acquire := testenv.RunsScript(t, "acquire")
	type try struct {
		held <-chan struct{}
		land func(*testing.T)
	}
	var tries []try
	for range 10 {
		held, land := r.HoldBack(acquire)
		tries = append(tries, try{held, land})
	}
	begun := time.Now()
	_, err := r.Acquire(t.Context(), guard.Key(t.Name()), guard.NoWait())
	var failure *guard.StoreError
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, "acquire", failure.Op)
	assert.Equal(t, t.Name(), failure.Key)
	assert.Less(t, time.Since(begun), 10*impatient)
	r.Tombstones(t, t.Name(), 1)
	landed := 0
	for _, try := range tries {
		select {
		case <-try.held:
			try.land(t)
			landed++
		default:
		}
	}
	assert.Positive(t, landed)
	assert.Empty(t, r.Hash(t, t.Name()))
}

// The first try is held back, the second takes the lock; the lease ends; another owner
// holds the lock and releases it, so that Redis no longer remembers who was before. Then
// the first try arrives.
func TestLate_AFirstTryThatArrivesAfterTheLease(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"to wait": guard.Forever, "not to wait": 0} {
		t.Run(name, func(t *testing.T) {
			r := testenv.New(t, redistest.Shared(t), guard.StoreTimeout(impatient), guard.Wait(wait))
			held, land := r.HoldBack(testenv.RunsScript(t, "acquire"))
			l, err := r.Acquire(t.Context(), guard.Key(t.Name()))
			require.NoError(t, err)
			testenv.Await(t, held)
			assert.Equal(t, "1", r.Depth(t, t.Name()))
			require.NoError(t, l.Release(t.Context()))
			r.TakenByAnother(t, t.Name())() // and released
			land(t)
			assert.Empty(t, r.Hash(t, t.Name()))
			assert.Empty(t, r.Queue(t, t.Name()))
		})
	}
}

// A's release is held back, and sent again, which frees the lock. B takes it. Then A's
// first release arrives: the lock stays B's.
func TestLate_AReleaseThatArrivesWhenAnotherHolds(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t), guard.StoreTimeout(impatient))
	a, err := r.Acquire(t.Context(), guard.Key(t.Name()))
	require.NoError(t, err)
	held, land := r.HoldBack(testenv.RunsScript(t, "release"))
	require.NoError(t, a.Release(t.Context()))
	testenv.Await(t, held)
	b, err := testenv.GuardOn(t, r.Direct).Acquire(t.Context(), guard.Key(t.Name()))
	require.NoError(t, err)
	before := r.Hash(t, t.Name())
	land(t)
	assert.Equal(t, before, r.Hash(t, t.Name()))
	assert.Contains(t, before, b.Owner())
	require.NoError(t, b.Release(t.Context()))
	assert.Empty(t, r.Hash(t, t.Name()))
}

// A's renewal is held back. A releases: the renewal must not bring the lock back. B
// takes it for a shorter time: the renewal must not make it longer.
func TestLate_ARenewalThatArrivesAfterTheRelease(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t))
	for name, taken := range map[string]bool{"free": false, "taken": true} {
		t.Run(name, func(t *testing.T) {
			held, land := r.HoldBack(testenv.RunsScript(t, "renew"))
			a, err := r.Acquire(t.Context(), guard.Key(t.Name()), guard.TTL(900*time.Millisecond))
			require.NoError(t, err)
			testenv.Await(t, held)
			require.NoError(t, a.Release(t.Context()))
			require.Empty(t, r.Hash(t, t.Name()))
			if !taken {
				land(t)
				assert.Empty(t, r.Hash(t, t.Name()))
				return
			}
			b, err := testenv.GuardOn(t, r.Direct).Acquire(t.Context(), guard.Key(t.Name()),
				guard.TTL(500*time.Millisecond), guard.FixedLease())
			require.NoError(t, err)
			before := r.Hash(t, t.Name())
			land(t)
			assert.LessOrEqual(t, r.Direct.PTTL(t.Context(), testenv.LockOf(t.Name())).Val(), 500*time.Millisecond)
			assert.Subset(t, before, r.Hash(t, t.Name()), "B's lock, or nothing if its time is over")
			_ = b.Release(t.Context()) // B may be over
		})
	}
}

// An enter is held back and sent again; the inner call ends. Then the first enter
// arrives and sets the counter to 2: the next renewal sets it right.
func TestLate_AnEnterThatArrivesAfterTheLeave(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t), guard.StoreTimeout(impatient))
	held, land := r.HoldBack(testenv.SetsDepth(t, 2))
	err := r.WithLock(t.Context(), guard.Key(t.Name()), func(ctx context.Context) error {
		err := r.WithLock(ctx, guard.Key(t.Name()), func(context.Context) error {
			assert.Equal(t, "2", r.Depth(t, t.Name()))
			return nil
		})
		require.NoError(t, err)
		testenv.Await(t, held)
		assert.Equal(t, "1", r.Depth(t, t.Name()))
		land(t)
		r.Seen.More(t, guard.Renewal, 2)
		assert.Equal(t, "1", r.Depth(t, t.Name()))
		return ctx.Err()
	}, guard.TTL(1200*time.Millisecond))
	require.NoError(t, err)
	assert.Empty(t, r.Hash(t, t.Name()))
}

// An enter, or a leave, is held back until the lock is free, or another's: it must not
// write anything there.
func TestLate_ASettingOfTheCounterThatArrivesAfterTheRelease(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t), guard.StoreTimeout(impatient))
	b := testenv.GuardOn(t, r.Direct)
	for op, depth := range map[string]byte{"enter": 2, "leave": 1} {
		for _, taken := range []bool{false, true} {
			key := guard.JoinKey(t.Name(), op, map[bool]string{false: "free", true: "taken"}[taken])
			held, land := r.HoldBack(testenv.SetsDepth(t, depth))
			err := r.WithLock(t.Context(), guard.Key(key), func(ctx context.Context) error {
				return r.WithLock(ctx, guard.Key(key), func(context.Context) error { return nil })
			})
			require.NoError(t, err)
			testenv.Await(t, held)
			require.Empty(t, r.Hash(t, key))
			if taken {
				l, err := b.Acquire(t.Context(), guard.Key(key))
				require.NoError(t, err)
				defer func() { require.NoError(t, l.Release(context.WithoutCancel(t.Context()))) }()
			}
			before := r.Hash(t, key)
			land(t)
			assert.Equal(t, before, r.Hash(t, key), op)
		}
	}
}

// A renewal gets stuck, with the counter of a nested call. The lease ends, the grant is
// handed over, the next lease is renewed; then the old renewal arrives. It may lengthen
// the grant, which is the same. It must not end the next lease, nor leave the counter
// wrong for longer than it takes to renew once more.
func TestLate_RenewalOfThePreviousLeaseArrivesLate(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	proxy, client := s.Proxy()
	g := s.GuardOn(client, guard.HandoverWindow(time.Minute), guard.TTL(1500*time.Millisecond))
	held, release := proxy.HoldRequest(s.Runs("renew", 2)) // the first is that of the nested call
	outer := s.Acquire(g, "k")
	inner, err := g.Acquire(outer.Context(), guard.Key("k"))
	require.NoError(t, err)
	s.Await(held, "the renewal")
	next := s.Caller(t.Context(), "next", g, "k")
	s.AwaitQueued(g, 1)
	s.Release(inner)
	s.Release(outer)
	next.AwaitIn()
	assert.Greater(t, next.Fence, outer.Fence())
	s.Lands(release)
	only := map[string]string{outer.Owner(): "1"}
	s.Eventually(func() bool { return assert.ObjectsAreEqual(only, s.Holders("k")) }, "the right counter")
	next.Pass() // without a loss
	s.AwaitFree("k")
}

// The same, but the grant is over, and somebody else holds the key for a short while:
// nothing of its hold changes.
func TestLate_RenewalOfAReleasedLeaseArrivesLate(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	proxy, client := s.Proxy()
	g := s.GuardOn(client)
	held, release := proxy.HoldRequest(s.Runs("renew", 1))
	l := s.Acquire(g, "k", guard.TTL(5*time.Second))
	s.Await(held, "the renewal")
	s.Release(l)
	next := s.Acquire(s.Guard(), "k", guard.TTL(3*time.Second), guard.FixedLease())
	s.Lands(release)
	assert.Equal(t, map[string]string{next.Owner(): "1"}, s.Holders("k"))
	assert.LessOrEqual(t, s.Admin.PTTL(t.Context(), "guard:{k}").Val(), 3*time.Second)
	s.Release(next)
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

// The watchdog tells a lease that it was renewed, while its grant is handed over to the
// next one. The race detector sees it when whom to tell is looked up too late, unless a
// signal from the observer hides that: hence the sleep.
func TestLate_GrantIsHandedOverWhileARenewalIsTold(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	o := &stalled{goOn: make(chan struct{})}
	g := s.Guard(guard.HandoverWindow(time.Minute), guard.TTL(600*time.Millisecond), guard.Observe(o))
	first := s.Caller(t.Context(), "first", g, "k")
	first.AwaitIn()
	second := s.Caller(t.Context(), "second", g, "k")
	s.AwaitQueued(g, 1)
	before := s.Scripts()
	s.Eventually(func() bool { return s.Scripts() > before }, "the renewal")
	time.Sleep(50 * time.Millisecond)
	first.Pass()
	second.AwaitIn()
	close(o.goOn)
	second.Pass()
}

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
// when no caller counts on it any more.

const impatient = time.Second // a StoreTimeout

// The caller of an acquire leaves while it is on its way. It arrives when the Guard has
// given up waiting for it, and takes a lock for no caller.
// It would wait in the queue for no caller if another owner holds the lock.
func TestLate_AnAcquireThatArrivesAfterItWasAbandoned(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"free": guard.Forever, "taken": guard.Forever, "not to wait": 0} {
		t.Run(name, func(t *testing.T) {
			r := testenv.New(t, redistest.Start(t), guard.StoreTimeout(impatient), guard.Wait(wait))
			if name == "taken" {
				defer r.TakenByAnother(t, t.Name())()
			}
			before := r.Hash(t, t.Name())
			held, land := r.HoldBack(testenv.RunsScript(t, "acquire"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			acquired := testenv.InBackground(func() error {
				_, err := r.Acquire(ctx, guard.Key(t.Name()))
				return err
			})
			testenv.Await(t, held)
			cancel()
			err := acquired(t)
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, guard.ErrBusy)
			r.Tombstones(t, t.Name(), 1)
			land(t)
			assert.Equal(t, before, r.Hash(t, t.Name()))
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
	assert.Contains(t, before, testenv.Owner(b))
	require.NoError(t, b.Release(t.Context()))
	assert.Empty(t, r.Hash(t, t.Name()))
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
	renews, nested := testenv.RunsScript(t, "renew"), testenv.SetsDepth(t, 2)
	held, release := proxy.HoldRequest(func(req []byte) bool { return renews(req) && !nested(req) })
	outer := s.Acquire(g, "k")
	inner, err := g.Acquire(outer.Context(), guard.Key("k"))
	require.NoError(t, err)
	testenv.Await(t, held)
	next := s.Caller(t.Context(), "next", g, "k")
	s.Eventually(func() bool { return testenv.Queued(g) == 1 }, "the next one in the queue")
	s.Release(inner)
	s.Release(outer)
	next.AwaitIn()
	assert.Greater(t, next.Fence, outer.Fence())
	before := s.Scripts()
	release()
	s.Eventually(func() bool { return s.Scripts() > before }, "the late renewal")
	only := map[string]string{testenv.Owner(outer): "1"}
	s.Eventually(func() bool { return assert.ObjectsAreEqual(only, s.Holders("k")) }, "the right counter")
	next.Pass() // without a loss
	s.AwaitFree("k")
}

// stalled is an observer that is slow to return from the first renewal.
type stalled struct {
	guard.NopObserver
	once sync.Once
	goOn chan struct{}
}

func (o *stalled) Event(_ context.Context, _ guard.Lock, e guard.Event) {
	if e.Kind == guard.EventRenewal {
		o.once.Do(func() { <-o.goOn })
	}
}

// The watchdog reports to a lease that it was renewed, while its grant is handed over to the
// next one. The race detector sees it when the holder to notify is looked up too late, unless a
// signal from the observer hides that: hence the sleep.
func TestLate_GrantIsHandedOverWhileARenewalIsReported(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	o := &stalled{goOn: make(chan struct{})}
	g := s.Guard(guard.HandoverWindow(time.Minute), guard.TTL(600*time.Millisecond), guard.Observe(o))
	first := s.Caller(t.Context(), "first", g, "k")
	first.AwaitIn()
	second := s.Caller(t.Context(), "second", g, "k")
	s.Eventually(func() bool { return testenv.Queued(g) == 1 }, "the next one in the queue")
	before := s.Scripts()
	s.Eventually(func() bool { return s.Scripts() > before }, "the renewal")
	time.Sleep(50 * time.Millisecond)
	first.Pass()
	second.AwaitIn()
	close(o.goOn)
	second.Pass()
}

package watchdog_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// The tests in this file show how long a lease can be trusted, and when it ends.

func TestTrust_AHoldOfManyTTLsIsKept(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t))
	const ttl = 500 * time.Millisecond
	err := r.WithLock(t.Context(), guard.Key(t.Name()), func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-time.After(5 * ttl):
		}
		return context.Cause(ctx)
	}, guard.TTL(ttl))
	require.NoError(t, err)
	assert.Empty(t, r.Hash(t, t.Name()))
}

// The replies to an acquire and to a renewal take a while. Redis counts from when it got
// the request: the time that the reply took is not the holder's.
func TestTrust_ASlowReplyMakesNoLeaseLonger(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t), guard.TTL(1500*time.Millisecond))
	var l *guard.Lease
	r.SlowReply(t, "acquire", func() <-chan struct{} {
		if l != nil {
			require.NoError(t, l.Release(t.Context()))
		}
		acquired := make(chan struct{})
		go func() {
			defer close(acquired)
			var err error
			l, err = r.Acquire(t.Context(), guard.Key(t.Name()), guard.NoWait())
			assert.NoError(t, err)
		}()
		return acquired
	})
	require.NotNil(t, l)
	assert.True(t, l.Deadline().Before(r.Expiry(t, t.Name())), "after the acquire")
	r.SlowReply(t, "renew", func() <-chan struct{} {
		_, renewed := r.Seen.Count(guard.Renewal)
		return renewed
	})
	assert.True(t, l.Deadline().Before(r.Expiry(t, t.Name())), "after the renewal")
	require.NoError(t, l.Release(t.Context()))
}

func TestTrust_ALostLeaseJoinsTheErrorOfTheWork(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t))
	broken := errors.New("broken")
	err := r.WithLock(t.Context(), guard.Key(t.Name()), func(ctx context.Context) error {
		require.NoError(t, r.Direct.Del(ctx, testenv.LockOf(t.Name())).Err())
		testenv.Await(t, ctx.Done())
		return broken
	}, guard.TTL(1200*time.Millisecond))
	require.ErrorIs(t, err, guard.ErrLost)
	require.ErrorIs(t, err, broken)
}

// An operator deletes the key. The next renewal, a third of the ttl later at most, finds
// out, and nothing brings the key back.
func TestTrust_AKeyThatWasDeletedIsFoundMissing(t *testing.T) {
	t.Parallel()
	const ttl = 1500 * time.Millisecond
	r := testenv.New(t, redistest.Shared(t))
	var fence uint64
	err := r.WithLock(t.Context(), guard.Key(t.Name()), func(ctx context.Context) error {
		fence, _ = guard.Fence(ctx)
		require.NoError(t, r.Direct.Del(ctx, testenv.LockOf(t.Name())).Err())
		inTime := testenv.Within(t, ttl/3+time.Second)
		testenv.Await(t, ctx.Done())
		inTime()
		return nil
	}, guard.TTL(ttl))
	require.ErrorIs(t, err, guard.ErrLost)
	assert.Empty(t, r.Hash(t, t.Name()))
	err = r.WithLock(t.Context(), guard.Key(t.Name()), func(ctx context.Context) error {
		next, _ := guard.Fence(ctx)
		assert.Greater(t, next, fence)
		return nil
	})
	require.NoError(t, err)
}

// Redis is killed and comes back empty: the lease is lost, and the next fence is larger
// although Redis knows nothing of the last one.
func TestTrust_ARedisThatComesBackEmpty(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := testenv.New(t, s)
	var fence uint64
	err := r.WithLock(t.Context(), guard.Key(t.Name()), func(ctx context.Context) error {
		fence, _ = guard.Fence(ctx)
		s.Kill()
		s.Restart(t)
		testenv.Await(t, ctx.Done())
		return nil
	}, guard.TTL(1500*time.Millisecond))
	var lost *guard.LostError
	require.ErrorAs(t, err, &lost)
	l, err := r.Acquire(t.Context(), guard.Key(t.Name()))
	require.NoError(t, err)
	assert.Greater(t, l.Fence(), fence)
	require.NoError(t, l.Release(t.Context()))
}

// Redis forgets the scripts all the time.
func TestTrust_ScriptFlushDoesNoHarm(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Start(t), guard.TTL(2*time.Second))
	ctx, stop := context.WithCancel(t.Context())
	var flusher, workers sync.WaitGroup
	flusher.Go(func() {
		for ctx.Err() == nil {
			_ = r.Direct.ScriptFlush(ctx).Err()
		}
	})
	long, err := r.Acquire(t.Context(), guard.Key("long"))
	require.NoError(t, err)
	for i := range 4 {
		workers.Go(func() {
			key := guard.Keyf("%d", i%2)
			for range 50 {
				assert.NoError(t, r.WithLock(t.Context(), key, func(ctx context.Context) error {
					return r.WithLock(ctx, key, func(ctx context.Context) error { return ctx.Err() })
				}))
			}
		})
	}
	r.Seen.More(t, guard.Renewal, 2)
	workers.Wait()
	stop()
	flusher.Wait()
	require.NoError(t, long.Err())
	require.NoError(t, long.Release(t.Context()))
	assert.Empty(t, r.Hash(t, "long"))
}

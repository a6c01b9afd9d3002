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
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// The nth reply to a script is lost, and the connection cut. The server has executed it each time.
func TestOnce_ALostReplyIsAsGoodAsOneThatArrived(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"acquire", "release"} {
		for times := 1; times <= 3; times += 2 {
			t.Run(fmt.Sprintf("%s/%d", script, times), func(t *testing.T) {
				t.Parallel()
				r := testenv.New(t, redistest.Shared(t))
				key := guard.Key(t.Name())
				var runs int
				lost := r.Lose(testenv.RunsScript(t, script), times)
				for i := range 3 {
					v, replayed, err := guard.Once(t.Context(), r.Guard, key, time.Minute, func(ctx context.Context) (int, error) {
						_, ok := guard.Earlier(ctx)
						assert.False(t, ok, "it is its own beginning")
						runs++
						return runs, nil
					}, guard.AtMostOnce())
					require.NoError(t, err)
					assert.Equal(t, 1, v)
					assert.Equal(t, i > 0, replayed)
				}
				testenv.Await(t, lost...)
				forgotten, err := r.Forget(t.Context(), key)
				require.NoError(t, err)
				assert.True(t, forgotten)
			})
		}
	}
}

// A lost reply to Forget is no reason to say that there was nothing to forget.
func TestOnce_ForgetWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t))
	key := guard.Key(t.Name())
	_, _, err := guard.Once(t.Context(), r.Guard, key, time.Minute, func(context.Context) (int, error) { return 1, nil })
	require.NoError(t, err)
	require.NoError(t, r.Direct.ScriptLoad(t.Context(), testenv.ScriptSource(t, "forget")).Err())
	lost := r.Lose(testenv.RunsScript(t, "forget"), 1)
	forgotten, err := r.Forget(t.Context(), key)
	testenv.Await(t, lost...)
	require.NoError(t, err)
	assert.True(t, forgotten)
}

// Many callers of several processes come with one key, again and again: each key is charged once, and all
// get the same result.
func TestOnce_ManyCallersAreChargedOnce(t *testing.T) {
	t.Parallel()
	var gs []*guard.Guard
	for range 3 {
		gs = append(gs, testenv.GuardOn(t, redistest.Shared(t).Client(t)))
	}
	const keys, callers = 20, 24
	charges := make([]atomic.Int64, keys)
	var wg sync.WaitGroup
	for i := range keys * callers {
		wg.Go(func() {
			order := i / callers
			v, _, err := guard.Once(t.Context(), gs[i%len(gs)], guard.Keyf(t.Name()+":%d", order), time.Minute, func(context.Context) (string, error) {
				charges[order].Add(1)
				return fmt.Sprintf("receipt of %d", order), nil
			}, guard.Fingerprint([]byte{byte(order)}))
			assert.NoError(t, err)
			assert.Equal(t, fmt.Sprintf("receipt of %d", order), v)
		})
	}
	wg.Wait()
	for order := range charges {
		assert.EqualValues(t, 1, charges[order].Load(), "order %d", order)
		forgotten, err := gs[0].Forget(t.Context(), guard.Keyf(t.Name()+":%d", order))
		require.NoError(t, err)
		assert.True(t, forgotten)
	}
}

// A record lives for keep, and next to it there is nothing: no lock, no queue.
func TestOnce_WhatIsLeftInRedis(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t))
	_, _, err := guard.Once(t.Context(), r.Guard, guard.Key(t.Name()), time.Minute, func(ctx context.Context) (string, error) {
		left := r.Direct.PTTL(ctx, testenv.LockOf(t.Name())+":once").Val()
		assert.InDelta(t, time.Minute, left, float64(15*time.Second), "the beginning is noted for as long")
		return "receipt", nil
	}, guard.Metadata("worker 7"))
	require.NoError(t, err)
	left := r.Direct.PTTL(t.Context(), testenv.LockOf(t.Name())+":once").Val()
	assert.InDelta(t, time.Minute, left, float64(15*time.Second))
	assert.Empty(t, r.Hash(t, t.Name()))
	value := r.Direct.Get(t.Context(), testenv.LockOf(t.Name())+":once").Val()
	assert.Regexp(t, `^1 done \d+ 0 \S+ - \d+ 8 worker 7"receipt"$`, value)
	assert.LessOrEqual(t, len(value)-len(`"receipt"`), 150)
	forgotten, err := r.Forget(t.Context(), guard.Key(t.Name()))
	require.NoError(t, err)
	assert.True(t, forgotten)
}

// A key of another type in the place of the record is a refusal, and takes nothing.
func TestOnce_AForeignRecordIsRefused(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t))
	record := testenv.LockOf(t.Name()) + ":once"
	for name, put := range map[string]func() error{
		"a list": func() error { return r.Direct.RPush(t.Context(), record, "theirs").Err() },
		"a text": func() error { return r.Direct.Set(t.Context(), record, "theirs", 0).Err() },
	} {
		require.NoError(t, put(), name)
		_, _, err := guard.Once(t.Context(), r.Guard, guard.Key(t.Name()), time.Minute, never[int](t))
		var failure *guard.StoreError
		require.ErrorAs(t, err, &failure, name)
		require.NoError(t, r.WithLock(t.Context(), guard.Key(t.Name()), testenv.Nothing, guard.NoWait()), "nothing was taken")
		require.NoError(t, r.Direct.Del(t.Context(), record).Err())
	}
}

// With memory full, no work begins, and nothing stays of the attempt. A result is kept all the same.
func TestOnce_MemoryFull(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := testenv.New(t, s)
	full := func(most string) { require.NoError(t, r.Direct.ConfigSet(t.Context(), "maxmemory", most).Err()) }
	v, _, err := guard.Once(t.Context(), r.Guard, guard.Key("before"), time.Minute, func(context.Context) (int, error) {
		full("1")
		return 7, nil
	})
	require.NoError(t, err)
	assert.Equal(t, 7, v)
	v, replayed, err := guard.Once(t.Context(), r.Guard, guard.Key("before"), time.Minute, never[int](t))
	require.NoError(t, err, "the result was kept, and is read")
	assert.True(t, replayed)
	assert.Equal(t, 7, v)
	_, _, err = guard.Once(t.Context(), r.Guard, guard.Key("after"), time.Minute, never[int](t), guard.AtMostOnce())
	require.ErrorIs(t, err, guard.ErrStore)
	full("0")
	_, replayed, err = guard.Once(t.Context(), r.Guard, guard.Key("after"), time.Minute, func(context.Context) (int, error) { return 8, nil }, guard.AtMostOnce())
	require.NoError(t, err)
	assert.False(t, replayed)
	for _, key := range []string{"before", "after"} {
		_, err = r.Forget(t.Context(), guard.Key(key))
		require.NoError(t, err)
	}
}

// A result that too few replicas know of is not confirmed, and its release is repeated.
func TestOnce_ReplicasKnowOfAResult(t *testing.T) {
	t.Parallel()
	primary, replica := testenv.Replicated(t)
	seen := testenv.NewWatcher()
	g, err := guard.New(primary.Client(t), guard.Replicas(1, 100*time.Millisecond), guard.Observe(seen))
	require.NoError(t, err)
	defer g.Close()
	_, _, err = guard.Once(t.Context(), g, testenv.Order, time.Minute, func(context.Context) (string, error) { return "receipt", nil })
	require.NoError(t, err)
	assert.Contains(t, replica.Client(t).Get(t.Context(), "guard:{order:42}:once").Val(), " done ", "before Once returned")

	_, _, err = guard.Once(t.Context(), g, guard.Key("k"), time.Minute, func(context.Context) (string, error) {
		require.NoError(t, replica.Pause())
		return "receipt", nil
	})
	require.NoError(t, err, "the caller has its result")
	n, _ := seen.Count(guard.ReleaseFailure)
	assert.Equal(t, 1, n)
	require.NoError(t, replica.Resume())
	testenv.Eventually(t, func() bool {
		return primary.Client(t).Exists(t.Context(), "guard:{k}").Val() == 0
	}, "released")
}

package guard_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// The nth reply to a script is lost, and the connection cut. The server has executed it each time. The rest is a
// record that lives for keep, and next to it there is nothing: no lock, no queue.
func TestOnce_ALostReplyChangesNothing(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"acquire", "release", "forget"} {
		for times := 1; times <= 3; times += 2 {
			t.Run(fmt.Sprintf("%s/%d", script, times), func(t *testing.T) {
				t.Parallel()
				r := testenv.New(t, redistest.Shared(t))
				require.NoError(t, r.Direct.ScriptLoad(t.Context(), testenv.ScriptSource(t, "forget")).Err())
				record, left := testenv.LockOf(t.Name())+":once", func() time.Duration {
					return r.Direct.PTTL(t.Context(), testenv.LockOf(t.Name())+":once").Val()
				}
				lost, runs := r.Lose(testenv.RunsScript(t, script), times), 0
				for i := range 3 {
					v, replayed, err := guard.Once(t.Context(), r.Guard, guard.Key(t.Name()), time.Minute, func(ctx context.Context) (string, error) {
						_, ok := guard.Interrupted(ctx)
						assert.False(t, ok, "it is its own beginning")
						assert.InDelta(t, time.Minute+guard.DefaultTTL, left(), float64(15*time.Second), "it outlives the lease")
						runs++
						return "receipt", nil
					}, guard.AtMostOnce(), guard.Metadata("worker 7"))
					require.NoError(t, err)
					assert.Equal(t, "receipt", v)
					assert.Equal(t, i > 0, replayed)
				}
				assert.Equal(t, 1, runs)
				assert.InDelta(t, time.Minute, left(), float64(15*time.Second))
				assert.Empty(t, r.Hash(t, t.Name()))
				assert.Regexp(t, `^1 done \d+ 0 \S+ - \d+ 8 worker 7"receipt"$`, r.Direct.Get(t.Context(), record).Val())
				forgotten, err := r.Forget(t.Context(), guard.Key(t.Name()))
				require.NoError(t, err)
				assert.True(t, forgotten)
				testenv.Await(t, lost...)
			})
		}
	}
}

// A value under the record's name that is no record is an error of its own: the work does not run, and no lock is taken.
func TestOnce_DamagedRecordIsRefused(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t))
	record, key := testenv.LockOf(t.Name())+":once", guard.Key(t.Name())
	refused := func(what string) {
		_, replayed, err := guard.Once(t.Context(), r.Guard, key, time.Minute, noRun[int](t), guard.FailOpen())
		damaged := as[*guard.OnceError](t, err)
		require.ErrorIs(t, err, guard.ErrDamagedRecord, what)
		is(t, err, guard.ErrUnknownOutcome, guard.ErrStore)
		assert.False(t, replayed)
		assert.Equal(t, "idempotency_record_damaged", damaged.ErrorType())
		assert.Equal(t, `guard: once: an earlier call began, and nobody knows how it ended: its record in Redis is damaged`, err.Error())
		require.NoError(t, r.WithLock(t.Context(), key, nothing, guard.NoWait()), "nothing was taken")
	}
	owner := "0123456789abcdef0123456789abcdef-1"
	for what, text := range map[string]string{
		"foreign": "theirs", "empty": "", "another version": "2 done 7 0 " + owner + " - 9 0 42", "another state": "1 gone 7 0 " + owner + " - 9 0 42",
		"cut": "1 done 7 0 " + owner + " - 9 99 42", "cut before the metadata": "1 done 7 0 " + owner + " - 9",
	} {
		require.NoError(t, r.Direct.Set(t.Context(), record, text, 0).Err())
		refused(what)
		forgotten, err := r.Forget(t.Context(), key)
		require.NoError(t, err)
		assert.True(t, forgotten, what)
	}
	require.NoError(t, r.Direct.RPush(t.Context(), record, "theirs").Err())
	refused("a list")
	_, err := r.Forget(t.Context(), key)
	require.ErrorIs(t, err, guard.ErrStore, "a list is not deleted")
	require.NoError(t, r.Direct.Del(t.Context(), record).Err())
}

// With memory full, no work begins, and nothing stays of the attempt. A result is kept all the same.
func TestOnce_MemoryFull(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Start(t))
	full := func(most string) { require.NoError(t, r.Direct.ConfigSet(t.Context(), "maxmemory", most).Err()) }
	try := func(key string, fn func(context.Context) (int, error)) (int, bool, error) {
		return guard.Once(t.Context(), r.Guard, guard.Key(key), time.Minute, fn, guard.AtMostOnce())
	}
	_, _, err := try("before", func(context.Context) (int, error) { full("1"); return 7, nil })
	require.NoError(t, err)
	v, replayed, err := try("before", noRun[int](t))
	require.NoError(t, err, "the result was kept, and is read")
	assert.True(t, replayed)
	assert.Equal(t, 7, v)
	_, _, err = try("after", noRun[int](t))
	require.ErrorIs(t, err, guard.ErrStore)
	full("0")
	_, replayed, err = try("after", gives(8))
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
	g := testenv.GuardOn(t, primary.Client(t), guard.Replicas(1, 100*time.Millisecond), guard.Observe(seen))
	_, _, err := guard.Once(t.Context(), g, guard.Key("a"), time.Minute, gives("receipt"))
	require.NoError(t, err)
	assert.Contains(t, replica.Client(t).Get(t.Context(), "redlatch:{a}:once").Val(), " done ", "before Once returned")
	_, _, err = guard.Once(t.Context(), g, k, time.Minute, func(context.Context) (string, error) { return "receipt", replica.Pause() })
	require.NoError(t, err, "the caller has its result")
	n, _ := seen.Count(guard.EventReleaseFailure)
	assert.Equal(t, 1, n)
	require.NoError(t, replica.Resume())
	testenv.Eventually(t, func() bool { return primary.Client(t).Exists(t.Context(), "redlatch:{k}").Val() == 0 }, "not released")
}

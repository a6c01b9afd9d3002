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

// heldOf gives those of the keys that somebody holds.
func heldOf(t *testing.T, r *testenv.Env, keys string) (held string) {
	t.Helper()
	for _, key := range keys {
		if r.Depth(t, string(key)) != "" {
			held += string(key)
		}
	}
	return held
}

// Each of the keys is free: none waits for the answer to another one.
func TestLocksFree_FreeKeysAreTakenAndGivenBackAtTheSameTime(t *testing.T) {
	r := testenv.New(t, redistest.Start(t), guard.StoreTimeout(time.Minute))
	for _, script := range []string{"acquire", "release"} {
		for _, first := range []string{"a", "c"} {
			t.Run(script+" "+first, func(t *testing.T) {
				runs := testenv.RunsScript(t, script)
				of := redistest.Contains(testenv.LockOf(first))
				kept, land := r.HoldBack(testenv.Both(runs, of))
				done := testenv.InBackground(func() error {
					return r.WithLocks(t.Context(), keysOf("a b c d"), testenv.Nothing)
				})
				testenv.Await(t, kept)
				want := map[string]string{"acquire a": "bcd", "acquire c": "abd", "release a": "a", "release c": "c"}[script+" "+first]
				testenv.Eventually(t, func() bool { return heldOf(t, r, "abcd") == want }, "the others wait for it")
				land(t)
				require.NoError(t, done(t))
				testenv.Eventually(t, func() bool { return heldOf(t, r, "abcd") == "" }, "something is held")
			})
		}
	}
}

// What comes behind a key that is waited for is free for everybody meanwhile, and taken in
// order then.
func TestLocksFree_NothingIsHeldBehindAKeyThatIsWaitedFor(t *testing.T) {
	r := testenv.New(t, redistest.Start(t))
	for i, busy := range []string{"a", "b", "d"} {
		t.Run(busy, func(t *testing.T) {
			free := r.TakenByAnother(t, busy)
			done := testenv.InBackground(func() error {
				return r.WithLocks(t.Context(), keysOf("a b c d"), func(ctx context.Context) error {
					assert.Equal(t, "abcd", heldOf(t, r, "abcd"))
					for _, key := range []string{"a", "b", "c", "d"} {
						_, held := guard.Held(ctx, key)
						assert.True(t, held, key)
					}
					return nil
				}, guard.MinHold(time.Nanosecond))
			})
			testenv.Eventually(t, func() bool { return len(r.Queue(t, busy)) == 1 }, "it does not wait")
			assert.Equal(t, []string{"a", "ab", "abcd"}[i], heldOf(t, r, "abcd"))
			err := r.WithLocks(t.Context(), keysOf("x "+busy), testenv.Nothing, guard.NoWait())
			var refused *guard.BusyError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, busy, refused.Key)
			testenv.Eventually(t, func() bool { return heldOf(t, r, "x") == "" }, "what came before is not given back")
			free()
			require.NoError(t, done(t))
		})
	}
}

// With Redis gone, the error comes after the time of one call, and is of one key.
func TestLocksFree_FreeKeysOfARedisThatIsGone(t *testing.T) {
	s := redistest.Start(t)
	seen := testenv.NewWatcher()
	g := testenv.GuardOn(t, s.Client(t), guard.StoreTimeout(time.Second), guard.Observe(seen))
	s.Kill()
	begun := time.Now()
	err := g.WithLocks(t.Context(), keysOf("a b c d"), testenv.Nothing)
	var failure *guard.StoreError
	require.ErrorAs(t, err, &failure, fmt.Sprint(err))
	assert.Equal(t, "a", failure.Key)
	assert.Less(t, time.Since(begun), testenv.Patience)
	ran := false
	require.NoError(t, g.WithLocks(t.Context(), keysOf("a b"), func(context.Context) error { ran = true; return nil }, guard.FailOpen()))
	assert.True(t, ran)
}

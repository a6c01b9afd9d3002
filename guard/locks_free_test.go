package guard_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/rig"
	"github.com/redlatch/redlatch/internal/redistest"
)

// heldOf gives those of the keys that somebody holds.
func heldOf(t *testing.T, r *rig.Rig, keys string) (held string) {
	t.Helper()
	for _, key := range keys {
		if r.Depth(t, string(key)) != "" {
			held += string(key)
		}
	}
	return held
}

// Each of the keys is free: none waits for the answer to another one.
func TestFreeKeysAreTakenAndGivenBackAtTheSameTime(t *testing.T) {
	r := rig.New(t, redistest.Start(t), guard.StoreTimeout(time.Minute))
	for _, script := range []string{"acquire", "release"} {
		for _, first := range []string{"a", "c"} {
			t.Run(script+" "+first, func(t *testing.T) {
				runs := rig.RunsScript(t, script)
				of := redistest.Contains(rig.LockOf(first))
				kept, land := r.HoldBack(rig.Both(runs, of))
				done := rig.InBackground(func() error {
					return r.WithLocks(t.Context(), keysOf("a b c d"), rig.Nothing)
				})
				rig.Await(t, kept)
				want := map[string]string{"acquire a": "bcd", "acquire c": "abd", "release a": "a", "release c": "c"}[script+" "+first]
				rig.Eventually(t, func() bool { return heldOf(t, r, "abcd") == want }, "the others wait for it")
				land(t)
				require.NoError(t, done(t))
				rig.Eventually(t, func() bool { return heldOf(t, r, "abcd") == "" }, "something is held")
			})
		}
	}
}

// What comes behind a key that is waited for is free for everybody meanwhile, and taken in
// order then.
func TestNothingIsHeldBehindAKeyThatIsWaitedFor(t *testing.T) {
	r := rig.New(t, redistest.Start(t))
	for i, busy := range []string{"a", "b", "d"} {
		t.Run(busy, func(t *testing.T) {
			free := r.TakenByAnother(t, busy)
			done := rig.InBackground(func() error {
				return r.WithLocks(t.Context(), keysOf("a b c d"), func(ctx context.Context) error {
					assert.Equal(t, "abcd", heldOf(t, r, "abcd"))
					for _, key := range []string{"a", "b", "c", "d"} {
						_, held := guard.Held(ctx, key)
						assert.True(t, held, key)
					}
					return nil
				}, guard.MinHold(time.Nanosecond))
			})
			rig.Eventually(t, func() bool { return len(r.Queue(t, busy)) == 1 }, "it does not wait")
			assert.Equal(t, []string{"a", "ab", "abcd"}[i], heldOf(t, r, "abcd"))
			err := r.WithLocks(t.Context(), keysOf("x "+busy), rig.Nothing, guard.NoWait())
			var refused *guard.BusyError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, busy, refused.Key)
			rig.Eventually(t, func() bool { return heldOf(t, r, "x") == "" }, "what came before is not given back")
			free()
			require.NoError(t, done(t))
		})
	}
}

// With Redis gone, the error comes after the time of one call, and is of one key.
func TestFreeKeysOfARedisThatIsGone(t *testing.T) {
	s := redistest.Start(t)
	seen := rig.NewWatcher()
	g := rig.GuardOn(t, s.Client(t), guard.StoreTimeout(time.Second), guard.Observe(seen))
	s.Kill()
	begun := time.Now()
	err := g.WithLocks(t.Context(), keysOf("a b c d"), rig.Nothing)
	var failure *guard.StoreError
	require.ErrorAs(t, err, &failure, fmt.Sprint(err))
	assert.Equal(t, "a", failure.Key)
	assert.Less(t, time.Since(begun), rig.Patience)
	ran := false
	require.NoError(t, g.WithLocks(t.Context(), keysOf("a b"), func(context.Context) error { ran = true; return nil }, guard.FailOpen()))
	assert.True(t, ran)
}

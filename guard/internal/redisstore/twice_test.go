package redisstore_test

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

// For each script: the n-th reply is lost and the connection cut, once or several times
// in a row. The server has executed the script each time.
func TestTwice_ALostReplyIsAsGoodAsOneThatArrived(t *testing.T) {
	t.Parallel()
	for name, match := range map[string]func(*testing.T) func([]byte) bool{
		"acquire": func(t *testing.T) func([]byte) bool { return testenv.RunsScript(t, "acquire") },
		"enter":   func(t *testing.T) func([]byte) bool { return testenv.SetsDepth(t, 2) },
		"leave":   func(t *testing.T) func([]byte) bool { return testenv.SetsDepth(t, 1) },
		"renew":   renews,
		"release": func(t *testing.T) func([]byte) bool { return testenv.RunsScript(t, "release") },
	} {
		for times := 1; times <= 3; times += 2 {
			t.Run(fmt.Sprintf("%s/%d", name, times), func(t *testing.T) {
				t.Parallel()
				r := testenv.New(t, redistest.Shared(t))
				lost := r.Lose(match(t), times)
				nest(t, r, t.Name())
				testenv.Await(t, lost...)
			})
		}
	}
}

// renews matches the renewals that are no changes of the depth.
func renews(t *testing.T) func([]byte) bool {
	t.Helper()
	script, one, two := testenv.RunsScript(t, "renew"), testenv.SetsDepth(t, 1), testenv.SetsDepth(t, 2)
	return func(req []byte) bool { return script(req) && !one(req) && !two(req) }
}

// nest takes key, takes it again inside, and has the lease renewed meanwhile. The
// counter must be right at each step, whatever happens to the commands.
func nest(t *testing.T, r *testenv.Env, key string) {
	t.Helper()
	err := r.WithLock(t.Context(), guard.Key(key), func(ctx context.Context) error {
		assert.Equal(t, "1", r.Depth(t, key), "after acquire")
		err := r.WithLock(ctx, guard.Key(key), func(ctx context.Context) error {
			assert.Equal(t, "2", r.Depth(t, key), "after enter")
			r.Seen.More(t, guard.EventRenewal, 1)
			assert.Equal(t, "2", r.Depth(t, key), "after renew")
			return ctx.Err()
		})
		assert.Equal(t, "1", r.Depth(t, key), "after leave")
		return err
	}, guard.TTL(3*time.Second))
	require.NoError(t, err)
	assert.Empty(t, r.Hash(t, key), "after release")
	losses, _ := r.Seen.Count(guard.EventLoss)
	assert.Zero(t, losses)
}

// One pipeline renews many leases, by some scripts. The connection is cut after a reply, and
// at the next try after one more: the others do not suffer for it.
func TestTwice_ALostReplyInAPipelineOfRenewals(t *testing.T) {
	t.Parallel()
	const leases = 300 // three scripts
	r := testenv.New(t, redistest.Shared(t), guard.TTL(1800*time.Millisecond))
	held := make([]*guard.Lease, leases)
	for i := range held {
		var err error
		held[i], err = r.Acquire(t.Context(), guard.Keyf("%s:%d", t.Name(), i))
		require.NoError(t, err)
	}
	renews := testenv.RunsScript(t, "renew")
	testenv.Await(t, r.Proxy.SwallowReply(renews, 2), r.Proxy.SwallowReply(renews, 5))
	r.Seen.More(t, guard.EventRenewal, 2*leases)
	for i, l := range held {
		require.NoError(t, l.Err())
		assert.Equal(t, "1", r.Depth(t, l.Key()))
		require.NoError(t, l.Release(t.Context()), i)
		assert.Empty(t, r.Hash(t, l.Key()))
	}
}

// A releases, the reply is lost. B takes the lock and releases it. A's release runs
// again and finds nothing, not even a word that A released: no reason to say "lost".
func TestTwice_AReleaseThatRunsTwiceIsNoLoss(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t))
	b := testenv.GuardOn(t, r.Direct)
	release := testenv.RunsScript(t, "release")
	first := r.Lose(release, 1)
	var seen int
	held, land := r.Proxy.HoldRequest(func(req []byte) bool {
		if release(req) {
			seen++
		}
		return seen == 2
	})
	withLock := testenv.InBackground(func() error {
		return r.WithLock(t.Context(), guard.Key(t.Name()), testenv.Nothing)
	})
	testenv.Await(t, first[0], held)
	require.NoError(t, b.WithLock(t.Context(), guard.Key(t.Name()), testenv.Nothing, guard.Wait(0)))
	land()
	require.NoError(t, withLock(t))
	losses, _ := r.Seen.Count(guard.EventLoss)
	assert.Zero(t, losses)
}

package guard_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
)

// setsDepth matches the requests that set the hash counter to a depth below 10.
func setsDepth(t *testing.T, depth byte) func([]byte) bool {
	t.Helper()
	script := runsScript(t, "set_depth")
	return func(req []byte) bool {
		return script(req) && bytes.HasSuffix(req, []byte{'\n', '$', '1', '\r', '\n', '0' + depth, '\r', '\n'})
	}
}

// releasesWithNext matches the releases that carry a next claim: it and its metadata, of
// which there is none in the tests, come last.
func releasesWithNext(t *testing.T) func([]byte) bool {
	t.Helper()
	release := runsScript(t, "release")
	return func(req []byte) bool {
		return release(req) && !bytes.HasSuffix(req, []byte("$0\r\n\r\n$0\r\n\r\n"))
	}
}

func both(a, b func([]byte) bool) func([]byte) bool {
	return func(req []byte) bool { return a(req) && b(req) }
}

// nest takes key, takes it again inside, and has the lease renewed meanwhile. The
// counter must be right at each step, whatever happens to the commands. before is
// called ahead of each of them.
func (r *rig) nest(t *testing.T, key string, before func()) {
	t.Helper()
	before()
	err := r.WithLock(t.Context(), guard.Key(key), func(ctx context.Context) error {
		assert.Equal(t, "1", r.depth(t, key), "after acquire")
		before()
		err := r.WithLock(ctx, guard.Key(key), func(ctx context.Context) error {
			assert.Equal(t, "2", r.depth(t, key), "after enter")
			before()
			r.seen.more(t, guard.Renewal, 1)
			assert.Equal(t, "2", r.depth(t, key), "after renew")
			before()
			return ctx.Err()
		})
		assert.Equal(t, "1", r.depth(t, key), "after leave")
		before()
		return err
	}, guard.TTL(1500*time.Millisecond))
	require.NoError(t, err)
	assert.Empty(t, r.hash(t, key), "after release")
	_, owner := r.last(t, key)
	assert.NotEmpty(t, owner, "released, not expired")
	losses, _ := r.seen.count(guard.Loss)
	assert.Zero(t, losses)
}

// For each script: the n-th reply is lost and the connection cut, once or several times
// in a row. The server has executed the script each time.
func TestALostReplyIsAsGoodAsOneThatArrived(t *testing.T) {
	t.Parallel()
	for name, match := range map[string]func(*testing.T) func([]byte) bool{
		"acquire": func(t *testing.T) func([]byte) bool { return runsScript(t, "acquire") },
		"enter":   func(t *testing.T) func([]byte) bool { return setsDepth(t, 2) },
		"leave":   func(t *testing.T) func([]byte) bool { return setsDepth(t, 1) },
		"renew":   func(t *testing.T) func([]byte) bool { return runsScript(t, "renew") },
		"release": func(t *testing.T) func([]byte) bool { return runsScript(t, "release") },
	} {
		for times := 1; times <= 3; times += 2 {
			t.Run(fmt.Sprintf("%s/%d", name, times), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, redistest.Shared(t))
				lost := r.lose(match(t), times)
				r.nest(t, t.Name(), func() {})
				await(t, lost...)
			})
		}
	}
}

// The same where Redis did not know the script by name: it is the reply to EVAL, the
// second command, that is lost.
func TestALostReplyToAFullScriptIsAsGood(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, script := range []string{"acquire", "set_depth", "renew", "release"} {
		t.Run(script, func(t *testing.T) {
			r := newRig(t, s)
			lost := r.lose(both(redistest.Command("eval"), runsScript(t, script)), 1)
			r.nest(t, t.Name(), func() { require.NoError(t, r.direct.ScriptFlush(t.Context()).Err()) })
			await(t, lost...)
		})
	}
}

// One pipeline renews many leases. The connection is cut after six of the replies, and
// at the next try after some more: the others do not suffer for it.
func TestALostReplyInAPipelineOfRenewals(t *testing.T) {
	t.Parallel()
	const leases = 30
	r := newRig(t, redistest.Shared(t), guard.TTL(1800*time.Millisecond))
	held := make([]*guard.Lease, leases)
	for i := range held {
		var err error
		held[i], err = r.Acquire(t.Context(), guard.Keyf("%s:%d", t.Name(), i))
		require.NoError(t, err)
	}
	renews := runsScript(t, "renew")
	await(t, r.proxy.SwallowReply(renews, 7), r.proxy.SwallowReply(renews, leases+15))
	r.seen.more(t, guard.Renewal, 2*leases)
	for i, l := range held {
		require.NoError(t, l.Err())
		assert.Equal(t, "1", r.depth(t, l.Key()))
		require.NoError(t, l.Release(t.Context()), i)
		assert.Empty(t, r.hash(t, l.Key()))
	}
}

// A releases, the reply is lost. B takes the lock and releases it. A's release runs
// again and finds nothing, not even a word that A released: no reason to say "lost".
func TestAReleaseThatRunsTwiceIsNoLoss(t *testing.T) {
	t.Parallel()
	r := newRig(t, redistest.Shared(t))
	b := guardOn(t, r.direct)
	release := runsScript(t, "release")
	first := r.lose(release, 1)
	var seen int
	held, land := r.proxy.HoldRequest(func(req []byte) bool {
		if release(req) {
			seen++
		}
		return seen == 2
	})
	withLock := inBackground(func() error {
		return r.WithLock(t.Context(), guard.Key(t.Name()), func(context.Context) error { return nil })
	})
	await(t, first[0], held)
	require.NoError(t, b.WithLock(t.Context(), guard.Key(t.Name()), func(context.Context) error { return nil }, guard.Wait(0)))
	land()
	require.NoError(t, withLock(t))
	losses, _ := r.seen.count(guard.Loss)
	assert.Zero(t, losses)
}

// The acquire's reply is lost, and the caller leaves before the next try is answered.
// What the first one took is given back.
func TestALostAcquireOfACallerThatLeftIsGivenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, redistest.Shared(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	acquire := runsScript(t, "acquire")
	r.proxy.SwallowReply(acquire, 1)
	var seen int
	held, land := r.proxy.HoldRequest(func(req []byte) bool {
		if acquire(req) {
			seen++
		}
		return seen == 2
	})
	acquired := inBackground(func() error {
		_, err := r.Acquire(ctx, guard.Key(t.Name()))
		return err
	})
	await(t, held)
	assert.Equal(t, "1", r.depth(t, t.Name()))
	cancel()
	require.ErrorIs(t, acquired(t), context.Canceled)
	land()
	r.gone(t, t.Name())
}

// A claim waits in the queue. The replies by which it is told that it is queued, or that
// the lock is its own, are lost: it has one place, which it keeps, and one hold.
func TestALostReplyToAClaimThatWaits(t *testing.T) {
	t.Parallel()
	for name, times := range map[string]int{"queued/1": 1, "queued/3": 3, "granted/1": 1, "granted/3": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, redistest.Shared(t))
			free := r.takenByAnother(t, t.Name())
			acquire := runsScript(t, "acquire")
			var lost []<-chan struct{}
			queues := strings.HasPrefix(name, "queued")
			if queues {
				lost = r.lose(acquire, times)
			}
			acquired := acquireLater(t.Context(), r, t.Name())
			eventually(t, func() bool { return len(r.queue(t, t.Name())) > 0 }, "not queued")
			before := r.queue(t, t.Name())
			if queues {
				await(t, lost...)
			} else {
				lost = r.lose(acquire, times)
			}
			require.Len(t, before, 1)
			assert.Equal(t, before, r.queue(t, t.Name()))
			free()
			l, err := acquired(t)
			require.NoError(t, err)
			await(t, lost...)
			assert.Equal(t, before[0].Member, l.Owner())
			assert.Equal(t, "1", r.depth(t, t.Name()))
			require.NoError(t, l.Release(t.Context()))
			assert.Empty(t, r.hash(t, t.Name()))
			assert.Empty(t, r.queue(t, t.Name()))
		})
	}
}

// Two Guards pass a lock to and fro, through Redis each time: a release carries the next
// claim of the Guard. Replies of all kinds are lost on the way. A lock that is blocked by
// the claim of nobody is free only after its ttl, which is more than this takes.
func TestLostRepliesAmongContenders(t *testing.T) {
	t.Parallel()
	r := newRig(t, redistest.Shared(t), guard.HandoverWindow(0))
	other := guardOn(t, r.direct, guard.HandoverWindow(0))
	acquire, release := runsScript(t, "acquire"), releasesWithNext(t)
	var lost []<-chan struct{}
	for _, n := range []int{1, 4, 5, 9} {
		lost = append(lost, r.proxy.SwallowReply(acquire, n), r.proxy.SwallowReply(release, n))
	}
	contend(t, t.Name(), 10, r.Guard, other, r.Guard, other, r.Guard)
	await(t, lost...)
	losses, _ := r.seen.count(guard.Loss)
	assert.Zero(t, losses)
	assert.Empty(t, r.hash(t, t.Name()))
	assert.Empty(t, r.queue(t, t.Name()))
}

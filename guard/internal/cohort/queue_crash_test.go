//go:build unix

package cohort_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// TestQueueProcess is no test. In a process of its own it takes a lock, says so on its
// standard output with the fence, gives the lock back when its standard input ends, and
// says how it ended.
func TestQueueProcess(t *testing.T) {
	addr, key, ok := strings.Cut(os.Getenv(testenv.QueueProcessEnv), " ")
	if !ok {
		t.Skip("only the tests of crashes run it")
	}
	client := redis.NewClient(&redis.Options{Addr: addr})
	// A command may be on its way when the process is stopped: its answer still counts afterwards.
	g, err := guard.New(client, guard.TTL(testenv.BriefTTL), guard.StoreTimeout(testenv.Patience))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	err = g.WithLock(ctx, guard.Key(key), func(ctx context.Context) error {
		fence, _ := guard.Fence(ctx)
		fmt.Println("in", fence)
		<-ctx.Done()
		return nil
	})
	fmt.Println("out", err)
	_ = g.Close()
	_ = client.Close()
}

// The holder dies or hangs. Its lock lapses with its ttl; the head asks then, by itself,
// because nobody is there to send a message. A holder that wakes up finds its work's
// context over, and takes nothing from the next one.
func TestQueueCrash_NextIsInAfterTheHolderCrashed(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testenv.NewRedis(t)
			holder := s.Process("k")
			fence := holder.AwaitIn()
			next := s.Caller(t.Context(), "next", s.Guard(), "k")
			s.AwaitQueue("k", 1)
			holder.Signal(sig)
			next.InWithin(testenv.BriefTTL + time.Second)
			assert.Greater(t, next.Fence, fence)
			if sig == syscall.SIGSTOP {
				holder.Signal(syscall.SIGCONT)
				assert.Contains(t, holder.AwaitOut(), "lost")
			}
			next.Pass()
		})
	}
}

// The head of the queue is killed. Redis knows that nobody listens on its channel, so
// that a release passes it over at once, and does not wait for the end of an ack window.
func TestQueueCrash_KilledHeadIsPassedOverAtOnce(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	holder, head, next := s.Crash()
	owner := s.Queue("k")[0]
	head.Kill()
	s.AwaitSubscribers(owner, 0)
	require.NoError(t, holder.Stdin.Close())
	next.InWithin(0)
	next.Pass()
}

// The head hangs, but its connections are open. Redis has not heard of it for half a
// minute (by what the test writes), and does not wait for it for an ack window.
func TestQueueCrash_HeadThatIsSilentForLongIsPassedOverAtOnce(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	holder, head, next := s.Crash()
	owner := s.Queue("k")[0]
	seen := func() string { return s.Admin.HGet(t.Context(), "guard:{k}:seen", owner).Val() }
	first := seen()
	s.Eventually(func() bool { return seen() != first }, "the head is heard of again")
	head.Signal(syscall.SIGSTOP)
	require.NoError(t, s.Admin.HSet(t.Context(), "guard:{k}:seen", owner, time.Now().Add(-30*time.Second).UnixMicro()).Err())
	require.NoError(t, holder.Stdin.Close())
	next.InWithin(0)
	next.Pass()
}

// Holder and head die or hang together: whoever is next was never told that it is in
// front, and nobody will tell it. A head that hangs is granted the lock once more, and
// does not come for it.
func TestQueueCrash_NextIsInAfterHolderAndHeadCrashed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sig     syscall.Signal
		promise time.Duration
	}{
		"killed":  {syscall.SIGKILL, testenv.BriefTTL + time.Second},
		"stopped": {syscall.SIGSTOP, testenv.BriefTTL + testenv.AckTime + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testenv.NewRedis(t)
			holder, head, next := s.Crash()
			head.Signal(c.sig)
			holder.Signal(c.sig)
			next.InWithin(c.promise)
			next.Pass()
		})
	}
}

// The head of four is killed. A release gives the lock to the second; that one and the
// third are killed, too. The last one came near the front without an ask of its own: a
// message says so or, if it is the next claim of the holder's Guard, the reply to its
// release. (A confirmed grant keeps its ack window, if that is longer than the ttl.)
func TestQueueCrash_NextIsInAfterThoseInFrontWereKilledOneByOne(t *testing.T) {
	t.Parallel()
	for name, local := range map[string]bool{"told by a message": false, "told by the reply": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testenv.NewRedis(t)
			g := s.Guard()
			holder := s.Acquire(g, "k")
			var processes []*testenv.Process
			for i := range 3 {
				processes = append(processes, s.Process("k"))
				s.AwaitQueue("k", i+1)
			}
			owner := s.Queue("k")[0]
			var last *testenv.Caller
			if local {
				last = s.Caller(t.Context(), "last", g, "k")
				s.AwaitQueued(g, 1)
			} else {
				last = s.Caller(t.Context(), "last", s.Guard(), "k")
				s.AwaitQueue("k", 4)
			}
			processes[0].Kill()
			s.AwaitSubscribers(owner, 0)
			s.Release(holder)
			processes[1].AwaitIn()
			processes[2].Kill()
			processes[1].Kill()
			last.InWithin(max(testenv.BriefTTL, testenv.AckTime) + time.Second)
			last.Pass()
		})
	}
}

// The head is stopped when it is granted the lock. It has one ack window to ask; then
// the lock goes to the next one. When it wakes up, it finds a grant in its mail that is
// long over: it must not start its work on it, but ask, and go on waiting at its place.
func TestQueueCrash_StoppedHeadDoesNotRunOnAStaleGrant(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	holder, head, next := s.Crash()
	owner := s.Queue("k")[0]
	asked := func() string {
		return strings.TrimSuffix(s.Admin.HGet(t.Context(), "guard:{k}:seen", owner).Val(), "+")
	}
	first := asked()
	s.Eventually(func() bool { return asked() != first }, "the head does not know its place yet")
	head.Signal(syscall.SIGSTOP)
	require.NoError(t, holder.Stdin.Close())
	next.InWithin(testenv.AckTime + time.Second)
	last := s.Caller(t.Context(), "last", s.Guard(), "k")
	s.AwaitQueue("k", 1)
	head.Signal(syscall.SIGCONT)
	s.Eventually(func() bool {
		require.Empty(t, head.Out, "it has ended")
		return len(s.Queue("k")) == 2
	}, "it does not ask")
	assert.Equal(t, owner, s.Queue("k")[0], "its place was kept")
	assert.Empty(t, head.In, "it runs beside the holder")
	next.Pass()
	assert.Greater(t, head.AwaitIn(), next.Fence)
	require.NoError(t, head.Stdin.Close())
	last.Pass()
}

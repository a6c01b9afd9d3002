//go:build unix

package guard_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
)

const (
	briefTTL = time.Second     // of the processes that die
	ackTime  = 2 * time.Second // for which a grant waits for its owner
	slack    = time.Second     // what a loaded machine may add to what the rules promise

	// queueProcessEnv tells a test binary that it is one of the processes below: the address
	// of the Redis, and the key.
	queueProcessEnv = "REDLATCH_TEST_QUEUE_PROCESS"
)

// TestQueueProcess is no test. In a process of its own it takes a lock, says so on its
// standard output with the fence, gives the lock back when its standard input ends, and
// says how it ended.
func TestQueueProcess(t *testing.T) {
	addr, key, ok := strings.Cut(os.Getenv(queueProcessEnv), " ")
	if !ok {
		t.Skip("only the tests of crashes run it")
	}
	client := redis.NewClient(&redis.Options{Addr: addr})
	g, err := guard.New(client, guard.TTL(briefTTL))
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

// process is another process with one caller.
type process struct {
	s     *site
	cmd   *exec.Cmd
	stdin io.Closer
	in    chan uint64   // the fence, when it is in
	out   chan string   // its error, when it is out
	done  chan struct{} // closed when it is gone
}

func (s *site) process(key string) *process {
	s.Helper()
	binary, err := os.Executable()
	require.NoError(s, err)
	p := &process{s: s, in: make(chan uint64, 1), out: make(chan string, 1), done: make(chan struct{})}
	p.cmd = exec.Command(binary, "-test.run=^TestQueueProcess$")
	p.cmd.Env = append(os.Environ(), queueProcessEnv+"="+s.server.Addr()+" "+key)
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(s, err)
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(s, err)
	require.NoError(s, p.cmd.Start())
	go p.read(stdout)
	s.Cleanup(p.kill)
	return p
}

func (p *process) read(stdout io.Reader) {
	defer close(p.done)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		what, text, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "in":
			fence, _ := strconv.ParseUint(text, 10, 64)
			p.in <- fence
		case "out":
			p.out <- text
		}
	}
	_ = p.cmd.Wait() // killed, mostly
}

// kill ends the process as kill -9 does, and returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
	_ = p.stdin.Close()
}

func (p *process) signal(sig os.Signal) {
	p.s.Helper()
	if sig == syscall.SIGSTOP {
		require.NoError(p.s, redistest.Stop(p.cmd.Process))
		return
	}
	require.NoError(p.s, p.cmd.Process.Signal(sig))
}

func (p *process) awaitIn() uint64 {
	p.s.Helper()
	return awaitLine(p, p.in, "the process gets in")
}

func (p *process) awaitOut() string {
	p.s.Helper()
	return awaitLine(p, p.out, "the process gets out")
}

func awaitLine[T any](p *process, line <-chan T, what string) (v T) {
	p.s.Helper()
	select {
	case v = <-line:
	case <-time.After(tooLong):
		p.s.Fatalf("not in time: %s", what)
	}
	return v
}

// crash is what the tests begin with: a process holds k, another one is the head of its
// queue, and a visitor stands behind that.
func (s *site) crash() (holder, head *process, next *visitor) {
	s.Helper()
	holder = s.process("k")
	holder.awaitIn()
	head = s.process("k")
	s.awaitQueue("k", 1)
	next = s.visitor(s.Context(), "next", s.guard(), "k")
	s.awaitQueue("k", 2)
	return holder, head, next
}

// inWithin checks that a visitor gets in within what is promised.
func (v *visitor) inWithin(promise time.Duration) {
	v.s.Helper()
	begun := time.Now()
	v.awaitIn()
	assert.Less(v.s, v.at.Sub(begun), promise+slack)
}

// The holder dies or hangs. Its lock lapses with its ttl; the head asks then, by itself,
// because nobody is there to send a message. A holder that wakes up finds its work's
// context over, and takes nothing from the next one.
func TestNextIsInAfterTheHolderCrashed(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			holder := s.process("k")
			fence := holder.awaitIn()
			next := s.visitor(t.Context(), "next", s.guard(), "k")
			s.awaitQueue("k", 1)
			holder.signal(sig)
			next.inWithin(briefTTL + time.Second)
			assert.Greater(t, next.fence, fence)
			if sig == syscall.SIGSTOP {
				holder.signal(syscall.SIGCONT)
				assert.Contains(t, holder.awaitOut(), "lost")
			}
			next.pass()
		})
	}
}

// The head of the queue is killed. Redis knows that nobody listens on its channel, so
// that a release passes it over at once, and does not wait for the end of an ack window.
func TestKilledHeadIsPassedOverAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	holder, head, next := s.crash()
	owner := s.queue("k")[0]
	head.kill()
	s.awaitSubscribers(owner, 0)
	require.NoError(t, holder.stdin.Close())
	next.inWithin(0)
	next.pass()
}

// The head hangs, but its connections are open. Redis has not heard of it for half a
// minute (by what the test writes), and does not wait for it for an ack window.
func TestHeadThatIsSilentForLongIsPassedOverAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	holder, head, next := s.crash()
	owner := s.queue("k")[0]
	seen := func() string { return s.admin.HGet(t.Context(), "guard:{k}:seen", owner).Val() }
	first := seen()
	s.eventually(func() bool { return seen() != first }, "the head is heard of again")
	head.signal(syscall.SIGSTOP)
	require.NoError(t, s.admin.HSet(t.Context(), "guard:{k}:seen", owner, time.Now().Add(-30*time.Second).UnixMicro()).Err())
	require.NoError(t, holder.stdin.Close())
	next.inWithin(0)
	next.pass()
}

// Holder and head die or hang together: whoever is next was never told that it is in
// front, and nobody will tell it. A head that hangs is granted the lock once more, and
// does not come for it.
func TestNextIsInAfterHolderAndHeadCrashed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sig     syscall.Signal
		promise time.Duration
	}{
		"killed":  {syscall.SIGKILL, briefTTL + time.Second},
		"stopped": {syscall.SIGSTOP, briefTTL + ackTime + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			holder, head, next := s.crash()
			head.signal(c.sig)
			holder.signal(c.sig)
			next.inWithin(c.promise)
			next.pass()
		})
	}
}

// The head of four is killed. A release gives the lock to the second; that one and the
// third are killed, too. The last one came near the front without an ask of its own: a
// message says so or, if it is the next claim of the holder's Guard, the reply to its
// release. (A confirmed grant keeps its ack window, if that is longer than the ttl.)
func TestNextIsInAfterThoseInFrontWereKilledOneByOne(t *testing.T) {
	t.Parallel()
	for name, local := range map[string]bool{"told by a message": false, "told by the reply": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			g := s.guard()
			holder := s.acquire(g, "k")
			var processes []*process
			for i := range 3 {
				processes = append(processes, s.process("k"))
				s.awaitQueue("k", i+1)
			}
			owner := s.queue("k")[0]
			var last *visitor
			if local {
				last = s.visitor(t.Context(), "last", g, "k")
				s.awaitInLine(g, 1)
			} else {
				last = s.visitor(t.Context(), "last", s.guard(), "k")
				s.awaitQueue("k", 4)
			}
			processes[0].kill()
			s.awaitSubscribers(owner, 0)
			s.release(holder)
			processes[1].awaitIn()
			processes[2].kill()
			processes[1].kill()
			last.inWithin(max(briefTTL, ackTime) + time.Second)
			last.pass()
		})
	}
}

// The head is stopped when it is granted the lock. It has one ack window to ask; then
// the lock goes to the next one. When it wakes up, it finds a grant in its mail that is
// long over: it must not start its work on it, but ask, and go on waiting at its place.
func TestStoppedHeadDoesNotRunOnAStaleGrant(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	holder, head, next := s.crash()
	owner := s.queue("k")[0]
	head.signal(syscall.SIGSTOP)
	require.NoError(t, holder.stdin.Close())
	next.inWithin(ackTime + time.Second)
	last := s.visitor(t.Context(), "last", s.guard(), "k")
	s.awaitQueue("k", 1)
	head.signal(syscall.SIGCONT)
	assert.Equal(t, owner, s.awaitQueue("k", 2)[0], "its place was kept")
	assert.Empty(t, head.in, "it runs beside the holder")
	next.pass()
	assert.Greater(t, head.awaitIn(), next.fence)
	require.NoError(t, head.stdin.Close())
	last.pass()
}

package redisconn

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
)

const (
	// places is how many writes to a distant Redis are on their way at once, each on a connection of
	// its own, before commands that come on top share one. To a near Redis it is two: Redis works on
	// one while the callers of the other go on. A third would only make both smaller, and a write costs
	// both sides more than a command.
	places, nearPlaces = 4, 2
	// near is the round trip below which a Redis is near. The shortest of about recent decides: the others
	// say how busy it is.
	near, recent = 100 * time.Microsecond, 10 * time.Second
	// overdue is for how long commands wait for a write to a near Redis. After it they may take the other
	// places, too: the connection may have gone silent, or be dialled in vain.
	overdue = time.Millisecond
	// pipelineMost is how many share a write: a connection that breaks fails them all.
	pipelineMost = 128
	// leaveWait is for how long a caller that leaves waits for the reply to its command, if that
	// is in a common write: it mostly comes within that time, and then nothing is in doubt.
	leaveWait = 10 * time.Millisecond
	// queueKept is how much room for commands that queue is kept when none do.
	queueKept = 1024
)

// combiner sends commands of concurrent callers in common network writes, under load
// only: a lone caller pays one mutex. The next caller that comes back from Redis takes along all that
// queued meanwhile, as one pipeline (flat combining: Hendler, Incze, Shavit, Tzafrir,
// SPAA 2010). Nothing waits for company: there is no timer.
type combiner struct {
	pool      *pool
	timeout   time.Duration // for a common write
	tasks     *task.Group
	unbatched atomic.Bool   // nothing goes in batches
	nodes     *clusterNodes // gets failures; nil = this is no cluster
	waiters   sync.Pool     // of *waiter

	mu     sync.Mutex
	active int
	last   time.Time // when the last write began
	queue  []pending

	fastest   time.Duration // the shortest round trip since fastestAt, of commands that went by themselves
	fastestAt time.Time
}

func newCombiner(p *pool, timeout time.Duration, tasks *task.Group, nodes *clusterNodes) *combiner {
	c := &combiner{pool: p, timeout: timeout, tasks: tasks, nodes: nodes, fastest: near}
	c.unbatched.Store(p.shared != nil)
	return c
}

// pending is a command in the queue, or in a common write.
type pending struct {
	ctx        context.Context //nolint:containedctx // that of its caller
	command    Command
	answers    chan<- answer // one slot
	withSource bool          // Redis does not know its script by name
	alone      bool          // it is not to go in a batch
}

type answer struct {
	reply any
	err   error
}

// waiter is what a caller needs to wait in the queue.
type waiter struct {
	answers chan answer
	timer   *time.Timer
}

// do sends a command and waits for its reply, to the end of ctx.
func (c *combiner) do(ctx context.Context, cmd Command) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, notSent(err) // to interrupt a conn for it would be a waste
	}
	begun := time.Now()
	if !c.enter(begun) {
		return c.wait(ctx, cmd)
	}
	l := c.pool.get()
	if l.shared {
		return task.DoInTime(ctx, c.tasks, func(ctx context.Context) (any, error) {
			reply, err := roundTrip(c.detached(ctx), cmd, l.client)
			c.nodes.onFailure(ctx, err)
			c.exit(l) //nolint:contextcheck // it goes on for others
			return reply, err
		})
	}
	reply, interrupted, err := l.do(ctx, cmd)
	c.took(begun, time.Since(begun), err)
	if interrupted {
		c.pool.discard(l)
		l = nil
	}
	c.exit(l) //nolint:contextcheck // it goes on for others
	return reply, err
}

// ErrNotSent is in the error of a call whose command was not sent.
var ErrNotSent = errors.New("not sent")

func notSent(err error) error { return fmt.Errorf("%w: %w", ErrNotSent, err) }

// wait has the next caller that comes back from Redis take a command along. If the caller leaves before, the
// command is not sent, or its reply goes nowhere.
func (c *combiner) wait(ctx context.Context, cmd Command) (any, error) {
	s, _ := c.waiters.Get().(*waiter)
	if s == nil {
		s = &waiter{make(chan answer, 1), time.NewTimer(clock.Forever)}
	}
	if deadline, ends := ctx.Deadline(); ends {
		s.timer.Reset(time.Until(deadline))
	} else {
		s.timer.Reset(clock.Forever)
	}
	c.enqueue(pending{ctx: ctx, command: cmd, answers: s.answers}) //nolint:contextcheck // as above
	select {
	case a := <-s.answers:
		s.timer.Stop()
		c.waiters.Put(s)
		return a.reply, a.err
	case <-s.timer.C:
		return nil, context.DeadlineExceeded
	case <-clock.Caller(ctx).Done():
	}
	if p, queued := c.remove(s.answers); queued {
		s.timer.Stop()
		c.waiters.Put(s)
		return nil, p.skipped(ctx.Err())
	}
	s.timer.Reset(leaveWait)
	select {
	case a := <-s.answers:
		s.timer.Stop()
		c.waiters.Put(s)
		return a.reply, a.err
	case <-s.timer.C: // the waiter is the command's
		return nil, ctx.Err()
	}
}

// remove takes a command out of the queue, if it is still there.
func (c *combiner) remove(answers chan<- answer) (p pending, queued bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.queue, func(p pending) bool { return p.answers == answers })
	if at < 0 {
		return pending{}, false
	}
	p = c.queue[at]
	c.queue = slices.Delete(c.queue, at, at+1)
	return p, true
}

// skipped is the error of a command in the queue that is not sent any more. One that goes by
// itself may have been sent with others before.
func (p pending) skipped(err error) error {
	if p.alone {
		return err
	}
	return notSent(err)
}

// answer gives a caller its reply.
func (c *combiner) answer(p pending, reply any, err error) {
	c.nodes.onFailure(p.ctx, err)
	p.answers <- answer{reply, err}
}

// detached is for go-redis: a context that has a deadline and does not end with its caller.
func (c *combiner) detached(ctx context.Context) context.Context {
	deadline, ends := ctx.Deadline()
	if !ends {
		deadline = time.Now().Add(c.timeout)
	}
	return clock.WithoutDone(clock.Caller(ctx), deadline)
}

// enter takes one of the places, if one is free.
func (c *combiner) enter(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active == places || c.active >= nearPlaces && c.fastest < near && now.Sub(c.last) < overdue {
		return false
	}
	c.active++
	c.last = now
	return true
}

// took notes a round trip. An error may have come without one.
func (c *combiner) took(begun time.Time, d time.Duration, err error) {
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if d < c.fastest || begun.Sub(c.fastestAt) > recent {
		c.fastest, c.fastestAt = d, begun
	}
}

func (c *combiner) enqueue(p pending) {
	c.mu.Lock()
	if c.active > 0 {
		c.queue = append(c.queue, p) // the next caller that comes back takes it along
		c.mu.Unlock()
		return
	}
	c.active++ // all came back meanwhile
	c.queue = append(c.queue, p)
	c.mu.Unlock()
	c.startDrain(nil)
}

// exit gives the place up, to a goroutine if there is something to take along. The
// connection is nil if it ended.
func (c *combiner) exit(l *conn) {
	c.mu.Lock()
	if len(c.queue) == 0 {
		c.active--
		c.mu.Unlock()
		c.pool.put(l)
		return
	}
	c.mu.Unlock()
	c.startDrain(l)
}

func (c *combiner) startDrain(l *conn) {
	send := func() { c.drain(l) }
	if !c.tasks.Go(send) {
		send()
	}
}

// drain sends what queued until nothing does.
func (c *combiner) drain(l *conn) {
	var f pipeline
	for c.take(&f) {
		if l == nil {
			l = c.pool.get()
		}
		f.send(c, l.client)
		runtime.Gosched() // callers that got an answer may send the next command
	}
	c.pool.put(l)
}

// take gives the place up if there is nothing to take.
func (c *combiner) take(f *pipeline) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.queue), pipelineMost)
	if n == 0 {
		c.active--
		if cap(c.queue) > queueKept {
			c.queue = nil
		}
		return false
	}
	c.last = time.Now()
	f.pending = append(f.pending[:0], c.queue[:n]...)
	left := copy(c.queue, c.queue[n:])
	clear(c.queue[left:])
	c.queue = c.queue[:left]
	return true
}

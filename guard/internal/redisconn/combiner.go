package redisconn

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard/internal/task"
)

const (
	// inFlight is how many writes to one server are on their way before commands queue; doc.go has the
	// measurement.
	inFlight = 4
	// pipelineMost is how many commands share a write: a connection that breaks fails them all.
	pipelineMost = 128
)

// combiner sends the commands of concurrent callers to one server. A caller sends its command itself while
// fewer than inFlight are on their way. Above that commands queue. A caller that comes back from Redis
// leaves its place to a goroutine, which sends all that queued in one write (flat combining: Hendler, Incze,
// Shavit, Tzafrir, SPAA 2010).
// No command waits for others: there is no timer.
type combiner struct {
	link

	tasks   *task.Group
	waiters sync.Pool // of *waiter

	mu     sync.Mutex
	active int // writes on their way
	queue  []*waiter
}

// waiter is a command in the queue or in a common write, and what its caller needs to wait for the reply.
type waiter struct {
	ctx     context.Context //nolint:containedctx // that of its caller
	command Command
	reply   chan Reply // one slot
	timer   *time.Timer
}

func (c *combiner) newWaiter(ctx context.Context, cmd Command) *waiter {
	w, ok := c.waiters.Get().(*waiter)
	if !ok {
		w = &waiter{reply: make(chan Reply, 1), timer: time.NewTimer(0)}
	}
	w.ctx, w.command = ctx, cmd
	return w
}

func (c *combiner) reuse(w *waiter) {
	w.timer.Stop()
	w.ctx, w.command = nil, Command{}
	c.waiters.Put(w)
}

// ErrNotSent is in the error of a call whose command was not sent.
var ErrNotSent = errors.New("not sent")

func notSent(err error) error { return fmt.Errorf("%w: %w", ErrNotSent, err) }

// do sends a command and waits for its reply.
func (c *combiner) do(ctx context.Context, cmd Command) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, notSent(err)
	}
	if w := c.enter(ctx, cmd); w != nil {
		return c.wait(w)
	}
	defer c.exit() //nolint:contextcheck // it sends for others
	return c.send(ctx, cmd)
}

// enter counts a write, or queues the command if as many writes as may be are on their way. One of these sends it.
func (c *combiner) enter(ctx context.Context, cmd Command) (queued *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active < inFlight {
		c.active++
		return nil
	}
	queued = c.newWaiter(ctx, cmd)
	c.queue = append(c.queue, queued)
	return queued
}

// exit counts a write out, or starts a goroutine that sends what queued.
func (c *combiner) exit() {
	c.mu.Lock()
	if len(c.queue) == 0 {
		c.active--
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	if !c.tasks.Go(c.drain) {
		c.drain()
	}
}

// wait waits for the reply to a command that is in the queue. A caller that leaves the queue has sent nothing. Once the
// command is on its way, its caller leaves at its deadline, but a caller that is canceled waits for the reply.
func (c *combiner) wait(w *waiter) (any, error) {
	deadline, ends := w.ctx.Deadline()
	if !ends {
		deadline = time.Now().Add(c.timeout)
	}
	w.timer.Reset(time.Until(deadline))
	ctx := w.ctx
	left := ctx.Done()
	for {
		select {
		case r := <-w.reply:
			c.reuse(w)
			return r.Value, r.Err
		case <-left:
			left = nil
			if c.remove(w) {
				return nil, notSent(context.Cause(ctx))
			}
		case <-w.timer.C:
			if c.remove(w) {
				return nil, notSent(context.DeadlineExceeded)
			}
			return nil, c.named(context.DeadlineExceeded)
		}
	}
}

// remove takes a command out of the queue. It returns false if the command is not there any more.
func (c *combiner) remove(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.queue, w)
	if at >= 0 {
		c.queue = slices.Delete(c.queue, at, at+1)
	}
	return at >= 0
}

// drain sends what queued until the queue is empty.
func (c *combiner) drain() {
	for taken := c.take(); len(taken) > 0; taken = c.take() {
		c.sendTogether(taken)
		runtime.Gosched() // callers that got an answer may send the next command
	}
}

// take takes commands out of the queue. If there are none, it counts the write out.
func (c *combiner) take() []*waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.queue), pipelineMost)
	if n == 0 {
		c.active--
		return nil
	}
	taken := slices.Clone(c.queue[:n])
	c.queue = slices.Delete(c.queue, 0, n)
	return taken
}

// sendTogether sends commands in one write. It skips commands whose context has ended.
func (c *combiner) sendTogether(taken []*waiter) {
	cmds := make([]*Command, 0, len(taken))
	taken = slices.DeleteFunc(taken, func(w *waiter) bool {
		err := w.ctx.Err()
		if err != nil {
			w.reply <- Reply{Err: notSent(err)}
			return true
		}
		cmds = append(cmds, &w.command)
		return false
	})
	if len(taken) == 0 {
		return
	}
	// The write does not end with one of its callers. Its values are as good as another's.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(taken[0].ctx), c.timeout)
	defer cancel()
	c.sendAll(ctx, cmds, func(i int, r Reply) { taken[i].reply <- r })
}

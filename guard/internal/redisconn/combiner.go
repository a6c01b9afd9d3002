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

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
)

const (
	// inFlight is how many writes to one server are on their way before commands queue; doc.go has the
	// measurement.
	inFlight = 4
	// pipelineMost is how many commands share a write: a connection that breaks fails them all.
	pipelineMost = 128
	// queueKept is how much memory for the queue is kept while it is empty.
	queueKept = 1024
)

// combiner sends the commands of concurrent callers to one server. A caller sends its command itself while
// fewer than inFlight are on their way. Above that commands queue, and the next caller that comes back from
// Redis sends all that queued in one write (flat combining: Hendler, Incze, Shavit, Tzafrir, SPAA 2010).
// Nothing waits for company: there is no timer.
type combiner struct {
	link

	tasks     *task.Group
	unbatched atomic.Bool // no batches: the keys are in several slots
	waiters   sync.Pool   // of *waiter

	mu     sync.Mutex
	active int // writes on their way
	queue  []pending
}

func newCombiner(l link, tasks *task.Group) *combiner {
	c := &combiner{link: l, tasks: tasks}
	_, cluster := l.client.(*redis.ClusterClient)
	c.unbatched.Store(cluster)
	return c
}

// pending is a command in the queue, or in a common write.
type pending struct {
	ctx     context.Context //nolint:containedctx // that of its caller
	command Command
	answers chan<- answer // one slot
	alone   bool          // it must not go in a batch
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

// ErrNotSent is in the error of a call whose command was not sent.
var ErrNotSent = errors.New("not sent")

func notSent(err error) error { return fmt.Errorf("%w: %w", ErrNotSent, err) }

// do sends a command and waits for its reply.
func (c *combiner) do(ctx context.Context, cmd Command) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, notSent(err)
	}
	if !c.enter() {
		return c.wait(ctx, cmd)
	}
	defer c.exit() //nolint:contextcheck // it sends for others
	return c.send(ctx, cmd)
}

// enter counts a write, unless as many as may be are on their way.
func (c *combiner) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active >= inFlight {
		return false
	}
	c.active++
	return true
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
	c.startDrain()
}

// wait queues the command; the next caller to finish sends it. A caller that leaves the queue has sent
// nothing. Once the command is on its way, the caller waits for the reply, or for its deadline.
func (c *combiner) wait(ctx context.Context, cmd Command) (any, error) {
	w, _ := c.waiters.Get().(*waiter)
	if w == nil {
		w = &waiter{make(chan answer, 1), time.NewTimer(clock.Forever)}
	}
	w.timer.Reset(time.Until(c.deadline(ctx)))
	c.enqueue(pending{ctx: ctx, command: cmd, answers: w.answers}) //nolint:contextcheck // it sends for others
	left := clock.Caller(ctx).Done()
	for {
		select {
		case a := <-w.answers:
			c.reuse(w)
			return a.reply, a.err
		case <-left:
			left = nil
			if p, queued := c.remove(w.answers); queued {
				c.reuse(w)
				return nil, p.skipped(context.Cause(ctx))
			}
		case <-w.timer.C:
			if p, queued := c.remove(w.answers); queued {
				c.reuse(w)
				return nil, p.skipped(context.DeadlineExceeded)
			}
			return nil, c.named(context.DeadlineExceeded) // the waiter is the command's
		}
	}
}

func (c *combiner) reuse(w *waiter) {
	w.timer.Stop()
	c.waiters.Put(w)
}

// enqueue queues a command. If no write is on its way by now, a goroutine sends it.
func (c *combiner) enqueue(p pending) {
	c.mu.Lock()
	c.queue = append(c.queue, p)
	idle := c.active == 0
	if idle {
		c.active++
	}
	c.mu.Unlock()
	if idle {
		c.startDrain()
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

// skipped is the error of a command that left the queue. One that must go alone may have been sent in a
// batch before.
func (p pending) skipped(err error) error {
	if p.alone {
		return err
	}
	return notSent(err)
}

// answer gives a caller its reply.
func (c *combiner) answer(p pending, reply any, err error) { p.answers <- answer{reply, err} }

func (c *combiner) startDrain() {
	if !c.tasks.Go(c.drain) {
		c.drain()
	}
}

// drain sends what queued until the queue is empty.
func (c *combiner) drain() {
	for {
		taken := c.take()
		if len(taken) == 0 {
			return
		}
		c.sendAll(taken)
		runtime.Gosched() // callers that got an answer may send the next command
	}
}

// take takes commands out of the queue. If there are none, it counts the write out.
func (c *combiner) take() []pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.queue), pipelineMost)
	if n == 0 {
		c.active--
		if cap(c.queue) > queueKept {
			c.queue = nil
		}
		return nil
	}
	taken := slices.Clone(c.queue[:n])
	c.queue = slices.Delete(c.queue, 0, n)
	return taken
}

// sendAll sends commands in one write: those of a kind in one batch. It skips commands whose caller has left.
func (c *combiner) sendAll(taken []pending) {
	alone, batches := c.sort(taken)
	if len(alone) == 1 && len(batches) == 0 {
		ctx := c.detached(alone[0].ctx, c.deadline(alone[0].ctx))
		defer ctx.Cancel()
		reply, err := c.send(ctx, alone[0].command)
		c.answer(alone[0], reply, err)
		return
	}
	calls := make([]call, 0, len(batches)+len(alone))
	for _, b := range batches {
		calls = append(calls, b.call)
	}
	for _, p := range alone {
		calls = append(calls, call{p.command})
	}
	if len(calls) == 0 {
		return
	}
	ctx := c.detached(taken[0].ctx, time.Now().Add(c.timeout)) // its values are as good as another's
	defer ctx.Cancel()
	cmds := c.exchange(ctx, calls)
	for i, b := range batches {
		c.unpack(ctx, b, cmds[i])
	}
	for i, p := range alone {
		reply, err := c.resultOf(ctx, p.command, cmds[len(batches)+i])
		c.answer(p, reply, err)
	}
}

// batch are commands of callers that share a call.
type batch struct {
	call
	pending []pending
}

// unpack hands out what came of a batch.
func (c *combiner) unpack(ctx context.Context, b *batch, cmd noRetryCmd) {
	reply, err := c.result(ctx, cmd)
	if ofOtherSlots(err) {
		c.unbatched.Store(true)
	}
	b.unpack(reply, err,
		func(i int, reply any, err error) { c.answer(b.pending[i], reply, err) },
		func(i int) { //nolint:contextcheck // what is sent by itself has a context of its own
			p := b.pending[i]
			p.alone = true
			c.enqueue(p)
		})
}

// sort puts commands of a script together.
func (c *combiner) sort(taken []pending) (alone []pending, batches []*batch) {
	unbatched := c.unbatched.Load()
	for _, p := range taken {
		if err := p.ctx.Err(); err != nil {
			c.answer(p, nil, p.skipped(err))
			continue
		}
		script := p.command.Script()
		if !script.many || p.alone || unbatched || p.command.Alone() {
			alone = append(alone, p)
			continue
		}
		at := slices.IndexFunc(batches, func(b *batch) bool { return b.call[0].Script() == script })
		if at < 0 {
			at = len(batches)
			batches = append(batches, &batch{})
		}
		batches[at].call, batches[at].pending = append(batches[at].call, p.command), append(batches[at].pending, p)
	}
	batches = slices.DeleteFunc(batches, func(b *batch) bool {
		if len(b.pending) == 1 {
			alone = append(alone, b.pending[0])
		}
		return len(b.pending) == 1
	})
	return alone, batches
}

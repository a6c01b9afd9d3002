package redisconn

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard/internal/task"
)

const (
	// places is how many writes are on their way at once, each on a connection of
	// its own, before commands that come on top share one.
	places = 4
	// pipelineMost is how many share a write: a connection that breaks fails them all.
	pipelineMost = 128
	// queueKept is how much room for commands that queue is kept when none do.
	queueKept = 1024
)

// combiner sends commands of concurrent callers in common network writes, under load
// only: a lone caller pays one mutex. Whoever comes back from Redis takes along all that
// queued meanwhile, as one pipeline (flat combining: Hendler, Incze, Shavit, Tzafrir,
// SPAA 2010). Nothing waits for company: there is no timer.
type combiner struct {
	pool      *pool
	timeout   time.Duration // for a common write
	tasks     *task.Group
	unbatched atomic.Bool // nothing goes in batches

	mu     sync.Mutex
	active int
	queue  []pending
}

func newCombiner(l *pool, timeout time.Duration, b *task.Group) *combiner {
	c := &combiner{pool: l, timeout: timeout, tasks: b}
	c.unbatched.Store(l.shared != nil)
	return c
}

// do implements sender.
func (c *combiner) do(ctx context.Context, cmd Command) (any, error) {
	if c.enter() {
		l := c.pool.get()
		reply, err := roundTrip(ctx, cmd, l.client)
		c.exit(l) //nolint:contextcheck // it goes on for others
		return reply, err
	}
	type answer struct {
		reply any
		err   error
	}
	result := make(chan answer, 1)
	r := Asking{cmd, func(reply any, err error) { result <- answer{reply, err} }}
	c.enqueue(pending{ctx: ctx, request: r}) //nolint:contextcheck // as above
	a := <-result
	return a.reply, a.err
}

// start implements sender.
func (c *combiner) start(p pending) {
	if !c.enter() {
		c.enqueue(p)
		return
	}
	l := c.pool.get()
	if !l.shared && p.leave.Err() == nil {
		reply, cut, err := l.do(p.ctx, p.leave, p.request)
		if cut {
			c.pool.discard(l)
			l = nil
		}
		c.exit(l)
		p.request.Done(reply, err)
		return
	}
	send := func() {
		p.request.Done(roundTrip(p.ctx, p.request, l.client))
		c.drain(l)
	}
	if !c.tasks.Go(send) {
		send()
	}
}

// enter takes one of the places, if one is free.
func (c *combiner) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active == places {
		return false
	}
	c.active++
	return true
}

func (c *combiner) enqueue(p pending) {
	c.mu.Lock()
	if c.active > 0 {
		c.queue = append(c.queue, p) // whoever comes back takes it along
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
		runtime.Gosched() // those who were answered may have something for the next one
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
	f.pending = append(f.pending[:0], c.queue[:n]...)
	left := copy(c.queue, c.queue[n:])
	clear(c.queue[left:])
	c.queue = c.queue[:left]
	return true
}

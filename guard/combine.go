package guard

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// combineFrom is how many writes are on their way at once, each on a connection of
	// its own, before commands that come on top share one.
	combineFrom = 8
	// combineMost is how many share a write: a connection that breaks fails them all.
	combineMost = 128
	// combineKept is how much room for commands that queue is kept when none do.
	combineKept = 1024
)

// combiner sends commands of concurrent callers in common network writes, under load
// only: a lone caller pays one mutex. Whoever comes back from Redis takes along all that
// queued meanwhile, as one pipeline (flat combining: Hendler, Incze, Shavit, Tzafrir,
// SPAA 2010). Nothing waits for company: there is no timer.
type combiner struct {
	lanes      *lanes
	timeout    time.Duration // for a common write
	background *background

	mu     sync.Mutex
	flying int
	queue  []parcel
}

// parcel is a command, and who wants to know when it is done.
type parcel struct {
	ctx   context.Context //nolint:containedctx // that of the command
	leave context.Context //nolint:containedctx // when its caller leaves; nil = never
	cmd   redis.Cmder
	done  func(error)
}

// Process implements processor: it sends a command and waits, at most to the deadline of
// ctx; the command may be executed all the same, and must not be looked at then.
func (c *combiner) Process(ctx context.Context, cmd redis.Cmder) error {
	if c.board() {
		l := c.lanes.get()
		err := l.client.Process(ctx, cmd)
		c.land(l) //nolint:contextcheck // it goes on for others
		return err
	}
	result := make(chan error, 1)
	c.enqueue(parcel{ctx, nil, cmd, func(err error) { result <- err }}) //nolint:contextcheck // as above
	return <-result
}

// start sends a command and returns, at the latest when the caller leaves. done is called
// when it is answered, or failed, and must not block.
func (c *combiner) start(p parcel) {
	if !c.board() {
		c.enqueue(p)
		return
	}
	l := c.lanes.get()
	if !l.shared && p.leave.Err() == nil {
		cut, err := l.process(p.ctx, p.leave, p.cmd)
		if cut {
			c.lanes.drop(l)
			l = nil
		}
		c.land(l)
		p.done(err)
		return
	}
	fly := func() {
		p.done(l.client.Process(p.ctx, p.cmd))
		c.fly(l)
	}
	if !c.background.spawn(fly) {
		fly()
	}
}

// board takes one of the places, if one is free.
func (c *combiner) board() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flying == combineFrom {
		return false
	}
	c.flying++
	return true
}

func (c *combiner) enqueue(p parcel) {
	c.mu.Lock()
	if c.flying > 0 {
		c.queue = append(c.queue, p) // whoever flies comes back for it
		c.mu.Unlock()
		return
	}
	c.flying++ // all landed meanwhile
	c.queue = append(c.queue, p)
	c.mu.Unlock()
	c.flyOn(nil)
}

// land gives the place up, to a goroutine if there is something to take along. The lane
// is nil if it ended.
func (c *combiner) land(l *lane) {
	c.mu.Lock()
	if len(c.queue) == 0 {
		c.flying--
		c.mu.Unlock()
		c.lanes.put(l)
		return
	}
	c.mu.Unlock()
	c.flyOn(l)
}

func (c *combiner) flyOn(l *lane) {
	fly := func() { c.fly(l) }
	if !c.background.spawn(fly) {
		fly()
	}
}

// fly sends what queued until nothing does.
func (c *combiner) fly(l *lane) {
	var batch []parcel
	for {
		if batch = c.take(batch); len(batch) == 0 {
			c.lanes.put(l)
			return
		}
		if l == nil {
			l = c.lanes.get()
		}
		c.send(l.client, batch)
		clear(batch)
	}
}

// take gives the place up if there is nothing to take. It writes to batch.
func (c *combiner) take(batch []parcel) []parcel {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.queue), combineMost)
	if n == 0 {
		c.flying--
		if cap(c.queue) > combineKept {
			c.queue = nil
		}
		return nil
	}
	batch = append(batch[:0], c.queue[:n]...)
	left := copy(c.queue, c.queue[n:])
	clear(c.queue[left:])
	c.queue = c.queue[:left]
	return batch
}

// send sends a batch. What is too late already is not sent.
func (c *combiner) send(client redis.UniversalClient, batch []parcel) {
	if len(batch) == 1 {
		p := batch[0]
		p.done(client.Process(p.ctx, p.cmd))
		return
	}
	ctx := endingIn(batch[0].ctx, c.timeout) // its values are as good as another's
	pipe := client.Pipeline()
	for i := range batch {
		if err := batch[i].ctx.Err(); err != nil {
			batch[i].done(err)
			batch[i].done = nil
			continue
		}
		_ = pipe.Process(ctx, batch[i].cmd) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each command keeps its own error
	for _, p := range batch {
		if p.done != nil {
			p.done(p.cmd.Err())
		}
	}
}

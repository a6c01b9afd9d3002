package guard

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard/internal/task"
)

const (
	// combineFrom is how many writes are on their way at once, each on a connection of
	// its own, before commands that come on top share one.
	combineFrom = 4
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
	lanes   *lanes
	timeout time.Duration // for a common write
	tasks   *task.Group
	apart   atomic.Bool // none is to be one of many

	mu     sync.Mutex
	flying int
	queue  []parcel
}

func newCombiner(l *lanes, timeout time.Duration, b *task.Group) *combiner {
	c := &combiner{lanes: l, timeout: timeout, tasks: b}
	c.apart.Store(l.shared != nil)
	return c
}

// do implements courier.
func (c *combiner) do(ctx context.Context, cmd command) (any, error) {
	if c.board() {
		l := c.lanes.get()
		reply, err := run(ctx, cmd, l.client)
		c.land(l) //nolint:contextcheck // it goes on for others
		return reply, err
	}
	type answer struct {
		reply any
		err   error
	}
	result := make(chan answer, 1)
	r := asking{cmd, func(reply any, err error) { result <- answer{reply, err} }}
	c.enqueue(parcel{ctx: ctx, request: r}) //nolint:contextcheck // as above
	a := <-result
	return a.reply, a.err
}

// start implements courier.
func (c *combiner) start(p parcel) {
	if !c.board() {
		c.enqueue(p)
		return
	}
	l := c.lanes.get()
	if !l.shared && p.leave.Err() == nil {
		reply, cut, err := l.run(p.ctx, p.leave, p.request)
		if cut {
			c.lanes.drop(l)
			l = nil
		}
		c.land(l)
		p.request.done(reply, err)
		return
	}
	fly := func() {
		p.request.done(run(p.ctx, p.request, l.client))
		c.fly(l)
	}
	if !c.tasks.Go(fly) {
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
	if !c.tasks.Go(fly) {
		fly()
	}
}

// fly sends what queued until nothing does.
func (c *combiner) fly(l *lane) {
	var f flight
	for c.take(&f) {
		if l == nil {
			l = c.lanes.get()
		}
		f.send(c, l.client)
		runtime.Gosched() // those who were answered may have something for the next one
	}
	c.lanes.put(l)
}

// take gives the place up if there is nothing to take.
func (c *combiner) take(f *flight) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.queue), combineMost)
	if n == 0 {
		c.flying--
		if cap(c.queue) > combineKept {
			c.queue = nil
		}
		return false
	}
	f.parcels = append(f.parcels[:0], c.queue[:n]...)
	left := copy(c.queue, c.queue[n:])
	clear(c.queue[left:])
	c.queue = c.queue[:left]
	return true
}

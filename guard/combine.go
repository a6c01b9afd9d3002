package guard

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// combineFrom is how many commands travel by themselves, each on a connection of its
	// own, before those that come on top share one write.
	combineFrom = 8
	// combineMost is how many share a write: a connection that breaks fails them all.
	combineMost = 128
)

// combiner sends commands of concurrent callers in common network writes, under load
// only: a lone caller pays one mutex. Whoever comes back from Redis makes the first of
// those that queued meanwhile the leader of all of them, and the leader sends them as
// one pipeline (flat combining: Hendler, Incze, Shavit, Tzafrir, SPAA 2010). There is
// no goroutine, timer or connection of its own.
type combiner struct {
	client  redis.UniversalClient
	timeout time.Duration // for a common write

	mu     sync.Mutex
	flying int
	queue  []*combined
}

// combined is a command that waits to be sent with others.
type combined struct {
	cmd  redis.Cmder
	lead chan []*combined // to the leader: all of them, itself first; to the others: nil
	err  error            // read by the others after lead
}

// Process implements processor. It returns at the deadline of ctx; the command may be
// executed all the same, and must not be looked at then.
func (c *combiner) Process(ctx context.Context, cmd redis.Cmder) error {
	c.mu.Lock()
	if c.flying < combineFrom {
		c.flying++
		c.mu.Unlock()
		defer c.land()
		return c.client.Process(ctx, cmd)
	}
	q := &combined{cmd: cmd, lead: make(chan []*combined, 1)}
	c.queue = append(c.queue, q)
	c.mu.Unlock()
	select {
	case batch := <-q.lead:
		return c.follow(ctx, q, batch)
	case <-ctx.Done():
	}
	if c.withdraw(q) {
		return ctx.Err()
	}
	select {
	case batch := <-q.lead: // made the leader at the last moment: the others count on it
		return c.follow(ctx, q, batch)
	default:
		return ctx.Err()
	}
}

// follow takes the part that the batch has for q.
func (c *combiner) follow(ctx context.Context, q *combined, batch []*combined) error {
	switch len(batch) {
	case 0:
		return q.err
	case 1:
		defer c.land()
		return c.client.Process(ctx, q.cmd)
	}
	c.send(batch) //nolint:contextcheck // calls of many contexts share it
	return q.err
}

// send sends a batch. Its leader's deadline is not that of the others.
func (c *combiner) send(batch []*combined) {
	defer c.land()
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	pipe := c.client.Pipeline()
	for _, q := range batch {
		_ = pipe.Process(ctx, q.cmd) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each command keeps its own error
	for i, q := range batch {
		q.err = q.cmd.Err()
		if i > 0 {
			q.lead <- nil
		}
	}
}

// land hands the place of a command that is back to those that queued.
func (c *combiner) land() {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.queue), combineMost)
	if n == 0 {
		c.flying--
		return
	}
	batch := slices.Clone(c.queue[:n])
	if c.queue = c.queue[n:]; len(c.queue) == 0 {
		c.queue = nil
	}
	batch[0].lead <- batch
}

// withdraw takes a command out of the queue if it is still there.
func (c *combiner) withdraw(q *combined) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.queue, q)
	if i >= 0 {
		c.queue = slices.Delete(c.queue, i, i+1)
	}
	return i >= 0
}

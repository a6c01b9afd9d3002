package quorum

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
)

const (
	outboxPause        = 20 * time.Millisecond // between two tries, at first
	outboxLongestPause = 100 * time.Millisecond
	outboxAtOnce       = 64
	outboxMost         = 1 << 14 // to one server; of what comes on top, the ttl has to do
)

// outbox is what one server of a quorum was to do and has not confirmed, in two lists. It was
// to give back: a hold without a holder is a vote less until its ttl ends, and a
// server that hangs may yet execute what was sent to it before. And it was to hold again
// what it lost. It is asked by one goroutine a list, for some of them at a time; if one goes
// unanswered, then for one, until it answers.
type outbox struct {
	mu         sync.Mutex
	draining   bool
	deliveries []delivery
}

// delivery is one call that a server has to answer before its time is up.
type delivery struct {
	ctx   context.Context //nolint:containedctx // its values
	until clock.Instant
	call  func(ctx context.Context) error
}

// deliverLater repeats asynchronously what a server did not answer, for as long as the hold
// may last that it is about.
func (s *Store) deliverLater(ctx context.Context, node int, err error, ttl time.Duration, call func(ctx context.Context) error) {
	if redisstore.Answered(err) {
		return
	}
	s.enqueue(&s.releases[node], 1, delivery{context.WithoutCancel(ctx), clock.Now().Add(s.timeout + ttl), call}) //nolint:contextcheck // it has its own
}

// enqueue has a delivery made in the background, at first together with so many others.
func (s *Store) enqueue(o *outbox, most int, t delivery) {
	if o.put(t) {
		s.tasks.Go(func() { s.drain(o, most) })
	}
}

// neverSent says of an error that the server did not see the command.
func neverSent(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// put returns whether the caller has to start asking.
func (o *outbox) put(more ...delivery) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deliveries = append(o.deliveries, more[:min(len(more), max(outboxMost-len(o.deliveries), 0))]...)
	first, o.draining = !o.draining, true
	return first
}

// take takes out deliveries that are still of use. If there are none, the outbox is not draining any more.
func (o *outbox) take(most int) (batch []delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for at := clock.Now(); len(o.deliveries) > 0 && len(batch) < most; o.deliveries = o.deliveries[1:] {
		if o.deliveries[0].until > at {
			batch = append(batch, o.deliveries[0])
		}
	}
	if len(batch) == 0 {
		o.draining, o.deliveries = false, nil
	}
	return batch
}

func (s *Store) drain(o *outbox, most int) {
	rest := outboxPause
	for batch := o.take(most); len(batch) > 0; batch = o.take(most) {
		if most == 1 {
			timer := time.NewTimer(rest)
			select {
			case <-timer.C:
			case <-s.closing:
				timer.Stop()
				return
			}
		}
		if left := s.deliver(batch); len(left) > 0 {
			o.put(left...)
			most, rest = 1, min(2*rest, outboxLongestPause)
		} else {
			most, rest = outboxAtOnce, outboxPause
		}
	}
}

// deliver makes calls, at once, and gives those that were not answered.
func (s *Store) deliver(batch []delivery) (left []delivery) {
	errs := make([]error, len(batch))
	var all sync.WaitGroup
	for i, t := range batch {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.ctx, s.timeout)
			defer cancel()
			errs[i] = t.call(ctx)
		})
	}
	all.Wait()
	for i, err := range errs {
		if !redisstore.Answered(err) {
			left = append(left, batch[i])
		}
	}
	return left
}

package guard

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

const (
	owedRest   = 20 * time.Millisecond // between two tries, at first
	owedPause  = 100 * time.Millisecond
	owedAtOnce = 64
	mostOwed   = 1 << 14 // to one server; of what comes on top, the ttl has to do
)

// owed is what one server of a quorum was to do and has not confirmed, in two lists. It was
// to give back: what it holds for nobody is a vote less until its ttl is over, and a
// server that hangs may yet execute what was sent to it before. And it was to hold again
// what it lost. It is asked by one goroutine a list, for some things at a time; if one goes
// unanswered, then for one, until it answers.
type owed struct {
	mu     sync.Mutex
	asking bool
	things []thing
}

// thing is one call that a server has to answer before its time is up.
type thing struct {
	ctx   context.Context //nolint:containedctx // its values
	until clock.Instant
	call  func(ctx context.Context) error
}

// insist repeats, behind the caller, what a server did not answer, for as long as the hold
// may last that it is about.
func (s *quorumStore) insist(ctx context.Context, node int, err error, ttl time.Duration, call func(ctx context.Context) error) {
	if answers(err) {
		return
	}
	s.later(&s.owed[node], 1, thing{context.WithoutCancel(ctx), clock.Now().Add(s.timeout + ttl), call}) //nolint:contextcheck // it has its own
}

// later has a thing done in the background, at first together with so many others.
func (s *quorumStore) later(o *owed, most int, t thing) {
	if o.put(t) {
		s.tasks.Go(func() { s.collect(o, most) })
	}
}

// neverSent says of an error that the server did not see the command.
func neverSent(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// put says whether nobody asks yet.
func (o *owed) put(things ...thing) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.things = append(o.things, things[:min(len(things), max(mostOwed-len(o.things), 0))]...)
	first, o.asking = !o.asking, true
	return first
}

// take takes out what is still of use. There is nobody who asks when it is nothing.
func (o *owed) take(most int) (batch []thing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for at := clock.Now(); len(o.things) > 0 && len(batch) < most; o.things = o.things[1:] {
		if o.things[0].until > at {
			batch = append(batch, o.things[0])
		}
	}
	if len(batch) == 0 {
		o.asking, o.things = false, nil
	}
	return batch
}

func (s *quorumStore) collect(o *owed, most int) {
	rest := owedRest
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
		if left := s.askAgain(batch); len(left) > 0 {
			o.put(left...)
			most, rest = 1, min(2*rest, owedPause)
		} else {
			most, rest = owedAtOnce, owedRest
		}
	}
}

// askAgain makes calls, at once, and gives those that were not answered.
func (s *quorumStore) askAgain(batch []thing) (left []thing) {
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
		if !answers(err) {
			left = append(left, batch[i])
		}
	}
	return left
}

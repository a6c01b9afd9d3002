package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// Lead makes this process a candidate for key, and runs fn while it leads: once per term,
// again and again until ctx ends. Only one process leads at a time, and candidates take
// turns in the order of the queue. A term is a lock like any other: it is renewed, another
// candidate leads within the ttl after a crash, and Fence gives the number of the term.
//
// fn's context ends before another process can lead: when the lock is lost, when ctx ends,
// and when the Guard is shut down or closed. fn must watch it, for Lead waits until fn
// returns. What comes then:
//
//   - fn returned nil: the process steps down. It releases the lock, pauses for up to 1 s,
//     and joins the end of the queue. The same goes for a term that MaxHold ended.
//   - fn returned an error while it led: Lead releases the lock and returns that error.
//   - The lock was lost, or the store failed before fn ran: observers are notified, and Lead
//     tries again after a pause. It is drawn at random, grows with each failure, and is
//     never longer than 10 s. What fn returns after a loss is not looked at.
//   - ctx ended: Lead releases the lock and returns the error of ctx. An error of fn that
//     says more than that is joined to it.
//   - The Guard was shut down or closed: likewise, with ErrClosed.
//
// A KeyError, an OptionError, ErrClosed and ErrNoGuard end Lead at once. key is resolved
// once, when Lead begins. Candidates always wait for their turn: Wait and NoWait do
// nothing here. FailOpen, Shared and a Limit above 1 are OptionErrors, and so is a ctx that holds
// the key already. A panic or runtime.Goexit in fn releases the lock and continues.
//
// Two leaders may overlap where two holders of any lock may: for up to a third of the ttl
// after Redis restarted empty. What must not happen twice needs the fence.
func (g *Guard) Lead(ctx context.Context, key KeyFunc, fn func(ctx context.Context) error, opts ...LockOption) error {
	if fn == nil {
		return &OptionError{"fn", "is nil"}
	}
	s, err := g.settingsOf(ctx, opts)
	if err != nil {
		return err
	}
	if err := s.checkLead(); err != nil {
		return err
	}
	k, err := resolveKey(ctx, key)
	if err != nil {
		return err
	}
	if leaseIn(ctx).inChain(g, k) != nil {
		return &OptionError{"ctx", "holds the key already: Lead cannot step down under another hold of it"}
	}
	//nolint:contextcheck // no key is asked for
	named := withFormat(formatOf(key), Key(k))
	c := candidate{g: g, key: named, fn: fn, opts: append(slices.Clone(opts), Wait(Forever))}
	for {
		pause, err := c.campaign(ctx)
		if err != nil {
			return err
		}
		retry.Pause(ctx, g.inside.Draining(), pause)
		if err := c.stopped(ctx); err != nil {
			return err
		}
	}
}

// checkLead refuses what would have several lead at once.
func (s settings) checkLead() error {
	switch {
	case s.limit == guardstore.Unlimited:
		return &OptionError{"Shared", "does not go with Lead: only one leads"}
	case s.limit != guardstore.Exclusive:
		return &OptionError{"Limit", fmt.Sprintf("%d does not go with Lead: only one leads", s.limit)}
	}
	return nil
}

// candidate is one call of Lead.
type candidate struct {
	g       *Guard
	key     KeyFunc
	fn      func(ctx context.Context) error
	opts    []LockOption
	backoff retry.Backoff
}

// stopped says why Lead ends now, if it does.
func (c *candidate) stopped(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case task.IsClosed(c.g.inside.Draining()):
		return ErrClosed
	}
	return nil
}

// campaign waits for a term, leads, and says how long to pause before the next one. An
// error ends Lead.
func (c *candidate) campaign(ctx context.Context) (pause time.Duration, err error) {
	lease, err := c.g.Acquire(ctx, c.key, c.opts...)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return 0, ended(ctx)
	case errors.Is(err, ErrStore):
		return c.backoff.Next(0), nil
	default:
		return 0, err
	}

	began := time.Now()
	own, released := c.lead(ctx, lease)
	worked := time.Since(began)
	if reason := c.stopped(ctx); reason != nil {
		return 0, endOfLead(reason, own)
	}
	var lost *LostError
	switch isLost := errors.As(released, &lost); {
	case isLost && !errors.Is(lost, ErrMaxHold):
		return c.backoff.Next(worked), nil
	case own != nil && !isLost:
		return 0, own
	}
	return c.backoff.Reset(), nil
}

// lead runs fn for one term, and releases the lock even if fn panics.
func (c *candidate) lead(ctx context.Context, lease *Lease) (own, released error) { //nolint:contextcheck // term descends from ctx
	term, end := context.WithCancelCause(lease.Context())
	go func() {
		select {
		case <-c.g.inside.Draining():
			end(ErrClosed) // Shutdown waits for leases, and a term has no end of its own
		case <-term.Done():
		}
	}()
	defer func() {
		end(lease.hold.lostError(ErrReleased)) // also if fn left a nested lease open
		released = giveUpTerm(ctx, lease)
	}()
	return c.fn(term), nil //nolint:contextcheck // it descends from ctx
}

// giveUpTerm releases the lock. It gives the release of a process that is about to exit
// the time to reach Redis, for the next candidate waits for it.
func giveUpTerm(ctx context.Context, lease *Lease) error {
	if ctx.Err() != nil {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseGrace)
		defer cancel()
		ctx = grace
	}
	return lease.Release(ctx)
}

// endOfLead joins fn's error to the reason why Lead ends, if it says anything else.
func endOfLead(reason, own error) error {
	switch {
	case own == nil, errors.Is(reason, own), errors.Is(own, ErrLost), errors.Is(own, ErrClosed),
		errors.Is(own, context.Canceled), errors.Is(own, context.DeadlineExceeded):
		return reason
	}
	return errors.Join(reason, own)
}

package retry

import (
	"context"
	"errors"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
)

// Policy says how calls are made.
type Policy struct {
	Timeout        time.Duration // for how long a call goes on without an answer
	AttemptTimeout time.Duration // for how long one attempt is waited for

	// OnFailure is called after each attempt that failed, unless it is nil. It must not block.
	OnFailure func(ctx context.Context, op string, label Label, err error)
}

// Label says which lock a call is about.
type Label struct {
	Name  string // low cardinality
	Key   string
	Limit guardstore.Limit
}

// Call is one command to the store, repeated until it is answered.
type Call[In, Out any] struct {
	Begun    clock.Instant // when it was made
	Sent     clock.Instant // just before the latest attempt was sent
	Attempts int           // how many there were
	InDoubt  bool          // the outcome of some attempt is not known: it may yet take effect

	After func(Label, In) // called after each attempt; nil = nothing is

	// RepeatRefused makes Run treat a refusal as a failure, and repeat the command. What gives something
	// back, or keeps it, is repeated until its lease ends: the refusal may pass.
	RepeatRefused bool

	policy  *Policy
	op      string
	label   Label
	send    func(context.Context, In) (Out, error)
	request In
	wall    time.Time // Begun, by package time
	err     error     // of the latest attempt that failed
}

// Error says that a call got no answer, or a refusal.
type Error struct {
	Op      string
	Key     string
	Err     error // what was reported last
	Refused bool
}

// Error gives the operation, never the key.
func (e *Error) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// How long a call pauses between two attempts at most. An attempt at a port where nothing
// listens is cheap.
const (
	longestPause = 200 * time.Millisecond
	refusedPause = 25 * time.Millisecond
)

// The ends of a Run without an answer.
var (
	ErrNoAnswer = errors.New("no answer in time")
	ErrStopped  = errors.New("stopped")
)

// NewCall makes a call of a method of the store; Run begins it.
func NewCall[In, Out any](p *Policy, op string, label Label, send func(context.Context, In) (Out, error), request In) *Call[In, Out] {
	c := &Call[In, Out]{policy: p, op: op, label: label, send: send, request: request}
	c.wall, c.Begun = clock.Reading()
	return c
}

// Run sends the command until it is answered, until ctx or its time ends (ErrNoAnswer), or,
// after an attempt, until stop is closed (ErrStopped). A refusal is returned unchanged. An attempt
// ends with ctx, and after AttemptTimeout, so that a silent connection does not use up
// all the time. You can call Run again.
func (c *Call[In, Out]) Run(ctx context.Context, stop <-chan struct{}, until clock.Instant) (reply Out, err error) {
	for ctx.Err() == nil {
		wall := c.wall
		if c.Sent = c.Begun; c.Attempts > 0 {
			wall, c.Sent = clock.Reading()
		}
		c.Attempts++
		attempt := clock.WithDeadline(ctx, attemptEnd(ctx, wall.Add(min(c.policy.AttemptTimeout, until.Sub(c.Sent)))))
		reply, err = c.send(attempt, c.request) //nolint:contextcheck // it is ctx, and ends sooner
		attempt.Cancel()
		if c.After != nil {
			c.After(c.label, c.request)
		}
		refused := errors.As(err, new(*guardstore.RefusedError))
		if err == nil || refused && !c.RepeatRefused {
			return reply, err
		}
		c.InDoubt = c.InDoubt || !refused && !errors.Is(err, guardstore.ErrNotSent)
		if ctx.Err() != nil {
			break // the store did not fail
		}
		if c.Sent.Add(c.policy.AttemptTimeout) >= until && clock.Now() >= until {
			// Time is up: that is not the store's fault. Report an earlier failure, if there was one.
			if c.err == nil {
				c.err = err
			}
			break
		}
		c.err = err
		if c.policy.OnFailure != nil {
			c.policy.OnFailure(ctx, c.op, c.label, err)
		}
		longest := longestPause
		if called := c.Begun.Add(c.policy.Timeout); errors.Is(err, syscall.ECONNREFUSED) && clock.Now() < called {
			// Nothing listens there, so Redis is down: half of the time is enough to know that. A release
			// that goes on asynchronously has more time, and keeps it.
			longest = refusedPause
			if until <= called {
				until = min(until, c.Begun.Add(c.policy.Timeout/2))
			}
		}
		if err := c.pause(ctx, stop, until, longest); err != nil {
			return reply, err
		}
	}
	return reply, ErrNoAnswer
}

// endsBefore is how much later than its caller's context an attempt ends, so that the context has ended when the
// store gives up for that reason.
const endsBefore = 5 * time.Millisecond

// attemptEnd is the deadline of an attempt: that of the caller's context if it is nearer.
func attemptEnd(ctx context.Context, most time.Time) time.Time {
	if at, ends := ctx.Deadline(); ends && at.Add(endsBefore).Before(most) {
		return at.Add(endsBefore)
	}
	return most
}

// RunWithGrace is Run. If ctx ends it, it runs on for grace.
func (c *Call[In, Out]) RunWithGrace(ctx context.Context, stop <-chan struct{}, until clock.Instant, grace time.Duration) (reply Out, err error) {
	reply, err = c.Run(ctx, stop, until)
	return c.RunOn(ctx, stop, until, grace, reply, err)
}

// RunOn is the second half of RunWithGrace, after a Run that ended with err.
func (c *Call[In, Out]) RunOn(ctx context.Context, stop <-chan struct{}, until clock.Instant, grace time.Duration, reply Out, err error) (Out, error) {
	if errors.Is(err, ErrNoAnswer) && ctx.Err() != nil && grace > 0 {
		reply, err = c.Run(context.WithoutCancel(ctx), stop, min(until, clock.Now().Add(grace)))
	}
	return reply, err
}

// pause waits before the next attempt, each time for longer.
func (c *Call[In, Out]) pause(ctx context.Context, stop <-chan struct{}, until clock.Instant, longest time.Duration) error {
	wait := min(10*time.Millisecond<<min(c.Attempts, 5), longest)
	wait = wait/2 + rand.N(wait/2)
	timer := time.NewTimer(min(wait, until.Until()))
	defer timer.Stop()
	select {
	case <-timer.C:
		if clock.Now() >= until {
			return ErrNoAnswer
		}
		return nil
	case <-ctx.Done():
		return ErrNoAnswer
	case <-stop:
		return ErrStopped
	}
}

// Failure is the error of a call whose Run ended with err.
func (c *Call[In, Out]) Failure(err error) *Error {
	var refusal *guardstore.RefusedError
	refused := errors.As(err, &refusal)
	switch {
	case refused:
		err = refusal.Err
	case errors.As(c.err, &refusal):
		err = refusal.Err
	case c.err != nil:
		err = c.err
	}
	return &Error{Op: c.op, Key: c.label.Key, Err: err, Refused: refused}
}

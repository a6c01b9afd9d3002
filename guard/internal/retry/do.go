package retry

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
)

// Policy is the same for all commands of a Guard.
type Policy struct {
	Timeout        time.Duration // for how long a caller waits for an answer
	AttemptTimeout time.Duration // for one attempt

	// OnFailure is called after each attempt that failed. It must not block.
	OnFailure func(ctx context.Context, op string, label Label, err error)
}

// Label names the lock of a command.
type Label struct {
	Name  string // low cardinality
	Key   string
	Limit guardstore.Limit
}

// Call says what a command is for, and when Do gives up.
type Call struct {
	Op    string
	Label Label

	For   time.Duration   // from now; Policy.Timeout at most if a caller waits
	Grace time.Duration   // no longer than this after the end of ctx
	Stop  <-chan struct{} // after an attempt; nil = nothing stops the call

	// RepeatRefused is for releases: a refusal may pass.
	RepeatRefused bool
}

// Answer is the result of Do.
type Answer[T any] struct {
	Reply    T
	Sent     clock.Instant // just before the last attempt was sent; valid without an error
	Attempts int
	InDoubt  bool // some attempt may have taken effect, or may still, without an answer
}

// Error says that a command got no answer, or a refusal.
type Error struct {
	Op      string
	Key     string
	Err     error // of the last attempt that failed
	Refused bool  // it was the store's answer
}

// Error returns the operation and the error, without the key.
func (e *Error) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// ErrNoAnswer is the Err of an Error if no attempt failed before the time was up.
var ErrNoAnswer = errors.New("no answer in time")

// ErrStopped is in the Err of an Error if Call.Stop ended the call.
var ErrStopped = errors.New("stopped")

// The longest pauses between two attempts. An attempt is cheap if the server refuses the connection.
const (
	longestPause = 200 * time.Millisecond
	refusedPause = 25 * time.Millisecond
)

// timerDelay bounds the wait for the end of a context whose deadline has passed: a socket's timer may be sooner.
const timerDelay = 5 * time.Millisecond

// Do sends a command until the store answers it. The error is an *Error. If ctx has ended, and there is
// no Grace, Do sends nothing.
func Do[In, Out any](ctx context.Context, p *Policy, c Call, send func(context.Context, In) (Out, error), in In) (a Answer[Out], err error) {
	begun := clock.Now()
	until := begun.Add(c.For)
	var failure error // of the last attempt that was reported
	for a.Sent = begun; ; a.Sent = clock.Now() {
		if ctx.Err() != nil {
			if c.Grace == 0 {
				return a, c.failed(failure)
			}
			until = min(until, clock.Now().Add(c.Grace))
			ctx, c.Grace = context.WithoutCancel(ctx), 0 //nolint:fatcontext // once
		}
		a.Attempts++
		attempt, end := context.WithTimeout(ctx, min(p.AttemptTimeout, until.Sub(a.Sent)))
		a.Reply, err = send(attempt, in)
		end()
		if err == nil {
			return a, nil
		}
		refused := isRefusal(err)
		if refused && !c.RepeatRefused {
			return a, c.failed(err)
		}
		a.InDoubt = a.InDoubt || !refused && !errors.Is(err, guardstore.ErrNotSent)
		if at, ends := ctx.Deadline(); ends && !time.Now().Before(at) {
			Pause(ctx, nil, timerDelay)
		}
		if ctx.Err() != nil {
			continue // the store did not fail: its caller left
		}
		if a.Sent.Add(p.AttemptTimeout) >= until && clock.Now() >= until {
			// The attempt ended because the time is up: an earlier failure says more.
			if failure == nil {
				failure = err
			}
			return a, c.failed(failure)
		}
		failure = err
		p.OnFailure(ctx, c.Op, c.Label, err)
		longest := longestPause
		if errors.Is(err, syscall.ECONNREFUSED) && clock.Now() < begun.Add(p.Timeout) {
			longest = refusedPause
			if c.For <= p.Timeout { // the server is down: half of the time of a caller is enough to know that
				until = min(until, begun.Add(p.Timeout/2))
			}
		}
		if Pause(ctx, c.Stop, min(jittered(min(10*time.Millisecond<<min(a.Attempts, 5), longest)), until.Until())) {
			return a, &Error{Op: c.Op, Key: c.Label.Key, Err: fmt.Errorf("%w: %w", ErrStopped, failure)}
		}
		if clock.Now() >= until {
			return a, c.failed(failure)
		}
	}
}

// failed returns the error of a call whose last attempt failed with err.
func (c *Call) failed(err error) *Error {
	e := &Error{Op: c.Op, Key: c.Label.Key, Err: err, Refused: !c.RepeatRefused && isRefusal(err)}
	var refusal *guardstore.RefusedError
	switch {
	case err == nil:
		e.Err = ErrNoAnswer
	case errors.As(err, &refusal):
		e.Err = refusal.Err
	}
	return e
}

func isRefusal(err error) bool { return errors.As(err, new(*guardstore.RefusedError)) }

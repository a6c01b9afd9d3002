package locking

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch/guard"
)

// Kind is what an error means for a call. Each protocol has a table with an answer for each Kind.
type Kind int

// The kinds.
const (
	Foreign        Kind = iota // not an error of guard
	Busy                       // the key is held, and the call did not wait
	WaitTimeout                // the key stayed held for the wait
	HeldOver                   // the work is done, and its MinHold still holds the key
	Full                       // a Limit kept the call out
	Deadline                   // the caller's deadline ended the wait
	Cancelled                  // the caller is gone
	Down                       // Redis did not answer, or refused
	Closed                     // the Guard is closed
	Lost                       // the lock was lost while the work ran: its outcome is not known
	KeyMissing                 // the call lacks a value of the key, or has an unusable value
	KeyFailed                  // the key function failed
	KeyUnfit                   // no such call has a value that the template needs
	NoGuard                    // there is no Guard
	BadOption                  // an option that depends on the call is out of its bounds
	OtherInput                 // the key of Once was used with another input
	UnknownOutcome             // an earlier call of Once began, and its outcome is not known
	NotKept                    // the work of Once was done, and its result was not kept
)

// Fault returns the mistake of the program, which no caller can mend, or "".
func (k Kind) Fault() string {
	switch k {
	case KeyFailed:
		return "key function"
	case KeyUnfit:
		return "key template does not fit the route"
	case NoGuard:
		return "no Guard"
	case BadOption:
		return "option"
	}
	return ""
}

// Outcome is what an error means.
type Outcome struct {
	Kind Kind
	// RetryAfter is the time until a retry may succeed: at least a second, or 0 if a retry is of no use. If it is set, the
	// work did not run.
	RetryAfter time.Duration
	// Code is the ErrorType of the error, for clients and telemetry. It is "" if the error is not guard's, or the caller
	// left.
	Code string
}

// IsBusy reports whether the key was held, and nothing else ended the wait.
func (k Kind) IsBusy() bool { return k == Busy || k == WaitTimeout || k == HeldOver || k == Full }

// Classify returns what err means for a call whose own context is ctx.
func Classify(ctx context.Context, err error) Outcome {
	after, passes := RetryAfter(err)
	o := Outcome{Kind: kindOf(ctx, err, passes)}
	if o.Kind != Foreign && o.Kind != Cancelled {
		o.Code = codeOf(err)
	}
	// A loss counts even if the caller left: the work ran, and its outcome is not known.
	if o.Kind != Foreign && o.Kind != Lost && errors.Is(ctx.Err(), context.Canceled) {
		return Outcome{Kind: Cancelled}
	}
	switch o.Kind {
	case Busy, WaitTimeout, HeldOver, Full, Down, Closed:
		o.RetryAfter = after
	case Deadline:
		o.RetryAfter = max(after, minRetryAfter)
	}
	return o
}

// codeOf returns the ErrorType of err, or of a loss in it, which decides the Kind.
func codeOf(err error) string {
	var lost *guard.LostError
	var typed interface{ ErrorType() string }
	switch {
	case errors.As(err, &lost):
		return lost.ErrorType()
	case errors.As(err, &typed):
		return typed.ErrorType()
	}
	return "deadline_exceeded" // the caller's own context
}

func kindOf(ctx context.Context, err error, passes bool) Kind {
	switch {
	case errors.Is(err, guard.ErrLost):
		return Lost
	case errors.Is(err, guard.ErrKey):
		return keyKind(err)
	case errors.Is(err, guard.ErrNoGuard):
		return NoGuard
	case errors.Is(err, guard.ErrOption):
		return BadOption
	case errors.Is(err, guard.ErrOtherInput):
		return OtherInput
	case errors.Is(err, guard.ErrUnknownOutcome):
		return UnknownOutcome
	case errors.Is(err, guard.ErrNotKept):
		return NotKept
	case errors.Is(err, guard.ErrClosed):
		return Closed
	case errors.Is(err, guard.ErrStore):
		return Down
	// The end of a context counts if it is the caller's, or if it ended a wait.
	case errors.Is(err, context.DeadlineExceeded) && (passes || ctx.Err() != nil):
		return Deadline
	case passes:
		return busyKind(err)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return Cancelled
	}
	return Foreign
}

func busyKind(err error) Kind {
	var busy *guard.BusyError
	switch {
	case !errors.As(err, &busy), busy.Err != nil:
		return Busy
	case busy.HeldOver:
		return HeldOver
	case busy.Limit > 0:
		return Full
	case busy.Waited > 0:
		return WaitTimeout
	}
	return Busy
}

// keyKind returns KeyMissing if a template found no usable value in the call. Otherwise the program is at fault.
func keyKind(err error) Kind {
	switch value := ValueErrorIn(err); {
	case value == nil:
		return KeyFailed
	case value.Unfit:
		return KeyUnfit
	}
	return KeyMissing
}

// RetryAfter returns the time until a retry may succeed, at least a second. It returns false unless the work did not
// run, and the reason may pass.
func RetryAfter(err error) (time.Duration, bool) {
	var busy *guard.BusyError
	switch {
	// A LostError may wrap ErrClosed or a StoreError, and a KeyError anything at all.
	case errors.Is(err, guard.ErrLost), errors.Is(err, guard.ErrKey):
		return 0, false
	case errors.As(err, &busy):
		return max(busy.RetryAfter, minRetryAfter), true
	case errors.Is(err, guard.ErrBusy), errors.Is(err, guard.ErrStore), errors.Is(err, guard.ErrClosed):
		return minRetryAfter, true
	}
	return 0, false
}

const minRetryAfter = time.Second

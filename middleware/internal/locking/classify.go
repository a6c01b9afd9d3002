package locking

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch/guard"
)

// Kind is what an error means for the work that was asked for. Each protocol has one table
// with an answer for each Kind.
type Kind int

// The kinds.
const (
	Foreign        Kind = iota // not an error of guard
	Busy                       // the key is held, and was not waited for
	WaitTimeout                // the key was held for as long as Wait says
	HeldOver                   // only the MinHold of work that is done keeps the key
	Full                       // a Limit kept the call out
	Deadline                   // the caller's deadline ended the wait
	Cancelled                  // the caller is gone
	Down                       // Redis did not answer, or refused
	Closed                     // the Guard is closed
	Lost                       // lost while the work ran: its outcome is not known
	KeyMissing                 // what was sent lacks a value of the key, or has an unusable one
	KeyFailed                  // the key function failed
	KeyUnfit                   // the template needs what no such call has
	NoGuard                    // there is no Guard
	BadOption                  // an option that depends on the call is out of its bounds
	OtherInput                 // the key of Once was used with another input
	UnknownOutcome             // an earlier call of Once began, and nobody knows how it ended
	NotKept                    // the work of Once was done, and its result was not kept
)

// Fault says what the program did wrong, "" where it did nothing wrong: no caller can do
// anything about it.
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
	// RetryAfter is when another try is worth while: at least a second from now, and 0
	// where nothing says that it ever is. The work did not run where it is set.
	RetryAfter time.Duration
	// Code is the name of the error for clients and telemetry: that of its ErrorType. It is empty where the
	// error is not guard's, or the caller is gone.
	Code string
}

// IsBusy says whether the key was held, and nothing else ended the wait.
func (k Kind) IsBusy() bool { return k == Busy || k == WaitTimeout || k == HeldOver || k == Full }

// Classify says what err means for a call whose own context is ctx.
func Classify(ctx context.Context, err error) Outcome {
	after, passes := RetryAfter(err)
	o := Outcome{Kind: kindOf(ctx, err, passes)}
	if o.Kind != Foreign && o.Kind != Cancelled {
		o.Code = codeOf(err)
	}
	// A loss is reported also if the caller is gone: its work ran, and its outcome is not known.
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

// codeOf is the ErrorType of err: of a loss in it, if there is one, as that decides the Kind.
func codeOf(err error) string {
	var lost *guard.LostError
	var typed interface{ ErrorType() string }
	switch {
	case errors.As(err, &lost):
		return lost.ErrorType()
	case errors.As(err, &typed):
		return typed.ErrorType()
	}
	return "deadline_exceeded" // of the caller's own context
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
	// An end of some context counts if it is the caller's, or if it ended a wait.
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

// keyKind blames what was sent where a template found nothing usable in it, and else the
// program.
func keyKind(err error) Kind {
	switch value := ValueErrorIn(err); {
	case value == nil:
		return KeyFailed
	case value.Unfit:
		return KeyUnfit
	}
	return KeyMissing
}

// RetryAfter says whether err kept the work from running for a reason that passes, and
// when another try is worth while: at least a second from now.
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

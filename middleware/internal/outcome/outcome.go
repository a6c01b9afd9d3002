package outcome

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// StatusClientClosed is the status of a request whose client is gone: nobody reads it,
// but logs and metrics do, and it is no failure of the server.
const StatusClientClosed = 499

// Outcome is the answer to an error. The zero Outcome stands for an error that is not
// guard's.
type Outcome struct {
	Status     int
	Code       string
	RetryAfter time.Duration // 0 for none, else at least a second

	title, detail string
}

// Known says whether the error was guard's.
func (o Outcome) Known() bool { return o.Status != 0 }

// StatusOf gives the HTTP status that an error brings along, and whether it has one.
type StatusOf func(error) (int, bool)

// Of answers err for a request whose own context is ctx. statusOf, which may be nil,
// finds the status of a framework's error beyond those with a StatusCode method.
func Of(ctx context.Context, err error, statusOf StatusOf) Outcome {
	o := classify(ctx, err, statusOf)
	// A lost lock stays visible: its work ran, and its outcome is not known.
	if o.Known() && o.Code != codeLost && errors.Is(ctx.Err(), context.Canceled) {
		return Outcome{Status: StatusClientClosed}
	}
	return o
}

func classify(ctx context.Context, err error, statusOf StatusOf) Outcome {
	var key *guard.KeyError
	retryAfter, passes := locking.RetryAfter(err)
	switch {
	case errors.Is(err, guard.ErrLost):
		return lost
	case errors.As(err, &key):
		return invalidKey(key, statusOf)
	case errors.Is(err, guard.ErrKey):
		return keyFailed
	case errors.Is(err, guard.ErrNoGuard):
		return noGuard
	case errors.Is(err, guard.ErrOption):
		return badOption
	case errors.Is(err, guard.ErrClosed):
		return closed.in(retryAfter)
	case errors.Is(err, guard.ErrStore):
		return storeDown.in(retryAfter)
	// An end of some context counts if it is the request's, or if it ended a wait.
	case errors.Is(err, context.DeadlineExceeded) && (passes || ctx.Err() != nil):
		return deadline.in(max(retryAfter, time.Second))
	case passes:
		return busyFor(ctx, err).in(retryAfter)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return Outcome{Status: StatusClientClosed}
	}
	return Outcome{}
}

func busyFor(ctx context.Context, err error) Outcome {
	o := busy
	var why *guard.BusyError
	if errors.As(err, &why) && why.Err == nil && why.Waited > 0 {
		o = waited
	}
	o.Status = busyStatus(ctx)
	return o
}

// invalidKey blames the request where a template found nothing usable in it, and else
// the program, unless its key function's error says otherwise.
func invalidKey(err *guard.KeyError, statusOf StatusOf) Outcome {
	o := keyFailed
	if value := keytemplate.ValueErrorIn(err); value != nil {
		if !value.Unfit {
			return keyMissing
		}
		return o
	}
	if status, ok := ownStatus(err.Err, statusOf); ok {
		o.Status = status
		if status < http.StatusInternalServerError {
			o.detail = keyMissing.detail
		}
	}
	return o
}

func ownStatus(err error, statusOf StatusOf) (int, bool) {
	status, ok := 0, false
	var coder interface{ StatusCode() int }
	if errors.As(err, &coder) {
		status, ok = coder.StatusCode(), true
	} else if statusOf != nil {
		status, ok = statusOf(err)
	}
	// Anything but an error status would turn a request that was not served into one
	// that seems to have been.
	return status, ok && status >= 400 && status <= 599
}

func (o Outcome) in(d time.Duration) Outcome {
	o.RetryAfter = d
	return o
}

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
	Fault      Fault         // what the program did wrong, if it is to blame

	title, detail string
}

// Fault is a kind of mistake of the program: no request can do anything about it.
type Fault string

// The faults.
const (
	NoFault     Fault = ""
	NoGuard     Fault = "no Guard"
	BadTemplate Fault = "key template does not fit the route"
	KeyFailed   Fault = "key function"
	BadOption   Fault = "option"
)

// Known says whether the error was guard's.
func (o Outcome) Known() bool { return o.Status != 0 }

// HTTPError gives the HTTP status that a framework's error brings along, and what it says
// to clients, "" for nothing.
type HTTPError func(error) (status int, message string, ok bool)

// Of answers err for a request whose own context is ctx. known, which may be nil, knows the
// errors of a framework.
func Of(ctx context.Context, err error, known HTTPError) Outcome {
	o := classify(ctx, err, known)
	// A lost lock stays visible: its work ran, and its outcome is not known.
	if o.Known() && o.Code != codeLost && errors.Is(ctx.Err(), context.Canceled) {
		return Outcome{Status: StatusClientClosed}
	}
	return o
}

func classify(ctx context.Context, err error, known HTTPError) Outcome {
	var key *guard.KeyError
	retryAfter, passes := locking.RetryAfter(err)
	switch {
	case errors.Is(err, guard.ErrLost):
		return lost
	case errors.As(err, &key):
		return invalidKey(key, known)
	case errors.Is(err, guard.ErrKey):
		return keyFailed
	case errors.Is(err, guard.ErrNoGuard):
		return noGuard
	case errors.Is(err, guard.ErrOption):
		return badOption
	case errors.Is(err, guard.ErrUpgrade):
		return upgrade
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
func invalidKey(err *guard.KeyError, known HTTPError) Outcome {
	if value := keytemplate.ValueErrorIn(err); value != nil {
		if !value.Unfit {
			return keyMissing
		}
		o := keyFailed
		o.Fault = BadTemplate
		return o
	}
	status, message, ok := ownAnswer(err.Err, known)
	if !ok {
		return keyFailed
	}
	o := keyRefused
	o.Status, o.detail = status, message
	switch {
	case message != "":
	case status < http.StatusInternalServerError:
		o.detail = keyMissing.detail
	default:
		o.detail = keyFailed.detail
	}
	return o
}

// ownAnswer gives the status that an error of a key function has, if it is an error status,
// and what it tells the client. Anything but an error status would turn a request that was
// not served into one that seems to have been.
func ownAnswer(err error, known HTTPError) (status int, message string, ok bool) {
	var coder interface {
		error
		StatusCode() int
	}
	switch {
	case errors.As(err, &coder):
		if known != nil {
			_, message, _ = known(coder)
		}
		if teller, tells := coder.(interface{ Detail() string }); tells {
			message = teller.Detail()
		}
		status, ok = coder.StatusCode(), true
	case known != nil:
		status, message, ok = known(err)
	}
	return status, message, ok && status >= 400 && status <= 599
}

func (o Outcome) in(d time.Duration) Outcome {
	o.RetryAfter = d
	return o
}

package httplock

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// StatusClientClosed is the status of a request whose client left. Only logs and metrics see it: it is no failure of
// the server.
const StatusClientClosed = 499

// Outcome is the answer to an error.
type Outcome struct {
	Problem
	Kind  locking.Kind
	Fault string // the mistake of the program; "" for none
}

// Known reports whether the error was guard's.
func (o Outcome) Known() bool { return o.Kind != locking.Foreign }

// HTTPError returns the HTTP status of a framework's error, and its message for clients, or "".
type HTTPError func(error) (status int, message string, ok bool)

// Of returns the Outcome of err for a request whose own context is ctx. known reads the errors of a framework; it may
// be nil.
func Of(ctx context.Context, err error, known HTTPError) Outcome {
	means := locking.Classify(ctx, err)
	if body := new(bodyError); means.Kind == locking.Foreign && errors.As(err, &body) {
		return body.outcome(ctx)
	}
	o := Outcome{table[means.Kind], means.Kind, means.Kind.Fault()}
	if means.Code != "" {
		o.Code, o.Type = means.Code, typeBase+means.Code
	}
	if means.Kind.IsBusy() {
		if errors.As(err, new(*locking.InProgressError)) {
			o.Problem = inProgress
		}
		if status, set := ctx.Value(busyStatusKey{}).(int); set {
			o.Status = status
		}
	}
	o.RetryAfter = int((means.RetryAfter + time.Second - 1) / time.Second)
	if means.Kind == locking.KeyFailed {
		o.ask(err, known)
	}
	return o
}

// ask takes the status and the detail from a key function's error, if it has a status.
func (o *Outcome) ask(err error, known HTTPError) {
	var key *guard.KeyError
	if !errors.As(err, &key) {
		return
	}
	status, message, ok := ownAnswer(key.Err, known)
	if !ok {
		return
	}
	o.Status, o.Fault = status, ""
	switch {
	case message != "":
		o.Detail = message
	case status < http.StatusInternalServerError:
		o.Detail = table[locking.KeyMissing].Detail
	}
}

// ownAnswer returns the status of a key function's error, and its message for clients. ok is false unless the status is
// one of an error: the request was not served, so a success would be false.
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
		if detailed, hasDetail := coder.(interface{ Detail() string }); hasDetail {
			message = detailed.Detail()
		}
		status, ok = coder.StatusCode(), true
	case known != nil:
		status, message, ok = known(err)
	}
	return status, message, ok && status >= 400 && status <= 599
}

// bodyError is the error of a request whose body could not be read.
type bodyError struct{ err error } // has a *http.MaxBytesError where it was too large

func (e *bodyError) Error() string { return "read the body of the request: " + e.err.Error() }

func (e *bodyError) Unwrap() error { return e.err }

func (e *bodyError) outcome(ctx context.Context) Outcome {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return Outcome{Problem: table[locking.Cancelled], Kind: locking.Cancelled}
	case errors.As(e.err, new(*http.MaxBytesError)):
		return Outcome{Problem: bodyTooLarge, Kind: locking.KeyMissing}
	}
	return Outcome{Problem: bodyUnreadable, Kind: locking.KeyMissing}
}

var busyStatuses = []int{
	http.StatusConflict, http.StatusLocked, http.StatusTooManyRequests, http.StatusServiceUnavailable,
}

// checkBusyStatus returns an error unless code may be the status of a busy lock. 0 is the default.
func checkBusyStatus(code int) error {
	if code != 0 && !slices.Contains(busyStatuses, code) {
		return fmt.Errorf("BusyStatus %d is none of %v", code, busyStatuses)
	}
	return nil
}

type busyStatusKey struct{}

// withBusyStatus returns ctx with the status of a busy lock. 0 keeps the status of ctx.
func withBusyStatus(ctx context.Context, code int) context.Context {
	if code == 0 {
		return ctx
	}
	return context.WithValue(ctx, busyStatusKey{}, code)
}

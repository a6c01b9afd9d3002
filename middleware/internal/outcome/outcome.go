package outcome

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// StatusClientClosed is the status of a request whose client is gone: nobody reads it,
// but logs and metrics do, and it is no failure of the server.
const StatusClientClosed = 499

// Outcome is the answer to an error.
type Outcome struct {
	Kind       locking.Kind
	Status     int
	Code       string
	RetryAfter time.Duration // 0 for none, else at least a second
	Fault      string        // what the program did wrong, if it is to blame

	title, detail string
}

// Known says whether the error was guard's.
func (o Outcome) Known() bool { return o.Kind != locking.Foreign }

// HTTPError gives the HTTP status that a framework's error brings along, and what it says
// to clients, "" for nothing.
type HTTPError func(error) (status int, message string, ok bool)

// Of answers err for a request whose own context is ctx. known, which may be nil, knows the
// errors of a framework.
func Of(ctx context.Context, err error, known HTTPError) Outcome {
	means := locking.Classify(ctx, err)
	if body := new(BodyError); means.Kind == locking.Foreign && errors.As(err, &body) {
		return body.outcome(ctx)
	}
	o := table[means.Kind]
	if once := new(InProgressError); errors.As(err, &once) && (means.Kind == locking.Busy || means.Kind == locking.WaitTimeout) {
		o = inProgress
	}
	o.Kind, o.RetryAfter, o.Fault = means.Kind, means.RetryAfter, means.Kind.Fault()
	switch means.Kind {
	case locking.Busy, locking.WaitTimeout:
		o.Status = busyStatus(ctx)
	case locking.KeyFailed:
		o.ask(err, known)
	}
	return o
}

// ask has a key function's error say how it is answered, if it does.
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
		o.detail = message
	case status < http.StatusInternalServerError:
		o.detail = table[locking.KeyMissing].detail
	}
}

// ownAnswer gives the status that an error of a key function has, if it is an error status,
// and what the client sees. Anything but an error status would turn a request that was
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
		if detailed, hasDetail := coder.(interface{ Detail() string }); hasDetail {
			message = detailed.Detail()
		}
		status, ok = coder.StatusCode(), true
	case known != nil:
		status, message, ok = known(err)
	}
	return status, message, ok && status >= 400 && status <= 599
}

// Write answers err, which is not nil.
func Write(w http.ResponseWriter, r *http.Request, err error) {
	answer := Of(r.Context(), err, nil)
	if answer.Status == StatusClientClosed {
		w.WriteHeader(StatusClientClosed)
		return
	}
	problem := answer.Problem()
	problem.SetHeader(w.Header())
	w.Header().Set("Content-Type", ContentType)
	w.WriteHeader(problem.Status)
	if r.Method != http.MethodHead {
		// A client that does not take the answer is not ours to handle.
		_ = json.NewEncoder(w).Encode(problem)
	}
}

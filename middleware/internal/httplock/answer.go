package httplock

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/redlatch/redlatch/guard"
)

// Answer stands between one handler and its client. It holds the status back until a body follows, it is flushed, or
// the handler has returned, so that a lock that is lost before anything was sent can still be answered. It is used by
// one goroutine at a time. Adapters whose framework has a ResponseWriter of its own call its methods, the others use
// Writer.
type Answer struct {
	http.ResponseWriter
	ctx    context.Context //nolint:containedctx // lives for one request; nil before the handler starts
	before http.Header     // as outer layers had set it
	writer http.ResponseWriter

	status  int         // set by the handler, and held back
	header  http.Header // as it was then: what is set later belongs to the trailers
	sent    bool        // an answer was begun, or the connection taken over
	refused error       // the loss because of which an answer was not begun

	captures bool   // all is held back until finish, as long as it may be kept: not what is too long, flushed or hijacked
	body     []byte // held back
	implied  int    // the status of a handler that wrote nothing; 0 for 200
}

// NewAnswer returns the Answer to a request, which ends in w.
func NewAnswer(w http.ResponseWriter) *Answer { return &Answer{ResponseWriter: w} }

// start is called when the handler starts, under the locks of ctx.
func (a *Answer) start(ctx context.Context) {
	a.ctx, a.before = ctx, snapshot(a.Header())
}

func snapshot(h http.Header) http.Header {
	if len(h) == 0 {
		return nil
	}
	return h.Clone()
}

// Unwrap is what http.ResponseController looks for.
func (a *Answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Written says whether the handler has answered, or taken the connection over.
func (a *Answer) Written() bool { return a.sent || a.status != 0 }

// Sent says whether something of the answer may have reached the client.
func (a *Answer) Sent() bool { return a.sent }

// Failed says whether the handler has answered an error by itself.
func (a *Answer) Failed() bool { return a.status >= http.StatusBadRequest }

// WentPast notes that the handler answered status by a writer around this one.
func (a *Answer) WentPast(status int) { a.status, a.sent, a.captures = status, true, false }

// WriteHeader holds status back, unless it is informational.
func (a *Answer) WriteHeader(status int) {
	switch {
	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols,
		status < 100, status > 999: // the original panics
		a.ResponseWriter.WriteHeader(status)
	case a.captures && a.status != 0: // one too many
	case a.Written(), // one too many: the original says so in its log
		status == http.StatusSwitchingProtocols: // what follows may go past us, see Unwrap
		if a.begin() == nil {
			a.ResponseWriter.WriteHeader(status)
		}
	default:
		a.status, a.header = status, snapshot(a.Header())
	}
}

// Write sends p, and what is held back.
func (a *Answer) Write(p []byte) (int, error) {
	if a.holds(len(p)) {
		a.body = append(a.body, p...)
		return len(p), nil
	}
	if err := a.begin(); err != nil {
		return 0, err
	}
	return a.ResponseWriter.Write(p)
}

// WriteString is Write.
func (a *Answer) WriteString(s string) (int, error) {
	if a.holds(len(s)) {
		a.body = append(a.body, s...)
		return len(s), nil
	}
	if err := a.begin(); err != nil {
		return 0, err
	}
	return io.WriteString(a.ResponseWriter, s)
}

// holds says whether n more bytes are held back. With more than can be kept, nothing is any more.
func (a *Answer) holds(n int) bool {
	a.captures = a.captures && len(a.body)+n <= maxKeptBody
	if a.captures && a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	return a.captures
}

// FlushBy flushes by the original's Flush. It counts as an answer, unless that cannot.
func (a *Answer) FlushBy(original func() error) error {
	if err := a.mayBegin(); err != nil {
		return err
	}
	a.send()
	err := original()
	a.sent = a.sent || !errors.Is(err, http.ErrNotSupported)
	return err
}

// begin is called before anything is sent. With an error, nothing is to be sent.
func (a *Answer) begin() error {
	if err := a.mayBegin(); err != nil {
		return err
	}
	a.send()
	a.sent = true
	return nil
}

// mayBegin ends what captures, and says why no answer may be begun any more. The handler's own errors may.
func (a *Answer) mayBegin() error {
	a.captures = false
	if a.sent || a.Failed() {
		return nil
	}
	if a.refused == nil {
		a.refused = a.loss()
	}
	return a.refused
}

// loss gives that of any lock of the handler. A handler may give its lock back before it
// answers, which is none.
func (a *Answer) loss() error {
	ended := []error{context.Cause(a.ctx)}
	if lease, ok := guard.FromContext(a.ctx); ok {
		ended = append(ended, lease.Err()) // knows by the clock, and the context by the watchdog
	}
	for _, err := range ended {
		if errors.Is(err, guard.ErrLost) && !errors.Is(err, guard.ErrReleased) {
			return err
		}
	}
	return nil
}

// send sends the status that is held back.
func (a *Answer) send() {
	if a.sent || a.status == 0 {
		return
	}
	a.sent = true
	h := a.Header()
	if maps.EqualFunc(h, a.header, slices.Equal) {
		a.sendHeld()
		return
	}
	later := maps.Clone(h)
	replace(h, a.header)
	a.sendHeld()
	replace(h, later)
}

func (a *Answer) sendHeld() {
	a.ResponseWriter.WriteHeader(a.status)
	if len(a.body) > 0 {
		_, _ = a.ResponseWriter.Write(a.body) // what follows fails as well
	}
}

// finish ends the answer of a handler that has returned. err is what its lock ended with,
// and finish returns the error as far as it is to be handled. If nothing was sent by then, no
// header of what the handler would have answered remains.
func (a *Answer) finish(err error) error {
	if err == nil {
		err = a.refused
	}
	if err == nil || a.Failed() {
		a.send()
	}
	if err != nil && !a.sent {
		replace(a.Header(), a.before)
	}
	return err
}

func replace(h, by http.Header) {
	clear(h)
	maps.Copy(h, by)
}

package httplock

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"

	"github.com/redlatch/redlatch/guard"
)

// Answer stands between one handler and its client. It holds the status back until a body follows, it is flushed, or
// the handler has returned, so that a lock that is lost before then can still be answered. One goroutine at a time may
// use it. An adapter whose framework has a ResponseWriter of its own calls its methods, another adapter uses Writer.
type Answer struct {
	http.ResponseWriter
	ctx    context.Context //nolint:containedctx // lives for one request; nil before the handler starts
	before http.Header     // set by outer layers
	writer http.ResponseWriter

	status  int         // set by the handler, and held back; 0 for none
	header  http.Header // at that time: the handler sets trailers later
	sent    bool        // an answer was begun, or the connection hijacked
	refused error       // the loss because of which an answer was not begun

	captures bool   // hold the whole answer back until finish, unless it is too long, flushed or hijacked
	body     []byte // held back
	implied  int    // the status of a handler that wrote nothing; 0 for 200
}

// NewAnswer returns the Answer to a request. It writes to w.
func NewAnswer(w http.ResponseWriter) *Answer { return &Answer{ResponseWriter: w} }

// start notes the context of the lease and the headers of outer layers. Call it when the handler starts.
func (a *Answer) start(ctx context.Context) {
	a.ctx, a.before = ctx, a.Header().Clone()
}

// Written reports whether the handler has answered or hijacked the connection.
func (a *Answer) Written() bool { return a.sent || a.status != 0 }

// Sent reports whether a part of the answer may have reached the client.
func (a *Answer) Sent() bool { return a.sent }

// Failed reports whether the handler itself has answered an error.
func (a *Answer) Failed() bool { return a.status >= http.StatusBadRequest }

// WentPast notes that the handler answered status through the original.
func (a *Answer) WentPast(status int) { a.status, a.sent, a.captures = status, true, false }

// WriteHeader holds status back, unless it is informational.
func (a *Answer) WriteHeader(status int) {
	switch {
	case status < 200 && status != http.StatusSwitchingProtocols, status > 999: // the original panics below 100, and above 999
		a.ResponseWriter.WriteHeader(status)
	case a.captures && a.status != 0: // a second status
	case a.Written(), // a second status: the original logs it
		status == http.StatusSwitchingProtocols: // the handler may hijack the connection through Unwrap
		if a.begin() == nil {
			a.ResponseWriter.WriteHeader(status)
		}
	default:
		a.status, a.header = status, a.Header().Clone()
	}
}

// Write sends p, after the part that was held back.
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

// WriteString is Write for a string.
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

// holds reports whether n more bytes are held back. An answer that is too long to keep is sent.
func (a *Answer) holds(n int) bool {
	a.captures = a.captures && len(a.body)+n <= maxKeptBody
	if a.captures {
		a.WriteHeader(http.StatusOK) // the first status counts
	}
	return a.captures
}

// FlushBy flushes by the original's Flush. A flush begins the answer, unless the original cannot flush.
func (a *Answer) FlushBy(original func() error) error {
	if err := a.mayBegin(); err != nil {
		return err
	}
	a.send()
	err := original()
	a.sent = a.sent || !errors.Is(err, http.ErrNotSupported)
	return err
}

// begin sends the held part. If it returns an error, nothing may be sent.
func (a *Answer) begin() error {
	if err := a.mayBegin(); err != nil {
		return err
	}
	a.send()
	a.sent = true
	return nil
}

// mayBegin returns the loss of the lock if no answer may begin. An error of the handler may. It ends captures.
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

// loss returns the loss of any lock of the handler. A lock that the handler released before it answered is not lost.
func (a *Answer) loss() error {
	ended := []error{context.Cause(a.ctx)}
	if lease, ok := guard.FromContext(a.ctx); ok {
		ended = append(ended, lease.Err()) // measures by the clock; the watchdog ends the context
	}
	for _, err := range ended {
		if errors.Is(err, guard.ErrLost) && !errors.Is(err, guard.ErrReleased) {
			return err
		}
	}
	return nil
}

// send sends the held status, with the headers of that time.
func (a *Answer) send() {
	if a.sent || a.status == 0 {
		return
	}
	a.sent = true
	h := a.Header()
	later := maps.Clone(h)
	replace(h, a.header)
	a.sendHeld()
	replace(h, later)
}

func (a *Answer) sendHeld() {
	a.ResponseWriter.WriteHeader(a.status)
	if len(a.body) > 0 {
		_, _ = a.ResponseWriter.Write(a.body) // the next write fails, too
	}
}

// finish ends the answer of a handler that has returned. err is the error of its lock; finish returns it, or the loss
// for which an answer was refused. If nothing was sent, it removes the headers of the handler.
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

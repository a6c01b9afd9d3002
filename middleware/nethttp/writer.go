package guardhttp

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/redlatch/redlatch/guard"
)

// tracker stands between a handler and the client, so that a lock which is lost before
// anything was sent can still be answered. It holds a status back until a body follows or
// the handler is done, and sends no success that began after the loss. It is used by one
// request at a time.
type tracker struct {
	http.ResponseWriter
	ctx      context.Context //nolint:containedctx // lives for one request
	encoding []string        // Content-Encoding, as outer layers had set it

	status  int         // set by the handler, and held back
	header  http.Header // as it was then: what is set later belongs to the trailers
	sent    bool        // an answer was begun, or the connection taken over
	refused error       // the loss because of which an answer was not begun
}

const contentEncoding = "Content-Encoding"

// newTracker tracks the answer of a handler that runs under the lock of ctx.
func newTracker(ctx context.Context, w http.ResponseWriter) *tracker {
	return &tracker{ResponseWriter: w, ctx: ctx, encoding: w.Header()[contentEncoding]}
}

// Unwrap is what http.ResponseController looks for.
func (t *tracker) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// Written says whether the handler has answered, or taken the connection over.
func (t *tracker) Written() bool { return t.sent || t.status != 0 }

func (t *tracker) WriteHeader(status int) {
	switch {
	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols,
		status < 100, status > 999: // the original panics
		t.ResponseWriter.WriteHeader(status)
	case t.Written(), // one too many: the original says so in its log
		status == http.StatusSwitchingProtocols: // what follows may go past us, see Unwrap
		if t.begin() == nil {
			t.ResponseWriter.WriteHeader(status)
		}
	default:
		t.status, t.header = status, t.Header().Clone()
	}
}

func (t *tracker) Write(p []byte) (int, error) {
	if err := t.begin(); err != nil {
		return 0, err
	}
	return t.ResponseWriter.Write(p)
}

func (t *tracker) WriteString(s string) (int, error) {
	if err := t.begin(); err != nil {
		return 0, err
	}
	return io.WriteString(t.ResponseWriter, s)
}

// FlushError flushes through http.ResponseController, which finds it here first: a
// Flush that it found further in by Unwrap would go unnoticed.
func (t *tracker) FlushError() error {
	if err := t.mayBegin(); err != nil {
		return err
	}
	t.send()
	err := http.NewResponseController(t.ResponseWriter).Flush()
	t.sent = t.sent || !errors.Is(err, http.ErrNotSupported)
	return err
}

// begin is called before anything is sent. With an error, nothing is to be sent.
func (t *tracker) begin() error {
	if err := t.mayBegin(); err != nil {
		return err
	}
	t.send()
	t.sent = true
	return nil
}

// mayBegin says why no answer may be begun any more. The handler's own errors may.
func (t *tracker) mayBegin() error {
	if t.sent || t.status >= http.StatusBadRequest {
		return nil
	}
	if lease, ok := guard.FromContext(t.ctx); ok && t.refused == nil {
		// A handler may give the lock back before it answers.
		if err := lease.Err(); !errors.Is(err, guard.ErrReleased) {
			t.refused = err
		}
	}
	return t.refused
}

// send sends the status that is held back.
func (t *tracker) send() {
	if t.sent || t.status == 0 {
		return
	}
	t.sent = true
	h := t.Header()
	if maps.EqualFunc(h, t.header, slices.Equal) {
		t.ResponseWriter.WriteHeader(t.status)
		return
	}
	later := maps.Clone(h)
	clear(h)
	maps.Copy(h, t.header)
	t.ResponseWriter.WriteHeader(t.status)
	clear(h)
	maps.Copy(h, later)
}

// finish ends the answer of a handler that has returned. err is what its lock ended with,
// and finish gives that error as far as it is to be handled, and the w to do so with.
func (t *tracker) finish(err error) (w http.ResponseWriter, _ error) {
	if err == nil {
		err = t.refused
	}
	if err == nil || t.status >= http.StatusBadRequest {
		t.send()
	}
	if err == nil {
		return nil, nil
	}
	if t.sent {
		return t.writer(), err
	}
	// Of an answer that was not sent, its encoding must not remain.
	if t.encoding == nil {
		delete(t.Header(), contentEncoding)
	} else {
		t.Header()[contentEncoding] = t.encoding
	}
	return t.ResponseWriter, err
}

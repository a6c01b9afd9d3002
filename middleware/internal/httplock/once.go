package httplock

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// maxBody is how long the body of a request with Once is at most, in bytes.
const maxBody = 1 << 20

// MaxResult has guard.Once keep the longest answer that is kept.
var MaxResult = guard.MaxResult(maxKeptBody + maxHead)

// serveOnce is Serve for a Rule with Once.
func (l *Route) serveOnce(result *Result, r *http.Request, name string, next func(context.Context) error) {
	a := result.Answer
	body, err := takeBody(a.ResponseWriter, r)
	if err != nil {
		result.Err = err
		return
	}
	work := func(held context.Context) (*Kept, error) {
		a.start(held)
		a.captures = true
		if err := next(held); err != nil {
			return nil, err
		}
		kept, ok := a.keep(r.Method)
		if !ok {
			return nil, locking.ErrFailed
		}
		return kept, nil
	}
	kept, replayed, own, err := locking.RunOnce(r.Context(), l.Locker, name, r, work, guard.Detached(), encoding,
		// All in which requests differ, except headers: a retry has other headers. The route is the program's: another
		// version may call it by another name.
		guard.Fingerprint([]byte(r.Method), []byte(r.URL.Path), []byte(r.URL.RawQuery), body))
	switch {
	case replayed:
		result.Replay = kept
	case a.ctx == nil && errors.As(err, new(*guard.BusyError)):
		err = &inProgressError{err}
	}
	result.Own, result.Err = own, err
}

// takeBody reads the body of r, and gives it back to r.
func takeBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, &bodyError{err}
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(body), r.Body}
	return body, nil
}

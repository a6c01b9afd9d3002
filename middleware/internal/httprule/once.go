package httprule

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/answer"
	"github.com/redlatch/redlatch/middleware/internal/locking"
	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

// maxBody is how long the body of a request with Once is at most, in bytes.
const maxBody = 1 << 20

// Once has requests of one key served once, and the answer given to requests that ask again.
func (r Rule[S, H]) Once(keep time.Duration, opts []guard.OnceOption) Rule[S, H] {
	r.Rule = r.Rule.Once(keep, append([]guard.OnceOption{answer.MaxResult()}, opts...))
	return r
}

// SharedAnswer allows a key of Once that names no caller.
func (r Rule[S, H]) SharedAnswer() Rule[S, H] {
	r.Rule = r.Rule.SharedAnswer()
	return r
}

// serveOnce is Serve for a Rule with Once.
func (l *Locker[S, H]) serveOnce(ctx context.Context, c Call[S], next func(context.Context, *answer.Answer) error) (given *answer.Answer, own, err error) {
	body, err := takeBody(c.Replay, c.Request)
	if err != nil {
		return nil, nil, err
	}
	work := func(held context.Context) (*answer.Kept, error) {
		given = answer.New(held, c.To)
		given.Capture()
		if err := next(held, given); err != nil {
			return nil, err
		}
		kept, ok := given.Keep(c.Request.Method)
		if !ok {
			return nil, locking.ErrFailed
		}
		return kept, nil
	}
	kept, replayed, own, err := locking.RunOnce(ctx, l.Locker, c.Route, c.Src, work,
		guard.Detached(), answer.Encoding(), fingerprint(c, body))
	switch {
	case replayed:
		kept.Replay(c.Replay)
	case given != nil:
		err = given.Finish(err)
	case errors.As(err, new(*guard.BusyError)):
		err = &outcome.InProgressError{Err: err}
	}
	return given, own, err
}

// fingerprint is of all in which requests differ, except headers: a retry has other headers. The route is the program's: another
// version may call it by another name.
func fingerprint[S any](c Call[S], body []byte) guard.OnceOption {
	r := c.Request
	return guard.Fingerprint([]byte(r.Method), []byte(r.URL.Path), []byte(r.URL.RawQuery), body)
}

// takeBody reads the body of r, and gives it back to r.
func takeBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, &outcome.BodyError{Err: err}
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(body), r.Body}
	return body, nil
}

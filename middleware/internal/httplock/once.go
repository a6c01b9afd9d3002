package httplock

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// maxBody is the longest body of a request with Once, in bytes.
const maxBody = 1 << 20

// MaxResult allows guard.Once a record of the longest answer.
var MaxResult = guard.MaxResult(maxKeptBody + maxHead)

// serveOnce is Serve for a Rule with Once.
func (l *Route) serveOnce(result *Result, r *http.Request, next func(context.Context) error) {
	a := result.Answer
	fingerprint, err := l.fingerprint(a.ResponseWriter, r)
	if err != nil {
		result.Err = err
		return
	}
	work := func(held context.Context) (*Kept, error) {
		a.start(held)
		a.captures = true
		if result.Own = next(held); result.Own != nil && !a.Written() {
			return nil, result.Own // the framework answers it
		}
		kept, ok := a.keep(r.Method, l.kept)
		if !ok {
			return nil, locking.ErrFailed
		}
		return kept, nil
	}
	kept, replayed, _, err := locking.RunOnce(r.Context(), l.Locker, result.name, r, work,
		guard.Detached(), guard.Encoding(marshal, l.kept.unmarshal), fingerprint)
	if replayed {
		result.kept = kept
	}
	result.Err = err
}

// fingerprint covers method, path, query and body. A retry has other headers, and another version of the program may
// have another name for the route.
func (l *Route) fingerprint(w http.ResponseWriter, r *http.Request) (guard.OnceOption, error) {
	body, err := takeBody(w, r)
	if err != nil {
		return nil, &bodyError{err}
	}
	if l.rule.Fingerprint == nil {
		return guard.Fingerprint([]byte(r.Method), []byte(r.URL.Path), []byte(r.URL.RawQuery), body), nil
	}
	own, err := l.rule.Fingerprint(r)
	if err != nil {
		return nil, &guard.KeyError{Reason: "FingerprintFunc", Err: err}
	}
	giveBody(r, body) // which Fingerprint may have read
	return guard.Fingerprint([]byte(r.Method), []byte(r.URL.Path), own), nil
}

// takeBody reads the body of r, and lets r have it again.
func takeBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	giveBody(r, body)
	return body, err
}

// giveBody makes r's Body begin again.
func giveBody(r *http.Request, body []byte) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(body), r.Body}
}

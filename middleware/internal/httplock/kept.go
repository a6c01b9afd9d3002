package httplock

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
)

const (
	maxKeptBody = 256 << 10 // in bytes: the longest body of an answer that is kept
	maxHead     = 64 << 10  // in bytes: room for the status and the headers
)

// headers are the names of headers, as http.CanonicalHeaderKey has them.
type headers []string

// keptHeaders describe the body, and how a client may use it. Other headers are for the client of the first request, or
// are set again for each.
var keptHeaders = headers{
	"Content-Type", "Content-Language", "Content-Encoding", "Content-Disposition", "Content-Location", "Location", "Etag",
	"Last-Modified", "Link", "Vary", "Retry-After", "Cache-Control", "Content-Security-Policy", "X-Content-Type-Options",
}

// notKeepable are headers of a connection or a message.
var notKeepable = headers{
	"Connection", "Content-Length", "Date", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	replayed,
}

// replayed is the header of an answer that is repeated.
const replayed = "Idempotent-Replayed"

// keepable returns keptHeaders and more, or an error that names a header which cannot be kept.
func keepable(more []string) (headers, error) {
	all := slices.Clone(keptHeaders)
	for _, name := range more {
		canonical := http.CanonicalHeaderKey(name)
		if !isToken(name) || slices.Contains(notKeepable, canonical) {
			return nil, fmt.Errorf("%q of Headers is no header that an answer keeps", name)
		}
		all = append(all, canonical)
	}
	return all, nil
}

// notKept are statuses that depend on the moment, the caller or the headers of the request: a retry may get another
// answer.
var notKept = []int{
	http.StatusPartialContent, http.StatusNotModified,
	http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusConflict,
	http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable, http.StatusTooEarly, http.StatusTooManyRequests,
}

// Kept is an answer to repeat.
type Kept struct {
	Status int
	Header http.Header
	body   []byte
	whole  bool
}

// Implies notes the status that the framework sends if the handler writes nothing.
func (a *Answer) Implies(status int) { a.implied = status }

// keep returns the answer to a request of method, once its handler has returned. ok is false if a retry may get another
// answer.
func (a *Answer) keep(method string, names headers) (k *Kept, ok bool) {
	status := cmp.Or(a.status, a.implied, http.StatusOK)
	if status < 200 || status > 499 || slices.Contains(notKept, status) {
		return nil, false
	}
	header := a.header
	if a.status == 0 {
		header = a.Header()
	}
	k = &Kept{Status: status, Header: http.Header{}, body: a.body, whole: a.captures && !a.brokeOff(header, method)}
	for _, name := range names {
		values, set := header[name]
		outer, before := a.before[name]
		if set && (!before || !slices.Equal(values, outer)) {
			k.Header[name] = slices.Clone(values)
		}
	}
	return k, true
}

// brokeOff reports whether the body has another length than its Content-Length: the client sees an error.
func (a *Answer) brokeOff(header http.Header, method string) bool {
	length, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
	return err == nil && length != int64(len(a.body)) && method != http.MethodHead
}

// Replay sends the answer again.
func (k *Kept) Replay(w http.ResponseWriter) {
	for name, values := range k.Header {
		w.Header()[name] = values
	}
	w.Header().Set(replayed, "true")
	w.WriteHeader(k.Status)
	if len(k.body) > 0 {
		_, _ = w.Write(k.body) // the client may be gone
	}
}

var errNotWhole = fmt.Errorf("the answer was flushed, hijacked, has another length than its Content-Length, or more than %d bytes", maxKeptBody)

// marshal writes a *Kept for guard.Once, as an HTTP response.
func marshal(v any) ([]byte, error) {
	k, ok := v.(*Kept)
	if !ok || !k.whole {
		return nil, errNotWhole
	}
	header := http.Header{}
	for name, values := range k.Header {
		if header[name] = values; len(values) == 0 { // the handler switched the header off
			header[name] = []string{""}
		}
	}
	written := http.Response{
		StatusCode: k.Status, ProtoMajor: 1, ProtoMinor: 1, Header: header,
		ContentLength: int64(len(k.body)), Body: io.NopCloser(bytes.NewReader(k.body)),
	}
	var b bytes.Buffer
	err := written.Write(&b)
	return b.Bytes(), err
}

// unmarshal reads what marshal wrote.
func (names headers) unmarshal(data []byte, v any) error {
	to, ok := v.(**Kept)
	if !ok {
		return errors.New("not an answer")
	}
	read, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(data)), nil)
	if err != nil {
		return err
	}
	defer func() { _ = read.Body.Close() }()
	body, err := io.ReadAll(read.Body)
	switch {
	case err != nil:
		return err
	case read.StatusCode < 200, read.StatusCode > 499:
		return errors.New("not the status of a kept answer")
	}
	for name, values := range read.Header {
		switch {
		case !slices.Contains(names, name): // another version kept it
			delete(read.Header, name)
		case slices.Equal(values, []string{""}):
			read.Header[name] = nil
		}
	}
	*to = &Kept{Status: read.StatusCode, Header: read.Header, body: body, whole: true}
	return nil
}

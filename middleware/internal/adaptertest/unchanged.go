package adaptertest

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// unchanged checks over a connection that what a route answers, how it fails and how it
// panics is the same with the lock around it and without.
func unchanged(t *testing.T, build Build) {
	g := guardtest.NewMemoryGuard(t)
	for name, s := range map[string]Setup{
		"nothing":       {Work: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Own", "1") }},
		"body not read": {Work: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }},
		"answer": {Work: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Own", "1")
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, "short and stout")
		}},
		"stream": {Work: func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				_, _ = io.WriteString(w, "part\n")
				_ = http.NewResponseController(w).Flush()
			}
		}},
		"hijack": {Work: func(w http.ResponseWriter, _ *http.Request) {
			conn, buf, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			_, _ = buf.WriteString("HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nhi")
			_ = buf.Flush()
			_ = conn.Close()
		}},
		"error":                  {Work: func(http.ResponseWriter, *http.Request) {}, Fail: errors.New("own")},
		"error after the answer": {Work: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }, Fail: errors.New("own")},
		"panic":                  {Work: func(http.ResponseWriter, *http.Request) { panic("own") }},
		"panic after the answer": {Work: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "begun"); panic("own") }},
		"abort":                  {Work: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(name, func(t *testing.T) {
			s.Guard, s.Template = g, "unchanged:{id}"
			ask := func() answer {
				r := pay("7")
				if name == "body not read" {
					r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", 1<<16)))
				}
				return sendOverHTTP(t, build(t, s), 1, r)
			}
			with := ask()
			s.Unguarded = true
			without := ask()
			with.logged, without.logged = "", "" // a panic's stack
			assert.Equal(t, without, with)
			// A client may have its answer before the handler has returned.
			lease, err := g.Acquire(t.Context(), guard.Key("unchanged:7"), guard.Wait(patience))
			if assert.NoError(t, err) {
				assert.NoError(t, lease.Release(t.Context()))
			}
		})
	}
}

// answer is what a client sees.
type answer struct {
	status int
	header http.Header
	body   string
	broken bool   // the connection ended early
	logged string // by the server
}

// sendOverHTTP sends r to h over a connection of an HTTP version.
func sendOverHTTP(t *testing.T, h http.Handler, version int, r *http.Request) answer {
	t.Helper()
	var logs strings.Builder
	ended := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		h.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(&logs, "", 0)
	server.EnableHTTP2 = version == 2
	if version == 2 {
		server.StartTLS()
	} else {
		server.Start()
	}
	defer server.Close()
	client := server.Client()
	client.Transport.(*http.Transport).DisableCompression = true
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	out, err := http.NewRequestWithContext(t.Context(), r.Method, server.URL+r.URL.RequestURI(), r.Body)
	require.NoError(t, err)
	out.Header = r.Header
	res, err := client.Do(out)
	if err != nil {
		return answer{broken: true}
	}
	defer func() { _ = res.Body.Close() }()
	require.Equal(t, version, res.ProtoMajor)
	body, err := io.ReadAll(res.Body)
	<-ended // Close does not wait for the handler of a connection that was hijacked
	server.Close()
	res.Header.Del("Date")
	return answer{res.StatusCode, res.Header, string(body), err != nil, logs.String()}
}

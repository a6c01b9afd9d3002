package adaptertest

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
)

// unchanged checks over a connection that what a route answers, how it fails and how it
// panics is the same with the lock around it and without.
func unchanged(t *testing.T, build Build) {
	g := guardOn(t, redistest.Shared(t))
	for name, s := range map[string]Setup{
		"nothing": {Work: func(http.ResponseWriter, *http.Request) {}},
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
		"error":                   {Work: func(http.ResponseWriter, *http.Request) {}, Fail: errors.New("own")},
		"error behind the answer": {Work: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }, Fail: errors.New("own")},
		"panic":                   {Work: func(http.ResponseWriter, *http.Request) { panic("own") }},
		"panic behind the answer": {Work: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "begun"); panic("own") }},
		"abort":                   {Work: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(name, func(t *testing.T) {
			s.Guard, s.Template = g, "unchanged:{id}"
			with := exchange(t, build(t, s))
			s.Unguarded = true
			assert.Equal(t, exchange(t, build(t, s)), with)
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
	broken bool // the connection ended early
}

func exchange(t *testing.T, h http.Handler) answer {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	defer server.Close()
	res, err := server.Client().Post(server.URL+"/orders/7/pay", "text/plain", nil)
	if err != nil {
		return answer{broken: true}
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	res.Header.Del("Date")
	return answer{res.StatusCode, res.Header, string(body), err != nil}
}

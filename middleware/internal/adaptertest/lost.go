package adaptertest

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
)

// lossRow is what a handler does, given how to lose its lock, and what the client gets.
type lossRow struct {
	name      string
	work      func(t *testing.T, w http.ResponseWriter, lose func())
	status    int
	body      string // "" for that of lock_lost
	header    string // X-Own
	onlyHTTP1 bool
}

var lossRows = []lossRow{
	{"nothing", func(_ *testing.T, w http.ResponseWriter, lose func()) {
		w.Header().Set("Content-Length", "1000")
		lose()
	}, 500, "", "", false},
	{"what a success would have said", func(_ *testing.T, w http.ResponseWriter, lose func()) {
		for _, name := range successHeaders {
			w.Header().Set(name, "own")
		}
		w.Header().Set("X-Outer", "inner")
		w.WriteHeader(http.StatusCreated)
		lose()
	}, 500, "", "", false},
	{"status before, body behind", func(t *testing.T, w http.ResponseWriter, lose func()) {
		w.WriteHeader(http.StatusCreated)
		lose()
		_, err := io.WriteString(w, "late")
		assert.ErrorIs(t, err, guard.ErrLost)
	}, 500, "", "", false},
	{"body behind, its context ignored", func(t *testing.T, w http.ResponseWriter, lose func()) {
		lose()
		_, err := w.Write([]byte("late"))
		assert.ErrorIs(t, err, guard.ErrLost)
		_, err = io.Copy(w, onlyReader{strings.NewReader("late")})
		assert.ErrorIs(t, err, guard.ErrLost)
	}, 500, "", "", false},
	{"flush behind", func(_ *testing.T, w http.ResponseWriter, lose func()) {
		w.WriteHeader(http.StatusCreated)
		lose()
		w.(http.Flusher).Flush()
	}, 500, "", "", false},
	{"hijack behind", func(t *testing.T, w http.ResponseWriter, lose func()) {
		lose()
		_, _, err := w.(http.Hijacker).Hijack()
		assert.ErrorIs(t, err, guard.ErrLost)
	}, 500, "", "", true},
	{"own error behind", func(_ *testing.T, w http.ResponseWriter, lose func()) {
		lose()
		http.Error(w, "own", http.StatusServiceUnavailable)
	}, 503, "own\n", "", false},
	{"status and body before", func(_ *testing.T, w http.ResponseWriter, lose func()) {
		w.Header().Set("X-Own", "1")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "in time")
		lose()
	}, 201, "in time", "1", false},
	{"stream before", func(_ *testing.T, w http.ResponseWriter, lose func()) {
		for _, part := range []string{"first ", "second"} {
			_, _ = io.WriteString(w, part)
			w.(http.Flusher).Flush()
		}
		lose()
	}, 200, "first second", "", false},
	{"hijack before", func(t *testing.T, w http.ResponseWriter, lose func()) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		_, _ = rw.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
		assert.NoError(t, rw.Flush())
		assert.NoError(t, conn.Close())
		lose()
	}, 200, "hi", "", true},
}

// successHeaders say something about an answer that is not given.
var successHeaders = []string{
	"Set-Cookie", "Location", "Content-Range", "Content-Disposition", "Content-Language", "Content-Location", "Etag", "Last-Modified", "X-Own",
}

// onlyReader hides what else a reader can do.
type onlyReader struct{ io.Reader }

// lost checks that a lost lock is never a success, over HTTP/1 with an OnError of the program, and over HTTP/2 without.
func lost(t *testing.T, build Build) {
	for _, row := range lossRows {
		for _, version := range []int{1, 2} {
			if version == 2 && row.onlyHTTP1 {
				continue
			}
			t.Run(row.name+", HTTP/"+string(rune('0'+version)), func(t *testing.T) {
				t.Parallel()
				b := NewBench(t)
				onError := ignore
				if version == 2 {
					onError = nil
				}
				h := build(t, Setup{Guard: b.Guard, Template: "order:{id}", OnError: onError, Work: func(w http.ResponseWriter, r *http.Request) {
					row.work(t, w, func() { b.Lose(r.Context(), "order:7") }) //nolint:contextcheck // the request brings it
				}})
				res := sendOverHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("X-Outer", "kept")
					h.ServeHTTP(w, r)
				}), version, pay("7"))
				assert.Equal(t, row.status, res.status)
				if row.body == "" {
					assert.Contains(t, res.body, `"code":"lock_lost"`)
					assert.Equal(t, "application/problem+json", res.header.Get("Content-Type"))
					assert.Empty(t, res.header.Get("Content-Encoding"))
					for _, name := range successHeaders {
						assert.Empty(t, res.header.Get(name), name)
					}
				} else {
					assert.Equal(t, strings.TrimPrefix(row.body, " "), res.body)
				}
				assert.Equal(t, row.header, res.header.Get("X-Own"))
				if !strings.HasPrefix(row.name, "hijack before") {
					assert.Equal(t, "kept", res.header.Get("X-Outer"))
				}
				assert.Empty(t, res.logged, "by the server")
			})
		}
	}
}

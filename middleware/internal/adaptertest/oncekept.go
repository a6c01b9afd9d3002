package adaptertest

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

func onceKept(t *testing.T, build Build) {
	for status, kept := range map[int]bool{201: true, 422: true, 409: false, 502: false} {
		g := guardtest.NewMemoryGuard(t)
		route := newOnceRoute(t, build, Setup{Guard: g, Once: []guard.OnceOption{guard.AtMostOnce()}, Work: func(w http.ResponseWriter, r *http.Request) {
			_, began := guard.Interrupted(r.Context())
			assert.False(t, began, "what failed is known to have failed")
			w.WriteHeader(status)
		}})
		for range 2 {
			assert.Equal(t, status, serve(route, onceRequest("")).Code)
		}
		assert.Equal(t, kept, route.runs.Load() == 1, "%d: %d runs", status, route.runs.Load())
		assertFree(t, g, onceKey)
	}
	t.Run("an answer that the handler sent before it failed", func(t *testing.T) {
		t.Parallel()
		route := newOnceRoute(t, build, Setup{Work: created, Fail: errOwn})
		assertReplay(t, serve(route, onceRequest("7 EUR")), serve(route, onceRequest("7 EUR")))
		assert.EqualValues(t, 1, route.runs.Load())
	})
	t.Run("not an error of the handler", func(t *testing.T) {
		t.Parallel()
		route := newOnceRoute(t, build, Setup{Fail: errOwn, Work: func(http.ResponseWriter, *http.Request) {}})
		first := serve(route, onceRequest(""))
		second := serve(route, onceRequest(""))
		assert.Equal(t, first.Code, second.Code)
		if first.Code >= http.StatusInternalServerError { // the framework has handlers that return errors
			assert.EqualValues(t, 2, route.runs.Load())
		}
	})
}

const tooLong = 256<<10 + 1

func onceNotKept(t *testing.T, build Build) {
	for name, work := range map[string]http.HandlerFunc{
		"one write": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("a", tooLong)) },
		"flushed": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "begun")
			_ = http.NewResponseController(w).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			route := newOnceRoute(t, build, Setup{Work: work})
			first := serve(route, onceRequest(""))
			assert.Equal(t, http.StatusOK, first.Code)
			if name == "flushed" {
				assert.True(t, first.Flushed)
				assert.Equal(t, "begun", first.Body.String())
			} else {
				assert.Equal(t, tooLong, first.Body.Len())
			}
			rec := serve(route, onceRequest(""))
			assertProblem(t, rec, http.StatusConflict, "idempotency_result_not_kept")
			assert.Empty(t, rec.Header().Get("Retry-After"))
			assert.EqualValues(t, 1, route.runs.Load())
		})
	}
	t.Run("a failure sent in parts is a failure", func(t *testing.T) {
		t.Parallel()
		route := newOnceRoute(t, build, Setup{Work: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_ = http.NewResponseController(w).Flush()
		}})
		for range 2 {
			assert.Equal(t, http.StatusBadGateway, serve(route, onceRequest("")).Code)
		}
		assert.EqualValues(t, 2, route.runs.Load())
	})
	t.Run("hijacked", func(t *testing.T) {
		t.Parallel()
		route := newOnceRoute(t, build, Setup{Work: func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if !assert.NoError(t, err) {
				return
			}
			_, _ = rw.WriteString("HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
			assert.NoError(t, rw.Flush())
			assert.NoError(t, conn.Close())
		}})
		served := make(chan struct{}, 2)
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { route.ServeHTTP(w, r); served <- struct{}{} })
		assert.Equal(t, "hi", sendOverHTTP(t, h, 1, onceRequest("")).body)
		<-served
		res := sendOverHTTP(t, h, 1, onceRequest(""))
		assert.Equal(t, http.StatusConflict, res.status)
		assert.Contains(t, res.body, "idempotency_result_not_kept")
	})
}

func onceBodies(t *testing.T, build Build) {
	const most = 1 << 20
	var read atomic.Int64
	route := newOnceRoute(t, build, Setup{Work: func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		assert.NoError(t, err)
		read.Store(n)
		w.WriteHeader(http.StatusNoContent)
	}})
	large := strings.Repeat("a", most)
	assertReplay(t, serve(route, onceRequest(large)), serve(route, onceRequest(large)))
	assert.EqualValues(t, most, read.Load())
	assert.Equal(t, http.StatusUnprocessableEntity, serve(route, onceRequest(large[1:]+"b")).Code)

	assertProblem(t, serve(route, onceRequest(large+"a")), http.StatusRequestEntityTooLarge, "body_too_large")
	broken := onceRequest("")
	broken.Body = io.NopCloser(io.MultiReader(strings.NewReader("7"), brokenReader{}))
	assertProblem(t, serve(route, broken), http.StatusBadRequest, "body_unreadable")
	assert.EqualValues(t, 1, route.runs.Load())
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("secret") }

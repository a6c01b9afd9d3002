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

func onceHeaders(t *testing.T, build Build) {
	kept := []string{
		"Content-Type", "Content-Language", "Content-Encoding", "Content-Disposition", "Content-Location", "Location", "Etag",
		"Last-Modified", "Link", "Vary", "Retry-After", "Cache-Control", "Content-Security-Policy", "X-Content-Type-Options",
	}
	dropped := []string{
		"Set-Cookie", "Authorization", "WWW-Authenticate", "Connection", "Keep-Alive", "Proxy-Authenticate", "Te", "Trailer",
		"Upgrade", "X-Own",
	}
	route := newOnceRoute(t, build, Setup{Guard: guardtest.NewMemoryGuard(t), Work: func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range append(dropped, kept...) {
			if w.Header().Get(name) == "" { // the outer layer's stays
				w.Header().Set(name, "inner")
			}
		}
		_, _ = io.WriteString(w, "body")
		w.Header().Set("Content-Type", "too late")
	}})
	outer := ""
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", outer)
		w.Header().Set("Content-Language", outer)
		route.ServeHTTP(w, r)
	})
	outer = "first"
	first := serve(h, onceRequest(""))
	assert.Equal(t, "inner", first.Header().Get("X-Own"))
	outer = "second"
	second := serve(h, onceRequest(""))
	want := http.Header{"Idempotent-Replayed": {"true"}}
	for _, name := range kept {
		want.Set(name, "inner")
	}
	want.Set("Set-Cookie", "second")
	want.Set("Content-Language", "second")
	assert.Equal(t, want, second.Header())
}

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
	t.Run("not an error of the handler", func(t *testing.T) {
		t.Parallel()
		route := newOnceRoute(t, build, Setup{
			Guard: guardtest.NewMemoryGuard(t), Fail: errors.New("own"), Work: func(http.ResponseWriter, *http.Request) {},
		})
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
			recorder := &guardtest.Recorder{}
			route := newOnceRoute(t, build, Setup{Guard: guardtest.NewMemoryGuard(t, guard.Observe(recorder)), Work: work})
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
	t.Run("longer than the rule says", func(t *testing.T) {
		t.Parallel()
		route := newOnceRoute(t, build, Setup{Guard: guardtest.NewMemoryGuard(t), Work: created, Once: []guard.OnceOption{guard.MaxResult(10)}})
		assert.Equal(t, http.StatusCreated, serve(route, onceRequest("")).Code)
		assertProblem(t, serve(route, onceRequest("")), http.StatusConflict, "idempotency_result_not_kept")
	})
	t.Run("a failure sent in parts is a failure", func(t *testing.T) {
		t.Parallel()
		route := newOnceRoute(t, build, Setup{Guard: guardtest.NewMemoryGuard(t), Work: func(w http.ResponseWriter, _ *http.Request) {
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
		route := newOnceRoute(t, build, Setup{Guard: guardtest.NewMemoryGuard(t), Work: func(w http.ResponseWriter, _ *http.Request) {
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
	g := guardtest.NewMemoryGuard(t)
	var read atomic.Int64
	route := newOnceRoute(t, build, Setup{Guard: g, Work: func(w http.ResponseWriter, r *http.Request) {
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

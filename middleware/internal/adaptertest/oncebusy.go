package adaptertest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
)

func onceBusy(t *testing.T, build Build) {
	for status, s := range map[int]Setup{
		http.StatusConflict: {Options: []guard.LockOption{guard.NoWait()}},
		http.StatusLocked:   {Options: []guard.LockOption{guard.Wait(time.Millisecond)}, BusyStatus: http.StatusLocked},
	} {
		b := NewBench(t)
		b.Hold(t, onceKey)
		s.Guard, s.Work = b.Guard, created
		route := newOnceRoute(t, build, s)
		rec := serve(route, onceRequest(""))
		assertProblem(t, rec, status, "idempotency_in_progress")
		assert.Regexp(t, `^[1-9][0-9]*$`, rec.Header().Get("Retry-After"))
		assert.Zero(t, route.runs.Load())
	}
	t.Run("a request that waits gets the answer", func(t *testing.T) {
		t.Parallel()
		b := NewBench(t)
		began, end := make(chan struct{}), make(chan struct{})
		route := newOnceRoute(t, build, Setup{Guard: b.Guard, Options: []guard.LockOption{guard.Wait(patience)}, Work: func(w http.ResponseWriter, r *http.Request) {
			<-b.waits.begun
			close(began)
			<-end
			created(w, r)
		}})
		var first, second *httptest.ResponseRecorder
		var wg sync.WaitGroup
		wg.Go(func() { first = serve(route, onceRequest("")) })
		<-began
		wg.Go(func() { second = serve(route, onceRequest("")) })
		<-b.waits.begun
		close(end)
		wg.Wait()
		assertReplay(t, first, second)
		assert.EqualValues(t, 1, route.runs.Load())
	})
}

func onceUnknown(t *testing.T, build Build) {
	b := NewBench(t)
	route := newOnceRoute(t, build, Setup{Guard: b.Guard, Once: []guard.OnceOption{guard.AtMostOnce()}, Work: func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}})
	func() {
		defer func() { _ = recover() }()
		serve(route, onceRequest(""))
	}()
	rec := serve(route, onceRequest(""))
	assertProblem(t, rec, http.StatusConflict, "idempotency_outcome_unknown")
	assert.Empty(t, rec.Header().Get("Retry-After"))
	assert.EqualValues(t, 1, route.runs.Load())

	found, err := b.Forget(t.Context(), guard.Key(onceKey))
	assert.True(t, found)
	assert.NoError(t, err)
}

func onceLost(t *testing.T, build Build) {
	for name, work := range map[string]func(w http.ResponseWriter, lose func()){
		"before the answer": func(w http.ResponseWriter, lose func()) { lose(); _, _ = io.WriteString(w, "late") },
		"after the answer":  func(w http.ResponseWriter, lose func()) { _, _ = io.WriteString(w, "early"); lose() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := NewBench(t)
			route := newOnceRoute(t, build, Setup{Guard: b.Guard, Work: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "/orders/7")
				work(w, func() { b.Lose(r.Context(), onceKey) }) //nolint:contextcheck // the request brings it
			}})
			rec := serve(route, onceRequest(""))
			assertProblem(t, rec, http.StatusInternalServerError, "lock_lost")
			assert.Empty(t, rec.Header().Get("Location"))
		})
	}
}

func oncePanic(t *testing.T, build Build) {
	var route *onceRoute
	route = newOnceRoute(t, build, Setup{Work: func(w http.ResponseWriter, r *http.Request) {
		if route.runs.Load() == 1 {
			_, _ = io.WriteString(w, "begun")
			panic(http.ErrAbortHandler)
		}
		created(w, r)
	}})
	rec := httptest.NewRecorder()
	func() {
		defer func() { assert.Equal(t, http.ErrAbortHandler, recover()) }()
		route.ServeHTTP(rec, onceRequest(""))
	}()
	assert.Empty(t, rec.Body.String())
	assertReplay(t, serve(route, onceRequest("")), serve(route, onceRequest("")))
	assert.EqualValues(t, 2, route.runs.Load())
}

// A client that got a success may ask again at once.
func onceOrder(t *testing.T, build Build) {
	route := newOnceRoute(t, build, Setup{Work: created, Options: []guard.LockOption{guard.NoWait()}})
	rec := &watching{ResponseRecorder: httptest.NewRecorder()}
	rec.written = func() { assert.Equal(t, "true", serve(route, onceRequest("")).Header().Get("Idempotent-Replayed")) }
	route.ServeHTTP(rec, onceRequest(""))
	assert.Equal(t, http.StatusCreated, rec.Code)
}

// watching says when something is written.
type watching struct {
	*httptest.ResponseRecorder
	written func()
}

func (w *watching) WriteHeader(status int) {
	w.written()
	w.ResponseRecorder.WriteHeader(status)
}

func (w *watching) Write(p []byte) (int, error) {
	w.written()
	return w.ResponseRecorder.Write(p)
}

func onceStoreDown(t *testing.T, build Build) {
	b := NewBench(t)
	route := newOnceRoute(t, build, Setup{Guard: b.Guard, Work: func(w http.ResponseWriter, r *http.Request) {
		b.Store.Fail(errSecret)
		created(w, r)
	}})
	assert.Equal(t, http.StatusCreated, serve(route, onceRequest("")).Code)
	assertProblem(t, serve(route, onceRequest("")), http.StatusServiceUnavailable, "lock_store_unavailable")
}

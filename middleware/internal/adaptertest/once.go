package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/internal/redistest"
)

const onceTemplate = "pay:{header:X-Tenant}:{idempotency-key}"

// onceKey is the key of onceRequest.
const onceKey = "pay:a:k"

// onceRequest is the request k of the tenant a.
func onceRequest(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/orders/7/pay", strings.NewReader(body))
	r.Header.Set("X-Tenant", "a")
	r.Header.Set("Idempotency-Key", "k")
	return r
}

// onceRoute is a route with Once that counts how often it runs.
type onceRoute struct {
	http.Handler
	runs atomic.Int64
}

func newOnceRoute(t *testing.T, build Build, s Setup) *onceRoute {
	t.Helper()
	route, work := &onceRoute{}, s.Work
	s.Work = func(w http.ResponseWriter, r *http.Request) {
		route.runs.Add(1)
		work(w, r)
	}
	if s.Template == "" && s.Key == nil {
		s.Template = onceTemplate
	}
	s.Keep = time.Hour
	route.Handler = build(t, s)
	return route
}

// created answers 201 with the number of the run and a copy of what was sent.
func created(w http.ResponseWriter, r *http.Request) {
	sent, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"paid":%q}`, sent)
}

func assertReplay(t *testing.T, first, second *httptest.ResponseRecorder) {
	t.Helper()
	assert.Empty(t, first.Header().Get("Idempotent-Replayed"))
	assert.Equal(t, "true", second.Header().Get("Idempotent-Replayed"))
	assert.Equal(t, first.Code, second.Code)
	assert.Equal(t, first.Body.String(), second.Body.String())
}

func assertProblem(t *testing.T, rec *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	assert.Equal(t, status, rec.Code)
	assert.Contains(t, rec.Body.String(), `"code":"`+code+`"`)
	assert.Equal(t, "application/problem+json", rec.Header().Get("Content-Type"))
	assert.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
	assert.Empty(t, rec.Header().Get("Idempotent-Replayed"))
	for _, private := range []string{onceKey, "guard:"} {
		assert.NotContains(t, rec.Body.String(), private)
	}
}

// once checks rules with Once.
func once(t *testing.T, build Build) {
	for name, part := range map[string]func(*testing.T, Build){
		"a repetition gets the first answer":                                   onceReplay,
		"nothing of the first caller is replayed":                              onceHeaders,
		"another body, query or path is refused":                               onceOther,
		"another tenant or key is another request":                             onceTenants,
		"which answers are kept":                                               onceKept,
		"an answer too long or sent in parts is not kept":                      onceNotKept,
		"a body is read up to 1 MiB":                                           onceBodies,
		"a busy key is a request in progress":                                  onceBusy,
		"an unknown outcome is an answer":                                      onceUnknown,
		"an answer of a client that left is not kept":                          onceLeft,
		"a lost lock is never a success":                                       onceLost,
		"a panic is not kept, and passes":                                      oncePanic,
		"a success is sent after it is recorded":                               onceOrder,
		"what the handler answered is sent where Redis is gone after it":       onceStoreDown,
		"what is wrong with the rule is found when it is made":                 onceFaults,
		"what is skipped has no record":                                        onceSkip,
		"without Redis, FailOpen runs it without a record":                     onceFailOpen,
		"64 at the same time run once":                                         onceMany,
		"line breaks in a header, and control characters in a key, do nothing": onceInjection,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); part(t, build) })
	}
}

func onceReplay(t *testing.T, build Build) {
	for name, work := range map[string]http.HandlerFunc{
		"body": created,
		"implicit": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "text")
			_, _ = w.Write([]byte(" more"))
		},
		"status":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"nothing":  func(http.ResponseWriter, *http.Request) {},
		"copied":   func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, onlyReader{r.Body}) },
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/orders", http.StatusSeeOther) },
		"bad input": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no such card", http.StatusUnprocessableEntity)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := guardtest.NewGuard(t)
			route := newOnceRoute(t, build, Setup{Guard: g, Work: work})
			first := serve(route, onceRequest("7 EUR"))
			second := serve(route, onceRequest("7 EUR"))
			assertReplay(t, first, second)
			quoted := onceRequest("7 EUR")
			quoted.Header.Set("Idempotency-Key", `"k"`)
			assertReplay(t, first, serve(route, quoted))
			assert.EqualValues(t, 1, route.runs.Load())
			assertFree(t, g, onceKey)
		})
	}
	t.Run("over connections", func(t *testing.T) {
		t.Parallel()
		route := newOnceRoute(t, build, Setup{Guard: guardtest.NewGuard(t), Work: created})
		for _, version := range []int{1, 2} {
			for run := range 2 {
				res, body := onceOver(t, route, version) //nolint:bodyclose // it is closed there
				assert.Equal(t, http.StatusCreated, res.StatusCode)
				assert.JSONEq(t, `{"paid":"7 EUR"}`, body)
				assert.Equal(t, "application/json", res.Header.Get("Content-Type"))
				assert.Equal(t, version > 1 || run > 0, res.Header.Get("Idempotent-Replayed") == "true")
			}
		}
		assert.EqualValues(t, 1, route.runs.Load())
	})
}

// onceOver sends onceRequest over a connection.
func onceOver(t *testing.T, h http.Handler, version int) (res *http.Response, body string) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = version == 2
	if version == 2 {
		server.StartTLS()
	} else {
		server.Start()
	}
	defer server.Close()
	server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r := onceRequest("7 EUR").WithContext(t.Context())
	out, err := http.NewRequestWithContext(r.Context(), r.Method, server.URL+r.URL.Path, r.Body)
	require.NoError(t, err)
	out.Header = r.Header
	res, err = server.Client().Do(out)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	require.Equal(t, version, res.ProtoMajor)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(text)
}

func onceHeaders(t *testing.T, build Build) {
	kept := []string{"Content-Type", "Content-Language", "Content-Encoding", "Content-Disposition", "Location", "Etag"}
	dropped := []string{
		"Set-Cookie", "Authorization", "WWW-Authenticate", "Connection", "Keep-Alive", "Proxy-Authenticate", "Te", "Trailer",
		"Upgrade", "X-Own", "Cache-Control",
	}
	route := newOnceRoute(t, build, Setup{Guard: guardtest.NewGuard(t), Work: func(w http.ResponseWriter, _ *http.Request) {
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

func onceOther(t *testing.T, build Build) {
	route := newOnceRoute(t, build, Setup{Guard: guardtest.NewGuard(t), Work: created})
	serve(route, onceRequest("7 EUR"))
	for _, target := range []string{"/orders/8/pay", "/orders/7/pay?twice=1"} {
		r := httptest.NewRequest(http.MethodPost, target, strings.NewReader("7 EUR"))
		r.Header = onceRequest("").Header
		assertProblem(t, serve(route, r), http.StatusUnprocessableEntity, "idempotency_key_reused")
	}
	r := onceRequest("7 EUR")
	r.Method = http.MethodHead
	assert.Equal(t, http.StatusUnprocessableEntity, serve(route, r).Code)
	rec := serve(route, onceRequest("8 EUR"))
	assertProblem(t, rec, http.StatusUnprocessableEntity, "idempotency_key_reused")
	assert.Empty(t, rec.Header().Get("Retry-After"))
	assert.EqualValues(t, 1, route.runs.Load())
}

func onceTenants(t *testing.T, build Build) {
	route := newOnceRoute(t, build, Setup{Guard: guardtest.NewGuard(t), Work: created})
	for i, other := range []struct{ tenant, key string }{{"a", "k"}, {"b", "k"}, {"a", "l"}} {
		r := onceRequest(other.tenant + other.key)
		r.Header.Set("X-Tenant", other.tenant)
		r.Header.Set("Idempotency-Key", other.key)
		rec := serve(route, r)
		assert.Equal(t, http.StatusCreated, rec.Code)
		assert.Empty(t, rec.Header().Get("Idempotent-Replayed"))
		assert.EqualValues(t, i+1, route.runs.Load())
	}
	for _, missing := range []string{"Idempotency-Key", "X-Tenant"} {
		r := onceRequest("")
		r.Header.Del(missing)
		assertProblem(t, serve(route, r), http.StatusBadRequest, "lock_key_invalid")
	}
}

func onceKept(t *testing.T, build Build) {
	for status, kept := range map[int]bool{
		200: true, 202: true, 206: true, 301: true, 304: true, 400: true, 402: true, 404: true, 410: true, 422: true, 499: true,
		401: false, 403: false, 408: false, 409: false, 425: false, 429: false, 500: false, 502: false, 503: false,
	} {
		g := guardtest.NewGuard(t)
		route := newOnceRoute(t, build, Setup{Guard: g, Once: []guard.OnceOption{guard.AtMostOnce()}, Work: func(w http.ResponseWriter, r *http.Request) {
			_, began := guard.Earlier(r.Context())
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
			Guard: guardtest.NewGuard(t), Fail: errors.New("own"), Work: func(http.ResponseWriter, *http.Request) {},
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
		"many writes": func(w http.ResponseWriter, _ *http.Request) {
			for range tooLong {
				_, _ = w.Write([]byte("a"))
			}
		},
		"copied": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, onlyReader{strings.NewReader(strings.Repeat("a", tooLong))})
		},
		"flushed": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "begun")
			_ = http.NewResponseController(w).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recorder := &guardtest.Recorder{}
			route := newOnceRoute(t, build, Setup{Guard: guardtest.NewGuard(t, guard.Observe(recorder)), Work: work})
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
	t.Run("as long as can be kept", func(t *testing.T) {
		t.Parallel()
		route := newOnceRoute(t, build, Setup{Guard: guardtest.NewGuard(t), Work: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("a", tooLong-1))
		}})
		assertReplay(t, serve(route, onceRequest("")), serve(route, onceRequest("")))
	})
	t.Run("longer than the rule says", func(t *testing.T) {
		t.Parallel()
		route := newOnceRoute(t, build, Setup{Guard: guardtest.NewGuard(t), Work: created, Once: []guard.OnceOption{guard.MaxResult(10)}})
		assert.Equal(t, http.StatusCreated, serve(route, onceRequest("")).Code)
		assertProblem(t, serve(route, onceRequest("")), http.StatusConflict, "idempotency_result_not_kept")
	})
	t.Run("a failure sent in parts is a failure", func(t *testing.T) {
		t.Parallel()
		route := newOnceRoute(t, build, Setup{Guard: guardtest.NewGuard(t), Work: func(w http.ResponseWriter, _ *http.Request) {
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
		route := newOnceRoute(t, build, Setup{Guard: guardtest.NewGuard(t), Work: func(w http.ResponseWriter, _ *http.Request) {
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
		_, body := onceOver(t, h, 1) //nolint:bodyclose // it is closed there
		assert.Equal(t, "hi", body)
		<-served
		res, body := onceOver(t, h, 1) //nolint:bodyclose // it is closed there
		assert.Equal(t, http.StatusConflict, res.StatusCode)
		assert.Contains(t, body, "idempotency_result_not_kept")
	})
}

func onceBodies(t *testing.T, build Build) {
	const most = 1 << 20
	g := guardtest.NewGuard(t)
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
	streamed := onceRequest("")
	streamed.Body, streamed.ContentLength = io.NopCloser(onlyReader{strings.NewReader(large)}), -1
	assert.Equal(t, http.StatusNoContent, serve(route, streamed).Code, "the same request")
	assert.Equal(t, http.StatusUnprocessableEntity, serve(route, onceRequest(large[1:]+"b")).Code)

	assertProblem(t, serve(route, onceRequest(large+"a")), http.StatusRequestEntityTooLarge, "body_too_large")
	broken := onceRequest("")
	broken.Body = io.NopCloser(io.MultiReader(strings.NewReader("7"), brokenReader{}))
	assertProblem(t, serve(route, broken), http.StatusBadRequest, "body_unreadable")
	ctx, leave := context.WithCancel(t.Context())
	leave()
	gone := onceRequest("").WithContext(ctx)
	gone.Body = io.NopCloser(brokenReader{})
	assert.Equal(t, 499, serve(route, gone).Code)
	assert.EqualValues(t, 1, route.runs.Load())
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("secret") }

func onceBusy(t *testing.T, build Build) {
	for status, s := range map[int]Setup{
		http.StatusConflict: {Options: []guard.LockOption{guard.NoWait()}},
		http.StatusLocked:   {Options: []guard.LockOption{guard.Wait(time.Millisecond)}, BusyStatus: http.StatusLocked},
	} {
		b := newBench(t)
		b.hold(t, onceKey)
		s.Guard, s.Work = b.Guard, created
		route := newOnceRoute(t, build, s)
		rec := serve(route, onceRequest(""))
		assertProblem(t, rec, status, "idempotency_in_progress")
		assert.Regexp(t, `^[1-9][0-9]*$`, rec.Header().Get("Retry-After"))
		assert.Zero(t, route.runs.Load())
	}
	t.Run("one that waits gets the answer", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
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
	b := newBench(t)
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

func onceLeft(t *testing.T, build Build) {
	ctx, leave := context.WithCancel(t.Context())
	var route *onceRoute
	route = newOnceRoute(t, build, Setup{Guard: guardtest.NewGuard(t), Work: func(w http.ResponseWriter, r *http.Request) {
		_, began := guard.Earlier(r.Context())
		assert.Equal(t, route.runs.Load() == 2, began)
		leave()
		created(w, r)
	}})
	assert.Equal(t, http.StatusCreated, serve(route, onceRequest("").WithContext(ctx)).Code, "for whoever looks")
	first := serve(route, onceRequest(""))
	assertReplay(t, first, serve(route, onceRequest("")))
	assert.EqualValues(t, 2, route.runs.Load())
}

func onceLost(t *testing.T, build Build) {
	for name, work := range map[string]func(w http.ResponseWriter, lose func()){
		"before the answer": func(w http.ResponseWriter, lose func()) { lose(); _, _ = io.WriteString(w, "late") },
		"behind the answer": func(w http.ResponseWriter, lose func()) { _, _ = io.WriteString(w, "early"); lose() },
		"flushed after it":  func(w http.ResponseWriter, lose func()) { lose(); _ = http.NewResponseController(w).Flush() },
		"streamed after it": func(w http.ResponseWriter, lose func()) {
			lose()
			_, err := io.WriteString(w, strings.Repeat("a", tooLong))
			assert.ErrorIs(t, err, guard.ErrLost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			route := newOnceRoute(t, build, Setup{Guard: b.Guard, Work: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "/orders/7")
				work(w, func() { b.lose(r.Context(), onceKey) }) //nolint:contextcheck // the request brings it
			}})
			rec := serve(route, onceRequest(""))
			assertProblem(t, rec, http.StatusInternalServerError, "lock_lost")
			assert.Empty(t, rec.Header().Get("Location"))
		})
	}
}

func oncePanic(t *testing.T, build Build) {
	var route *onceRoute
	route = newOnceRoute(t, build, Setup{Guard: guardtest.NewGuard(t), Work: func(w http.ResponseWriter, r *http.Request) {
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

// A client that is told of a success may ask again at once.
func onceOrder(t *testing.T, build Build) {
	route := newOnceRoute(t, build, Setup{Guard: guardtest.NewGuard(t), Work: created, Options: []guard.LockOption{guard.NoWait()}})
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
	b := newBench(t, guard.StoreTimeout(100*time.Millisecond))
	route := newOnceRoute(t, build, Setup{Guard: b.Guard, Work: func(w http.ResponseWriter, r *http.Request) {
		b.store.Fail(errSecret)
		created(w, r)
	}})
	assert.Equal(t, http.StatusCreated, serve(route, onceRequest("")).Code)
	assertProblem(t, serve(route, onceRequest("")), http.StatusServiceUnavailable, "lock_store_unavailable")
}

func onceFaults(t *testing.T, build Build) {
	g := guardtest.NewGuard(t)
	nothing := func(http.ResponseWriter, *http.Request) {}
	for want, s := range map[string]Setup{
		"the template names no caller":                {Template: "pay:{idempotency-key}"},
		"add a placeholder such as {header:X-Tenant}": {Template: "{method}:{idempotency-key}"},
		"Once needs one key":                          {Template: onceTemplate, And: []string{"order:{id}"}},
		"Limit does not go with Once":                 {Template: onceTemplate, Options: []guard.LockOption{guard.Limit(2)}},
		"Shared does not go with Once":                {Template: onceTemplate, Once: []guard.OnceOption{guard.Shared()}},
		"keep -1ns is outside 1ms to 8784h0m0s":       {Template: onceTemplate, Keep: -1},
		"MaxResult":                                   {Template: onceTemplate, Once: []guard.OnceOption{guard.MaxResult(0)}},
		"TTL":                                         {Template: onceTemplate, Once: []guard.OnceOption{guard.TTL(1)}},
	} {
		s.Guard, s.Work = g, nothing
		if s.Keep == 0 {
			s.Keep = time.Hour
		}
		assert.Contains(t, panicText(func() { build(t, s) }), want)
	}
	key := func() (string, error) { return "k", nil }
	for _, s := range []Setup{
		{Template: "pay:{idempotency-key}", AnyCaller: true},
		{Template: onceTemplate},
		{Template: "{id}:{idempotency-key}"},
		{Template: "{host}:{idempotency-key}"},
		{Template: "order:{id}"},
		{Template: "all"},
		{Key: key},
	} {
		s.Guard, s.Work, s.Keep = g, nothing, time.Hour
		assert.NotPanics(t, func() { build(t, s) }, s.Template)
	}
	route := newOnceRoute(t, build, Setup{Guard: g, Work: created, Template: "any:{idempotency-key}", AnyCaller: true})
	assertReplay(t, serve(route, onceRequest("")), serve(route, onceRequest("")))
	route = newOnceRoute(t, build, Setup{Guard: g, Work: created, Key: key})
	assertReplay(t, serve(route, onceRequest("")), serve(route, onceRequest("")))
}

func onceSkip(t *testing.T, build Build) {
	route := newOnceRoute(t, build, Setup{Guard: guardtest.NewGuard(t), Work: created, Skip: true})
	for range 2 {
		assert.Empty(t, serve(route, onceRequest("")).Header().Get("Idempotent-Replayed"))
	}
	assert.EqualValues(t, 2, route.runs.Load())
}

func onceFailOpen(t *testing.T, build Build) {
	b := newBench(t)
	b.store.Fail(errSecret)
	route := newOnceRoute(t, build, Setup{Guard: b.Guard, Work: created, Options: []guard.LockOption{guard.FailOpen()}})
	for range 2 {
		rec := serve(route, onceRequest("7 EUR"))
		assert.Equal(t, http.StatusCreated, rec.Code)
		assert.JSONEq(t, `{"paid":"7 EUR"}`, rec.Body.String())
	}
	assert.EqualValues(t, 2, route.runs.Load())
}

func onceMany(t *testing.T, build Build) { oneOfMany(t, build, guardtest.NewGuard(t)) }

// onceOnRedis has the record in Redis, and two servers.
func onceOnRedis(t *testing.T, build Build) {
	server := redistest.Shared(t)
	oneOfMany(t, build, guardOn(t, server), guardOn(t, server))
}

// oneOfMany sends 64 requests with one key, two bodies and two tenants to servers of guards.
func oneOfMany(t *testing.T, build Build, guards ...*guard.Guard) {
	t.Helper()
	const callers = 64
	template := t.Name() + ":{header:X-Tenant}:{idempotency-key}"
	t.Cleanup(func() {
		for _, tenant := range []string{"a", "b"} {
			found, err := guards[0].Forget(context.Background(), guard.Key(t.Name()+":"+tenant+":k"))
			assert.True(t, found)
			assert.NoError(t, err)
		}
	})
	var routes []*onceRoute
	for _, g := range guards {
		routes = append(routes, newOnceRoute(t, build, Setup{
			Guard: g, Template: template, Options: []guard.LockOption{guard.Wait(patience)}, Work: created,
		}))
	}
	answers := make([]*httptest.ResponseRecorder, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			r := onceRequest(fmt.Sprint(i / 2 % 2))
			r.Header.Set("X-Tenant", string(rune('a'+i%2)))
			answers[i] = serve(routes[i%len(routes)], r)
		})
	}
	wg.Wait()
	first, paid := 0, map[string]bool{}
	for i, rec := range answers {
		switch rec.Code {
		case http.StatusCreated:
			if rec.Header().Get("Idempotent-Replayed") == "" {
				first++
			}
			paid[fmt.Sprint(i%2)+rec.Body.String()] = true
		default:
			assertProblem(t, rec, http.StatusUnprocessableEntity, "idempotency_key_reused")
		}
	}
	runs := int64(0)
	for _, route := range routes {
		runs += route.runs.Load()
	}
	assert.Equal(t, 2, first, "one of each tenant")
	assert.Len(t, paid, 2, "each tenant has one answer")
	assert.EqualValues(t, 2, runs)
}

func onceInjection(t *testing.T, build Build) {
	route := newOnceRoute(t, build, Setup{Guard: guardtest.NewGuard(t), Work: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/a\r\nSet-Cookie: b=c\r\n\r\nbody")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "\r\n\r\nown\r\n")
	}})
	for range 2 {
		res, body := onceOver(t, route, 1) //nolint:bodyclose // it is closed there
		assert.Equal(t, http.StatusCreated, res.StatusCode)
		assert.Empty(t, res.Header.Get("Set-Cookie"))
		assert.Equal(t, "\r\n\r\nown\r\n", body)
	}
	assert.NotContains(t, serve(route, onceRequest("7 EUR")).Header().Get("Location"), "\n")
	assert.EqualValues(t, 1, route.runs.Load())
	for _, key := range []string{"a\r\nb", "a\x00", "\x7f", `"a`, `"a"b`, strings.Repeat("a", 256)} {
		r := onceRequest("")
		r.Header.Set("Idempotency-Key", key)
		assertProblem(t, serve(route, r), http.StatusBadRequest, "lock_key_invalid")
	}
}

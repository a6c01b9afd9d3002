package adaptertest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
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
	if s.Guard == nil {
		s.Guard = guardtest.NewMemoryGuard(t)
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
	assert.Equal(t, first.Header().Get("Content-Type"), second.Header().Get("Content-Type"))
	assert.Equal(t, first.Body.String(), second.Body.String())
}

func assertProblem(t *testing.T, rec *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	assert.Equal(t, status, rec.Code)
	assert.Contains(t, rec.Body.String(), `"code":"`+code+`"`)
	assert.Equal(t, "application/problem+json", rec.Header().Get("Content-Type"))
	assert.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
	assert.Empty(t, rec.Header().Get("Idempotent-Replayed"))
	for _, private := range []string{onceKey, "guard:", "redlatch:"} {
		assert.NotContains(t, rec.Body.String(), private)
	}
}

// once checks rules with Once.
func once(t *testing.T, build Build) {
	for name, part := range map[string]func(*testing.T, Build){
		"a repetition gets the first answer":                             onceReplay,
		"another body, query or path is refused":                         onceOther,
		"another tenant or key is another request":                       onceTenants,
		"which answers are kept":                                         onceKept,
		"an answer too long or sent in parts is not kept":                onceNotKept,
		"a body is read up to 1 MiB":                                     onceBodies,
		"a busy key is a request in progress":                            onceBusy,
		"an unknown outcome is an answer":                                onceUnknown,
		"a client that left pays once":                                   onceLeft,
		"a lost lock is never a success":                                 onceLost,
		"a panic is not kept, and passes":                                oncePanic,
		"a success is sent after it is recorded":                         onceOrder,
		"what the handler answered is sent where Redis is gone after it": onceStoreDown,
		"a rule that is out of its bounds is refused":                    onceFaults,
		"the first key keeps the answer, and the others are locked":      onceAnd,
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
			route := newOnceRoute(t, build, Setup{Work: work})
			first := serve(route, onceRequest("7 EUR"))
			second := serve(route, onceRequest("7 EUR"))
			assertReplay(t, first, second)
			quoted := onceRequest("7 EUR")
			quoted.Header.Set("Idempotency-Key", `"k"`)
			assertReplay(t, first, serve(route, quoted))
			assert.EqualValues(t, 1, route.runs.Load())
		})
	}
}

func onceOther(t *testing.T, build Build) {
	route := newOnceRoute(t, build, Setup{Work: created})
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

// onceTenants has two tenants send the same request, key included: neither gets the answer of the other, unless the
// program says so.
func onceTenants(t *testing.T, build Build) {
	for template, shared := range map[string]bool{
		onceTemplate: false, "pay:{cookie:tenant}:{id}": false, "any:{idempotency-key}": true,
	} {
		route := newOnceRoute(t, build, Setup{Work: created, Template: template, SharedAnswer: shared})
		for _, tenant := range []string{"a", "b"} {
			assert.Equal(t, http.StatusCreated, serve(route, tenantRequest(tenant)).Code, template)
		}
		assert.Equal(t, shared, route.runs.Load() == 1, template)
	}
	route := newOnceRoute(t, build, Setup{Work: created})
	for _, missing := range []string{"Idempotency-Key", "X-Tenant"} {
		r := onceRequest("")
		r.Header.Del(missing)
		assertProblem(t, serve(route, r), http.StatusBadRequest, "lock_key_invalid")
	}
	r := onceRequest("")
	serve(route, onceRequest(""))
	r.Header.Set("Idempotency-Key", "l")
	assert.Empty(t, serve(route, r).Header().Get("Idempotent-Replayed"), "another key is another request")
}

// tenantRequest is onceRequest of a tenant.
func tenantRequest(tenant string) *http.Request {
	r := onceRequest("7 EUR")
	r.Header.Set("X-Tenant", tenant)
	r.AddCookie(&http.Cookie{Name: "tenant", Value: tenant})
	return r
}

// onceLeft checks that a handler whose client leaves pays and is recorded, and that the client gets its answer when it
// asks again.
func onceLeft(t *testing.T, build Build) {
	ctx, leave := context.WithCancel(t.Context())
	route := newOnceRoute(t, build, Setup{Work: func(w http.ResponseWriter, r *http.Request) {
		leave()
		assert.NoError(t, r.Context().Err(), "a call of the bank would be cut short")
		created(w, r)
	}})
	first := serve(route, onceRequest("7 EUR").WithContext(ctx))
	assert.JSONEq(t, `{"paid":"7 EUR"}`, first.Body.String())
	assertReplay(t, first, serve(route, onceRequest("7 EUR")))
	assert.EqualValues(t, 1, route.runs.Load(), "payments")
}

func onceFaults(t *testing.T, build Build) {
	for want, s := range map[string]Setup{
		"Limit does not go with Once":  {Template: onceTemplate, Keep: time.Hour, Options: []guard.LockOption{guard.Limit(2)}},
		"keep -1ns is outside":         {Template: onceTemplate, Keep: -1},
		"the template names no caller": {Template: "{idempotency-key}:{query:v}", Keep: time.Hour},
	} {
		s.Work = created
		assert.Contains(t, panicText(func() { build(t, s) }), want)
	}
}

package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// EchoRows are templates by the row of a table, for a server with EchoRoutes.
var EchoRows = map[string]string{
	"POST /orders/:id/pay":  "order:{id}",
	"POST /orders/:order":   "order:{order}",
	"DELETE /orders/:order": "order:{order}", // the route calls it by another name
	"POST /files/*":         "file:{*}",
	"POST list":             "list",
	"GET /any":              "any",
	`POST /a\:b/:c`:         "c:{c}",
	"POST /nope":            "nope",
}

// EchoRoutes are the routes of that server, each of which does KeyOrNone. Besides, it has /any for any method,
// /orders/:id/pay for POST in the group /admin, and a RouteNotFound for /app/*.
var EchoRoutes = []string{
	"POST /orders/:id/pay", "GET /orders/:id/pay", "POST /orders/new/pay", "POST /orders/:order",
	"DELETE /orders/:id", "POST /files/*", "POST list", `POST /a\:b/:c`,
}

// EchoCheck is the error of Check for that server and EchoRows.
const EchoCheck = `guardecho: row "DELETE /orders/:order": there is no such route; a row has the full path, as the route has it
guardecho: row "POST /nope": there is no such route; a row has the full path, as the route has it`

// EchoRowsApply asks a server of EchoRoutes, whose table is EchoRows.
func EchoRowsApply(t *testing.T, h http.Handler) {
	t.Helper()
	for request, want := range map[string]string{
		"POST /orders/7/pay":       "order:7",
		"POST /orders/%37/pay":     "order:7",
		"POST /orders/new/pay":     "none",
		"GET /orders/7/pay":        "none",
		"POST /orders/7":           "order:7",
		"DELETE /orders/7":         "none",
		"POST /files/a/b%20c":      "file:a/b c",
		"POST /files/":             "Bad Request",
		"POST /list":               "list",
		"GET /any":                 "any",
		"POST /any":                "none",
		"POST /a:b/x":              "c:x",
		"POST /admin/orders/7/pay": "none",
		"POST /nope":               "Not Found",
		"PUT /orders/7/pay":        "Method Not Allowed",
	} {
		assert.Equal(t, want, Ask(h, request), request)
	}
}

// EchoWhole asks a server that has the key "order:{id}" around all of its routes: POST of /orders/:id/pay, of "" and of
// list, and a RouteNotFound below /app. Each does Held.
func EchoWhole(t *testing.T, h http.Handler) {
	t.Helper()
	statuses(t, h, map[string]int{
		"POST /orders/7/pay":    http.StatusOK,
		"POST /orders/7/nope":   http.StatusNotFound,
		"POST /nope":            http.StatusNotFound,
		"GET /orders/7/pay":     http.StatusMethodNotAllowed,
		"OPTIONS /orders/7/pay": http.StatusNoContent,
		"GET /app/x":            http.StatusNoContent,
		"POST /":                http.StatusInternalServerError, // a route that the template does not fit
		"POST /list":            http.StatusInternalServerError,
	})
}

// EchoGroup asks a server that has the key "order:{id}" around the group /orders: POST of
// /:id/pay and of /list. Each does Held.
func EchoGroup(t *testing.T, h http.Handler) {
	t.Helper()
	statuses(t, h, map[string]int{
		"POST /orders/7/pay":  http.StatusOK,
		"POST /orders/7/nope": http.StatusNotFound,
		"POST /orders":        http.StatusNotFound,
		"POST /orders/list":   http.StatusInternalServerError,
	})
}

// KeyErrors checks that a key function may answer by errors of the framework, given by the detail of the answer.
func KeyErrors(t *testing.T, build Build, errs map[string]error) {
	t.Helper()
	for detail, err := range errs {
		s := Setup{Guard: guardtest.NewMemoryGuard(t), Key: func() (string, error) { return "", err }, Work: KeyOrNone}
		rec := serve(build(t, s), pay("7"))
		assert.Equal(t, http.StatusForbidden, rec.Code)
		assert.Contains(t, rec.Body.String(), detail)
		assert.Contains(t, rec.Body.String(), `"code":"lock_key_invalid"`)
		assert.NotContains(t, rec.Body.String(), "secret")
	}
}

// OnceErrors checks that Once keeps what the framework sends for an error below 500 that a handler returns.
func OnceErrors(t *testing.T, build Build, newError func(status int) error) {
	t.Helper()
	for status, runs := range map[int]int{http.StatusNotFound: 1, http.StatusUnprocessableEntity: 1, http.StatusConflict: 2, http.StatusBadGateway: 2} {
		route := newOnceRoute(t, build, Setup{Fail: newError(status), Work: func(http.ResponseWriter, *http.Request) {}})
		first, second := serve(route, onceRequest("")), serve(route, onceRequest(""))
		assert.Equal(t, status, first.Code)
		assert.Equal(t, first.Code, second.Code)
		assert.JSONEq(t, first.Body.String(), second.Body.String())
		assert.EqualValues(t, runs, route.runs.Load(), status)
		assert.Equal(t, runs == 1, second.Header().Get("Idempotent-Replayed") == "true", status)
	}
}

func statuses(t *testing.T, h http.Handler, wants map[string]int) {
	t.Helper()
	for request, want := range wants {
		assert.Equal(t, want, Status(h, request), request)
	}
}

// Call sends a request.
func Call(h http.Handler, method, target string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(method, target, nil))
	return rec
}

// Status gives the status of "METHOD URL".
func Status(h http.Handler, request string) int {
	method, target, _ := strings.Cut(request, " ")
	return Call(h, method, target).Code
}

// Ask gives the body, or the status if it is not 200, of "METHOD URL".
func Ask(h http.Handler, request string) string {
	method, target, _ := strings.Cut(request, " ")
	rec := Call(h, method, target)
	if rec.Code != http.StatusOK {
		return http.StatusText(rec.Code)
	}
	return rec.Body.String()
}

// KeyOrNone answers with the key that the request is under, or "none".
func KeyOrNone(w http.ResponseWriter, r *http.Request) {
	key := "none"
	if lease, ok := guard.FromContext(r.Context()); ok {
		key = lease.Key()
	}
	_, _ = w.Write([]byte(key))
}

// Held answers 200 if the request is under a lock and 204 if not.
func Held(w http.ResponseWriter, r *http.Request) {
	if _, ok := guard.FromContext(r.Context()); ok {
		w.WriteHeader(http.StatusOK)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Busy is a Guard under which "order:7" is taken until t ends.
func Busy(t *testing.T, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g := guardtest.NewMemoryGuard(t, opts...)
	lease, err := g.Acquire(context.Background(), guard.Key("order:7"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = lease.Release(context.Background()) })
	return g
}

var panicText = PanicText

// PanicText is what f panics with.
func PanicText(f func()) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	f()
	return ""
}

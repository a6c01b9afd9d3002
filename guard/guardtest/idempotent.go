package guardtest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Idempotent checks that handler serves a request once, as a route with Rule.Once of guardhttp, guardgin or
// guardecho does:
//
//   - The same request again gets the same status and body, and Idempotent-Replayed: true.
//   - Of 16 at the same time, one is served, and all get its answer. The handler has to be done within
//     the rule's Wait, which is 2 seconds by default.
//   - Another body with the key is answered 422.
//   - A request without a key is answered 400.
//
// request gives a request that succeeds, with an Idempotency-Key of its own each time, and whatever else the
// route needs: the tenant, say. Idempotent sends copies of it. It does not see how often the work ran:
// count that in your own test. Nor does it know how your route distinguishes callers: ask as two callers with one key.
// Its faults are errors of tb. Call it from the goroutine of the test.
func Idempotent(tb testing.TB, handler http.Handler, request func() *http.Request) {
	tb.Helper()
	again := newIdempotent(tb, request)
	first := again.send(handler, again.body)
	if first.Code < 200 || first.Code > 299 {
		tb.Errorf("guardtest: the first request is answered %d, not 2xx: %s", first.Code, first.Body)
		return
	}
	checkReplay(tb, "the same request again", first, again.send(handler, again.body))
	if other := again.send(handler, append(bytes.Clone(again.body), ' ')); other.Code != http.StatusUnprocessableEntity {
		tb.Errorf("guardtest: another body with the same key is answered %d, not 422", other.Code)
	}
	checkTogether(tb, handler, newIdempotent(tb, request))
	without := newIdempotent(tb, request)
	without.request.Header.Del(idempotencyKey)
	if rec := without.send(handler, without.body); rec.Code != http.StatusBadRequest {
		tb.Errorf("guardtest: a request without an %s is answered %d, not 400", idempotencyKey, rec.Code)
	}
}

const idempotencyKey = "Idempotency-Key"

// idempotent is a request that is sent many times.
type idempotent struct {
	request *http.Request
	body    []byte
}

func newIdempotent(tb testing.TB, request func() *http.Request) idempotent {
	tb.Helper()
	i := idempotent{request: request()}
	if i.request.Header.Get(idempotencyKey) == "" {
		tb.Errorf("guardtest: the request has no %s", idempotencyKey)
	}
	if i.request.Body != nil {
		var err error
		if i.body, err = io.ReadAll(i.request.Body); err != nil {
			tb.Errorf("guardtest: read the body of the request: %v", err)
		}
	}
	return i
}

func (i idempotent) send(handler http.Handler, body []byte) *httptest.ResponseRecorder {
	r := i.request.Clone(i.request.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	rec := httptest.NewRecorder()
	handler.ServeHTTP(rec, r)
	return rec
}

func replayed(rec *httptest.ResponseRecorder) bool {
	return rec.Header().Get("Idempotent-Replayed") == "true"
}

func checkReplay(tb testing.TB, what string, first, second *httptest.ResponseRecorder) {
	tb.Helper()
	if second.Code != first.Code || !bytes.Equal(second.Body.Bytes(), first.Body.Bytes()) {
		tb.Errorf("guardtest: %s is answered %d %q, the first was %d %q", what, second.Code, second.Body, first.Code, first.Body)
	}
	if !replayed(second) {
		tb.Errorf("guardtest: %s has no Idempotent-Replayed: true", what)
	}
}

func checkTogether(tb testing.TB, handler http.Handler, i idempotent) {
	tb.Helper()
	answers := make([]*httptest.ResponseRecorder, 16)
	var wg sync.WaitGroup
	for n := range answers {
		wg.Go(func() { answers[n] = i.send(handler, i.body) })
	}
	wg.Wait()
	var first *httptest.ResponseRecorder
	served := 0
	for _, rec := range answers {
		if !replayed(rec) {
			first = rec
			served++
		}
	}
	if served != 1 {
		tb.Errorf("guardtest: of %d requests at the same time, %d have an answer of their own, not 1", len(answers), served)
		return
	}
	for _, rec := range answers {
		if rec != first {
			checkReplay(tb, "a request at the same time", first, rec)
		}
	}
}

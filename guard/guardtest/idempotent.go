package guardtest

import (
	"bytes"
	"context"
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
//   - A client that leaves while its request is served, and asks again, gets the answer.
//   - A request whose answer breaks off, and is sent again, gets the whole answer.
//   - Each of others, with the key and body of the first request, gets an answer of its own.
//
// request returns a request that succeeds, with an Idempotency-Key of its own each time, and whatever else the
// route needs: the tenant, say. others give such requests of other callers. Idempotent sends copies of them. It does not
// see how often the work ran: count that in your own test. Its faults are errors of tb. Call it from the goroutine of the
// test.
func Idempotent(tb testing.TB, handler http.Handler, request func() *http.Request, others ...func() *http.Request) {
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
	checkLeft(tb, handler, newIdempotent(tb, request))
	checkBroken(tb, handler, newIdempotent(tb, request))
	for _, other := range others {
		checkOther(tb, handler, again, newIdempotent(tb, other))
	}
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
	rec := httptest.NewRecorder()
	handler.ServeHTTP(rec, i.with(i.request.Context(), body))
	return rec
}

// with returns a copy of the request.
func (i idempotent) with(ctx context.Context, body []byte) *http.Request {
	r := i.request.Clone(ctx)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return r
}

// leaving is the answer to a client that leaves when its answer is first touched.
type leaving struct {
	*httptest.ResponseRecorder
	leave context.CancelFunc
}

func (l leaving) Header() http.Header {
	l.leave()
	return l.ResponseRecorder.Header()
}

// clientClosed is the status of a request that was not served, as its client had left before.
const clientClosed = 499

func checkLeft(tb testing.TB, handler http.Handler, i idempotent) {
	tb.Helper()
	ctx, leave := context.WithCancel(i.request.Context())
	defer leave()
	first := httptest.NewRecorder()
	handler.ServeHTTP(leaving{first, leave}, i.with(ctx, i.body))
	switch second := i.send(handler, i.body); {
	case first.Code == clientClosed: // a layer outside of the lock has touched the answer
	case first.Code < 200 || first.Code > 299:
		tb.Errorf("guardtest: a request whose client left is answered %d, not 2xx: did the handler's context end?", first.Code)
	default:
		checkReplay(tb, "the request of a client that left", first, second)
	}
}

// breaking is the answer to a client whose connection breaks before the body.
type breaking struct{ *httptest.ResponseRecorder }

func (breaking) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func (breaking) WriteString(string) (int, error) { return 0, io.ErrClosedPipe }

func checkBroken(tb testing.TB, handler http.Handler, i idempotent) {
	tb.Helper()
	handler.ServeHTTP(breaking{httptest.NewRecorder()}, i.with(i.request.Context(), i.body))
	second := i.send(handler, i.body)
	if second.Code < 200 || second.Code > 299 {
		tb.Errorf("guardtest: a request whose answer broke off is answered %d when it is sent again, not 2xx", second.Code)
		return
	}
	checkReplay(tb, "a request whose answer broke off", second, i.send(handler, i.body))
	if !replayed(second) {
		tb.Errorf("guardtest: a request whose answer broke off ran again")
	}
}

// checkOther sends the first request as another caller.
func checkOther(tb testing.TB, handler http.Handler, first, other idempotent) {
	tb.Helper()
	other.request.Header.Set(idempotencyKey, first.request.Header.Get(idempotencyKey))
	if rec := other.send(handler, first.body); rec.Code < 200 || rec.Code > 299 || replayed(rec) {
		tb.Errorf("guardtest: another caller with the same key is answered %d, Idempotent-Replayed: %t: it needs an answer of its own", rec.Code, replayed(rec))
	}
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

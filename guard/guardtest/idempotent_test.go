package guardtest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// faults is a testing.TB that notes what fails.
type faults struct {
	testing.TB
	mu  sync.Mutex
	all []string
}

func (*faults) Helper() {}

func (f *faults) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, fmt.Sprintf(format, args...))
}

// touches has the header of each answer set before h.
func touches(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Outer", "1")
		h.ServeHTTP(w, r)
	})
}

func TestIdempotent_FindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	var number atomic.Int64
	of := func(tenant string) func() *http.Request { // each with a key of its own
		return func() *http.Request {
			r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader("70 EUR"))
			r.Header.Set("X-Tenant", tenant)
			r.Header.Set("Idempotency-Key", fmt.Sprint("key-", number.Add(1)))
			return r
		}
	}
	payment := of("acme")
	charges := func() http.HandlerFunc { // answers each run otherwise
		var number atomic.Int64
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "charge", number.Add(1)) }
	}
	replays := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Idempotent-Replayed", "true") }
	broken := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	obedient := func(w http.ResponseWriter, r *http.Request) { // pays, and then heeds its context
		if w.Header(); r.Context().Err() != nil {
			w.WriteHeader(http.StatusBadGateway)
		}
	}
	attached := func(h http.Handler) http.Handler { // an idempotent route whose handler ends with its client
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = w.Header()
			if r.Context().Err() != nil {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
	whole := func() http.HandlerFunc { // runs again what it could not send
		var sent sync.Map
		return func(w http.ResponseWriter, r *http.Request) {
			key := r.Header.Get("Idempotency-Key")
			if _, err := w.Write(nil); err != nil && key != "" {
				return
			}
			if _, again := sent.LoadOrStore(key, true); again {
				w.Header().Set("Idempotent-Replayed", "true")
			}
			_, _ = w.Write([]byte("paid"))
		}
	}
	rule := guardhttp.Lock("pay:{header:X-Tenant}:{idempotency-key}", guard.Wait(guard.Forever)).Once(time.Hour)
	shared := guardhttp.Lock("pay:{idempotency-key}", guard.Wait(guard.Forever)).Once(time.Hour).SharedAnswer()
	for name, row := range map[string]struct {
		handler http.Handler
		request func() *http.Request
		want    []string
	}{
		"a route with Once":                  {guardhttp.Middleware(guardtest.NewMemoryGuard(t), rule)(charges()), payment, nil},
		"a handler that heeds its context":   {guardhttp.Middleware(guardtest.NewMemoryGuard(t), rule)(http.HandlerFunc(obedient)), payment, nil},
		"a layer outside touches the answer": {touches(guardhttp.Middleware(guardtest.NewMemoryGuard(t), rule)(charges())), payment, nil},
		"a handler that ends with its client": {attached(guardhttp.Middleware(guardtest.NewMemoryGuard(t), rule)(charges())), payment, []string{
			"a request whose client left is answered 502, not 2xx",
		}},
		"one answer for all": {guardhttp.Middleware(guardtest.NewMemoryGuard(t), shared)(charges()), payment, []string{
			"another caller with the same key is answered 200, Idempotent-Replayed: true: it needs an answer of its own",
		}},
		"a route without": {charges(), payment, []string{
			`the same request again is answered 200 "charge 2\n", the first was 200 "charge 1\n"`,
			"the same request again has no Idempotent-Replayed: true",
			"another body with the same key is answered 200, not 422",
			"of 16 requests at the same time, 16 have an answer of their own, not 1",
			"the request of a client that left has no Idempotent-Replayed: true",
			"a request without an Idempotency-Key is answered 200, not 400",
		}},
		"what could not be sent runs again": {whole(), payment, []string{"a request whose answer broke off ran again"}},
		"all is a repetition":               {http.HandlerFunc(replays), payment, []string{"of 16 requests at the same time, 0 have an answer of their own, not 1"}},
		"the request fails":                 {http.HandlerFunc(broken), payment, []string{"the first request is answered 502, not 2xx"}},
		"the request has no key": {charges(), func() *http.Request { return httptest.NewRequest(http.MethodPost, "/pay", nil) }, []string{
			"the request has no Idempotency-Key",
		}},
	} {
		f := &faults{TB: t}
		guardtest.Idempotent(f, row.handler, row.request, of("globex"))
		got := strings.Join(f.all, "\n")
		assert.Equal(t, row.want == nil, got == "", "%s: %s", name, got)
		for _, want := range row.want {
			assert.Contains(t, got, want, name)
		}
	}
}

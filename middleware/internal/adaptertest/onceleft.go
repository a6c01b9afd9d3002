package adaptertest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardtest"
)

// departures are the ways in which the context of a request ends while its handler works. Each sends a request to h.
// The handler closes begun.
var departures = map[string]func(t *testing.T, h http.Handler, begun <-chan struct{}){
	"the client hangs up": func(t *testing.T, h http.Handler, begun <-chan struct{}) {
		ctx, hangUp := context.WithCancel(t.Context())
		go func() { <-begun; hangUp() }()
		send(ctx, t, h)
	},
	"http.TimeoutHandler answers": func(t *testing.T, h http.Handler, _ <-chan struct{}) {
		send(t.Context(), t, http.TimeoutHandler(h, 100*time.Millisecond, ""))
	},
}

// send sends onceRequest to a server of h, and waits for the answer, or the end of ctx.
func send(ctx context.Context, t *testing.T, h http.Handler) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/orders/7/pay", onceRequest("7 EUR").Body)
	require.NoError(t, err)
	r.Header = onceRequest("").Header
	if res, err := server.Client().Do(r); err == nil {
		assert.NoError(t, res.Body.Close())
	}
}

// onceLeft checks that whoever ends the context of a request, its handler pays and is recorded, and the client that
// asks again gets the answer.
func onceLeft(t *testing.T, build Build) {
	for name, leave := range departures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := guardtest.NewMemoryGuard(t)
			begun, served := make(chan struct{}), make(chan struct{})
			var outer <-chan struct{}
			var first sync.Once
			route := newOnceRoute(t, build, Setup{Guard: g, Work: func(w http.ResponseWriter, r *http.Request) {
				first.Do(func() { close(begun) })
				<-outer
				if !assert.NoError(t, r.Context().Err(), "a call of the bank would be cut short") {
					w.WriteHeader(http.StatusBadGateway)
					return
				}
				created(w, r)
			}})
			leave(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(served)
				outer = r.Context().Done()
				route.ServeHTTP(w, r)
			}), begun)
			<-served
			again := serve(route, onceRequest("7 EUR"))
			assert.Equal(t, http.StatusCreated, again.Code)
			assert.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
			assert.EqualValues(t, 1, route.runs.Load(), "payments")
			assertFree(t, g, onceKey)
		})
	}
}

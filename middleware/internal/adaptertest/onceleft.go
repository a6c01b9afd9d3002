package adaptertest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardtest"
)

// departures are the ways in which the context of a request ends while its handler works. Each sends a request to h, and ends the
// context when begun is closed.
var departures = map[string]func(t *testing.T, h http.Handler, begun <-chan struct{}){
	"the client hangs up": func(t *testing.T, h http.Handler, begun <-chan struct{}) {
		ctx, hangUp := context.WithCancel(t.Context())
		go func() { <-begun; hangUp() }()
		send(ctx, t, h, t.Context())
	},
	"http.TimeoutHandler answers": func(t *testing.T, h http.Handler, _ <-chan struct{}) {
		send(t.Context(), t, http.TimeoutHandler(h, 100*time.Millisecond, ""), t.Context())
	},
	"the server shuts down": func(t *testing.T, h http.Handler, begun <-chan struct{}) {
		base, shutDown := context.WithCancel(t.Context())
		go func() { <-begun; shutDown() }()
		assert.Equal(t, http.StatusCreated, send(t.Context(), t, h, base), "for a client that is still there")
	},
}

// send sends onceRequest to a server of h, whose requests have the context base. It returns the status, or 0 where there is no answer.
func send(ctx context.Context, t *testing.T, h http.Handler, base context.Context) (status int) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.BaseContext = func(net.Listener) context.Context { return base }
	server.Start()
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/orders/7/pay", onceRequest("7 EUR").Body)
	require.NoError(t, err)
	r.Header = onceRequest("").Header
	res, err := server.Client().Do(r)
	if err != nil {
		return 0
	}
	assert.NoError(t, res.Body.Close())
	return res.StatusCode
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

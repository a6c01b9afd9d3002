package adaptertest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

// start serves h over connections.
func start(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

// clients checks what becomes of requests whose client closes the connection.
func clients(t *testing.T, build Build) {
	t.Run("the work of one that left ends, and its lock", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		working, ended := make(chan struct{}), make(chan error, 1)
		h := build(t, Setup{Guard: b.Guard, Template: "order:{id}", Work: func(_ http.ResponseWriter, r *http.Request) {
			close(working)
			<-r.Context().Done()
			ended <- context.Cause(r.Context())
		}})
		served := make(chan struct{})
		server := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { defer close(served); h.ServeHTTP(w, r) }))
		leaving(t, server, func() { <-working })
		assert.ErrorIs(t, <-ended, context.Canceled)
		<-served
		assertFree(t, b.Guard, "order:7")
	})
}

// leaving asks for order 7, and leaves once when is over.
func leaving(t *testing.T, server *httptest.Server, when func()) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	go func() { when(); leave() }()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/orders/7/pay", nil)
	assert.NoError(t, err)
	_, err = server.Client().Do(r) //nolint:bodyclose // there is none
	assert.ErrorIs(t, err, context.Canceled)
}

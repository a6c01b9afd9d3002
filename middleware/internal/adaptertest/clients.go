package adaptertest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clients checks that the work of a client that closes its connection ends, and the lock with it.
func clients(t *testing.T, build Build) {
	b := newBench(t)
	ended, served := make(chan error, 1), make(chan struct{})
	ctx, leave := context.WithCancel(t.Context())
	h := build(t, Setup{Guard: b.Guard, Template: "order:{id}", Work: func(_ http.ResponseWriter, r *http.Request) {
		leave()
		<-r.Context().Done()
		ended <- context.Cause(r.Context())
	}})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { defer close(served); h.ServeHTTP(w, r) }))
	defer server.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/orders/7/pay", nil)
	require.NoError(t, err)
	_, err = server.Client().Do(r) //nolint:bodyclose // there is none
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, <-ended, context.Canceled)
	<-served
	assertFree(t, b.Guard, "order:7")
}

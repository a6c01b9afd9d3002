package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

func TestRoute_NobodyOverdraws(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(routes(guardtest.NewRedisGuard(t), &bank{checkTakes: 20 * time.Millisecond}))
	defer server.Close()
	var (
		all      sync.WaitGroup
		mu       sync.Mutex
		statuses = map[int]int{}
	)
	for range 10 {
		all.Go(func() {
			status, _ := call(t, http.MethodPost, server.URL+"/accounts/7/withdraw?amount=30")
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	all.Wait()
	assert.Equal(t, map[int]int{http.StatusOK: 3, http.StatusPaymentRequired: 7}, statuses)
	_, left := call(t, http.MethodGet, server.URL+"/accounts/%37")
	assert.Equal(t, "10\n", left)
}

func TestRoute_ACallerThatWaitsInVain(t *testing.T) {
	t.Parallel()
	g := guardtest.NewRedisGuard(t, guard.Wait(50*time.Millisecond))
	lease, err := g.Acquire(t.Context(), guard.Key("account:7"))
	require.NoError(t, err)
	defer lease.Release(t.Context())
	server := httptest.NewServer(routes(g, &bank{}))
	defer server.Close()
	status, body := call(t, http.MethodPost, server.URL+"/accounts/7/withdraw?amount=60")
	assert.Equal(t, http.StatusConflict, status)
	assert.Contains(t, body, `"code":"lock_wait_timeout"`)
}

func call(t *testing.T, method, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	require.NoError(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(text)
}

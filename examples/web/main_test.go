package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

func service(g *guard.Guard) http.Handler {
	return routes(g, &bank{checkTakes: 20 * time.Millisecond}, &office{paymentTakes: 20 * time.Millisecond})
}

func call(h http.Handler, method, target string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(method, target, nil))
	return rec
}

// statuses counts what n concurrent callers are answered.
func statuses(h http.Handler, n int, target func(i int) string) map[int]int {
	var callers sync.WaitGroup
	var mu sync.Mutex
	counts := map[int]int{}
	for i := range n {
		callers.Go(func() {
			code := call(h, http.MethodPost, target(i)).Code
			mu.Lock()
			defer mu.Unlock()
			counts[code]++
		})
	}
	callers.Wait()
	return counts
}

func TestAccounts_AreNotOverdrawn(t *testing.T) {
	t.Parallel()
	h := service(guardtest.NewRedisGuard(t))
	got := statuses(h, 10, func(int) string { return "/accounts/7/withdraw?amount=30" })
	assert.Equal(t, map[int]int{http.StatusOK: 3, http.StatusPaymentRequired: 7}, got)
	assert.Equal(t, "10\n", call(h, http.MethodGet, "/accounts/7").Body.String())
}

func TestSeats_AreSoldOnce(t *testing.T) {
	t.Parallel()
	h := service(guardtest.NewRedisGuard(t))
	got := statuses(h, 20, func(i int) string {
		return []string{"/shows/hamlet/seats/1", "/shows/hamlet/best"}[i%2]
	})
	assert.Equal(t, 1, got[http.StatusCreated])
	assert.Equal(t, 19, got[http.StatusConflict]+got[http.StatusGone], got)
	assert.Equal(t, http.StatusCreated, call(h, http.MethodPost, "/shows/hamlet/seats/2").Code)
	assert.Equal(t, http.StatusNotFound, call(h, http.MethodPost, "/shows/hamlet/seats/%32").Code)
}

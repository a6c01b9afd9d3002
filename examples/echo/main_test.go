package main

import (
	"log/slog"
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

func TestRoute_NoSeatIsSoldTwice(t *testing.T) {
	t.Parallel()
	e := routes(guardtest.NewRedisGuard(t), &office{paymentTakes: 20 * time.Millisecond})
	e.Logger = slog.New(slog.DiscardHandler)
	var (
		buyers sync.WaitGroup
		mu     sync.Mutex
		sold   int
	)
	for i := range 20 {
		target := "/shows/hamlet/seats/1"
		if i%2 == 0 {
			target = "/shows/hamlet/best"
		}
		buyers.Go(func() {
			rec := post(e, target)
			mu.Lock()
			defer mu.Unlock()
			switch rec.Code {
			case http.StatusCreated:
				sold++
			case http.StatusConflict:
				assert.Contains(t, rec.Body.String(), `"code":"lock_busy"`)
			default:
				assert.Equal(t, http.StatusGone, rec.Code)
			}
		})
	}
	buyers.Wait()
	assert.Equal(t, 1, sold)
	assert.Equal(t, http.StatusCreated, post(e, "/shows/hamlet/seats/2").Code)
	assert.Equal(t, http.StatusNotFound, post(e, "/shows/hamlet/seats/%32").Code)
}

func TestRoute_BothWaysLockTheSameSeat(t *testing.T) {
	t.Parallel()
	g := guardtest.NewRedisGuard(t)
	lease, err := g.Acquire(t.Context(), guard.Key("seat:hamlet:1"))
	require.NoError(t, err)
	defer lease.Release(t.Context())
	e := routes(g, &office{})
	assert.Equal(t, http.StatusConflict, post(e, "/shows/hamlet/seats/1").Code)
	assert.Equal(t, http.StatusConflict, post(e, "/shows/hamlet/best").Code)
}

func post(h http.Handler, target string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, target, nil))
	return rec
}

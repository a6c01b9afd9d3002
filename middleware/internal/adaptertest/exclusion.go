package adaptertest

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
)

// exclusion fires requests over connections for one key at two servers at once, which is two processes as
// far as Redis can tell.
func exclusion(t *testing.T, build Build) {
	const requests = 100
	redis, paid := redistest.Shared(t), 0 // counted under nothing but the lock
	var all sync.WaitGroup
	for range 2 {
		g, err := guard.New(redis.Client(t), guard.StoreTimeout(time.Minute))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, g.Close()) })
		server := httptest.NewServer(build(t, Setup{
			Guard: g, Template: "waiting:{id}", Options: []guard.LockOption{guard.Wait(time.Minute)},
			Work: func(w http.ResponseWriter, _ *http.Request) {
				before := paid
				runtime.Gosched()
				paid = before + 1
				w.WriteHeader(http.StatusNoContent)
			},
		}))
		t.Cleanup(server.Close)
		for range requests / 2 {
			all.Go(func() {
				res, err := server.Client().Post(server.URL+"/orders/7/pay", "", nil)
				if assert.NoError(t, err) {
					assert.NoError(t, res.Body.Close())
					assert.Equal(t, http.StatusNoContent, res.StatusCode)
				}
			})
		}
	}
	all.Wait()
	assert.Equal(t, requests, paid)
}

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

const requests = 100

// exclusion fires requests over connections for one key at two servers at once, which is two processes as
// far as Redis can tell.
func exclusion(t *testing.T, build Build) {
	paid, statuses := contend(t, build, "waiting:{id}", guard.Wait(time.Minute))
	assert.Equal(t, map[int]int{http.StatusNoContent: requests}, statuses)
	assert.Equal(t, requests, paid)
}

// contend gives how often the work was done, as counted under nothing but the lock, and
// how the requests were answered.
func contend(t *testing.T, build Build, template string, opts ...guard.LockOption) (paid int, statuses map[int]int) {
	t.Helper()
	server := redistest.Shared(t)
	var servers [2]*httptest.Server
	for i := range servers {
		g, err := guard.New(server.Client(t), guard.StoreTimeout(time.Minute))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, g.Close()) })
		servers[i] = start(t, build(t, Setup{
			Guard: g, Template: template, Options: opts,
			Work: func(w http.ResponseWriter, _ *http.Request) {
				before := paid
				runtime.Gosched()
				paid = before + 1
				w.WriteHeader(http.StatusNoContent)
			},
		}))
	}
	statuses = fire(requests, func(i int) int {
		res, err := servers[i%2].Client().Post(servers[i%2].URL+"/orders/7/pay", "", nil)
		if !assert.NoError(t, err) {
			return 0
		}
		assert.NoError(t, res.Body.Close())
		return res.StatusCode
	})
	return paid, statuses
}

// fire makes n requests at once, and counts the answers by status.
func fire(n int, request func(i int) (status int)) map[int]int {
	var (
		all      sync.WaitGroup
		mu       sync.Mutex
		statuses = map[int]int{}
	)
	for i := range n {
		all.Go(func() {
			status := request(i)
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	all.Wait()
	return statuses
}

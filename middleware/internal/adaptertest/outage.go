package adaptertest

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
)

const (
	promptly  = 1500 * time.Millisecond // for a Redis that refuses connections
	patience  = 10 * time.Second        // for whatever else has to happen in the end
	lossTTL   = 300 * time.Millisecond
	pollEvery = 10 * time.Millisecond
)

// lostOnRedis takes the lock away in Redis while the work is in the middle of it.
func lostOnRedis(t *testing.T, build Build) {
	server := redistest.Shared(t)
	rdb := server.Client(t)
	rec := serve(build(t, Setup{
		Guard: guardOn(t, server, guard.TTL(lossTTL)), Template: "loss:{id}",
		Work: func(_ http.ResponseWriter, r *http.Request) {
			assert.NoError(t, rdb.Del(r.Context(), "guard:{loss:7}").Err())
			select {
			case <-r.Context().Done():
			case <-time.After(patience):
			}
			var why *guard.LostError
			assert.ErrorAs(t, context.Cause(r.Context()), &why)
		},
	}), pay("7"))
	assert.Equal(t, http.StatusInternalServerError, rec.Code)
	assert.Contains(t, rec.Body.String(), `"code":"lock_lost"`)
}

// outages checks with the options that a Guard has by default that a request is not held
// up by a Redis that is not there, and that all is well again once it is.
func outages(t *testing.T, build Build) {
	server := redistest.Start(t)
	h := build(t, Setup{
		Guard: guardOn(t, server), Template: "outage:{header:X-Order}",
		Work: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
	})
	request := func(order string) int {
		r := pay("7")
		r.Header.Set("X-Order", order)
		return serve(h, r).Code
	}
	requireWell := func(after string) {
		t.Helper()
		well := func() bool { return request("7") == http.StatusNoContent }
		require.Eventually(t, well, patience, pollEvery, after)
	}
	requireWell("start")

	server.Kill()
	began := time.Now()
	assert.Equal(t, http.StatusServiceUnavailable, request("7"))
	assert.Less(t, time.Since(began), promptly)
	server.Restart(t)
	requireWell("stop")

	require.NoError(t, server.Pause())
	assertNoPileUp(t, request)
	require.NoError(t, server.Resume())
	requireWell("hang")
}

// assertNoPileUp sends wave upon wave, of requests for one key and for many. None may
// queue behind those that hang.
func assertNoPileUp(t *testing.T, request func(order string) int) {
	t.Helper()
	for wave := range 3 {
		began := time.Now()
		statuses := fire(requests, func(i int) int {
			if i%2 == 0 {
				return request("7")
			}
			return request(string(rune('a' + i%26)))
		})
		assert.Equal(t, map[int]int{http.StatusServiceUnavailable: requests}, statuses, "wave %d", wave)
		assert.Less(t, time.Since(began), patience/2, "wave %d", wave)
	}
}

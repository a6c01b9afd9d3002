package guardhttp_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

func TestLifecycle_TimeoutHandlerOutside(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	finished := make(chan struct{})
	h := http.TimeoutHandler(route(guardhttp.Middleware(g, guardhttp.Lock("order:{id}"))(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(finished)
			<-r.Context().Done()
			lease, ok := guard.Held(r.Context(), "order:7")
			assert.True(t, ok)
			assert.NoError(t, lease.Err(), "the lock stays until the handler returns")
		}))), 20*time.Millisecond, "late")
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, pay())
	assert.Equal(t, http.StatusServiceUnavailable, rec.Code)
	<-finished
	lease, err := g.Acquire(t.Context(), guard.Key("order:7"), guard.Wait(10*time.Second))
	require.NoError(t, err)
	assert.NoError(t, lease.Release(t.Context()))
}

package guardhttp_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// net/http does not look at the connection while there is a body to read: it is the wait
// that ends.
func TestLifecycle_ClientLeavesWithItsBodyUnread(t *testing.T) {
	t.Parallel()
	begun := &begins{wait: make(chan struct{}, 1), ended: make(chan error, 1)}
	g := guardtest.NewGuard(t, guard.Observe(begun))
	held, err := g.Acquire(t.Context(), guard.Key("order:7"))
	require.NoError(t, err)
	defer func() { _ = held.Release(t.Context()) }()
	<-begun.wait
	assert.NoError(t, <-begun.ended)
	srv := httptest.NewServer(route(guardhttp.Middleware(g, guardhttp.Lock("order:{id}", guard.Wait(200*time.Millisecond)))(http.NotFoundHandler())))
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	_, err = io.WriteString(conn, "POST /orders/7/pay HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
	require.NoError(t, err)
	<-begun.wait
	require.NoError(t, conn.Close())
	var busy *guard.BusyError
	if assert.ErrorAs(t, <-begun.ended, &busy) {
		assert.NoError(t, busy.Err, "the end of the wait, not of the request")
	}
}

// begins signals the begin and the end of waits.
type begins struct {
	guard.NopObserver
	wait  chan struct{}
	ended chan error
}

func (b *begins) WaitStart(ctx context.Context, _ guard.Lock) context.Context {
	b.wait <- struct{}{}
	return ctx
}

func (b *begins) WaitEnd(_ context.Context, _ guard.Lock, r guard.WaitResult) { b.ended <- r.Err }

// Why the package comment says that it belongs outside.
func TestLifecycle_TimeoutHandlerInsideLetsHandlersRunSideBySide(t *testing.T) {
	t.Parallel()
	running, finish := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Add(2)
	h := route(guardhttp.Middleware(guardtest.NewGuard(t), guardhttp.Lock("order:{id}"))(http.TimeoutHandler(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			defer all.Done()
			running <- struct{}{}
			<-finish
		}), time.Millisecond, "late")))
	for range 2 {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, pay())
		assert.Equal(t, http.StatusServiceUnavailable, rec.Code)
	}
	for range 2 {
		<-running // both, and neither has finished
	}
	close(finish)
	all.Wait()
}

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

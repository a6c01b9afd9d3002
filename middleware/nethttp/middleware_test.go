package guardhttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

func pay() *http.Request { return httptest.NewRequest(http.MethodPost, "/orders/7/pay", nil) }

// route serves POST /orders/{id}/pay.
func route(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", h)
	return mux
}

func TestMiddleware_NameWithoutAPatternIsTheMethod(t *testing.T) {
	t.Parallel()
	recorder := &guardtest.Recorder{}
	g := guardtest.NewMemoryGuard(t, guard.Observe(recorder), guard.Name("of the guard"))
	h := guardhttp.Middleware(g, guardhttp.Lock("k"))(http.NotFoundHandler())
	h.ServeHTTP(httptest.NewRecorder(), pay())
	seen := recorder.Observations("WaitStart")
	require.Len(t, seen, 1)
	assert.Equal(t, "POST", seen[0].Lock.Name)
}

// A router that is no http.ServeMux sets path values, and no pattern. A wildcard of the pattern may be empty.
func TestMiddleware_PathValues(t *testing.T) {
	t.Parallel()
	g := guardtest.NewMemoryGuard(t)
	keys := make(chan string, 1)
	h := guardhttp.Middleware(g, guardhttp.Lock("{rest}"))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		lease, _ := guard.FromContext(r.Context())
		keys <- lease.Key()
	}))
	r := pay()
	r.SetPathValue("rest", "7")
	h.ServeHTTP(httptest.NewRecorder(), r)
	assert.Equal(t, "7", <-keys)

	mux := http.NewServeMux()
	mux.Handle("/files/{rest...}", h)
	mux.Handle("/all", h)
	for path, want := range map[string]int{"/files/": http.StatusBadRequest, "/all": http.StatusInternalServerError} {
		rec := httptest.NewRecorder()
		mux.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		assert.Equal(t, want, rec.Code, path)
	}
}

func TestMiddleware_OuterLayersSeeThePattern(t *testing.T) {
	t.Parallel()
	g := guardtest.NewMemoryGuard(t)
	inner := route(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }))
	h := guardhttp.Middleware(g, guardhttp.Lock("k"))(inner)
	r := pay()
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() { h.ServeHTTP(httptest.NewRecorder(), r) })
	assert.Equal(t, "POST /orders/{id}/pay", r.Pattern)
	_, held := guard.FromContext(r.Context())
	assert.False(t, held, "the outer request keeps its context")
}

// A TimeoutHandler answers while the handler still works, and the lock is held until that returns.
func TestMiddleware_BelowATimeoutHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, mayReturn := guardtest.NewMemoryGuard(t), make(chan struct{})
		h := http.TimeoutHandler(route(guardhttp.Middleware(g, guardhttp.Lock("order:{id}"))(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				<-mayReturn
				_, err := io.WriteString(w, "late")
				assert.ErrorIs(t, err, http.ErrHandlerTimeout)
			}))), time.Second, "too slow")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, pay())
		assert.Equal(t, http.StatusServiceUnavailable, rec.Code)
		assert.Equal(t, "too slow", rec.Body.String())
		_, err := g.Acquire(t.Context(), guard.Key("order:7"), guard.NoWait())
		assert.ErrorIs(t, err, guard.ErrBusy)
		close(mayReturn)
		lease, err := g.Acquire(t.Context(), guard.Key("order:7"), guard.Wait(time.Second))
		require.NoError(t, err)
		assert.NoError(t, lease.Release(t.Context()))
	})
}

package guardhttp_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
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

func TestMiddleware_UploadsLeaveNoFiles(t *testing.T) {
	// Not parallel: it looks at what is in the directory for temporary files.
	t.Setenv("TMPDIR", t.TempDir())
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("f", "f")
	require.NoError(t, err)
	_, err = part.Write(make([]byte, 1<<16))
	require.NoError(t, err)
	require.NoError(t, form.Close())

	var during int
	srv := httptest.NewServer(route(guardhttp.Middleware(guardtest.NewMemoryGuard(t), guardhttp.Lock("order:{id}"))(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			assert.NoError(t, r.ParseMultipartForm(1))
			during = files(t)
		}))))
	res, err := http.Post(srv.URL+"/orders/7/pay", form.FormDataContentType(), &body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	srv.Close()
	http.DefaultClient.CloseIdleConnections()
	assert.Equal(t, 1, during)
	assert.Zero(t, files(t))
}

func files(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	return len(entries)
}

// Informational answers reach the client while the handler still works.
func TestAnswer_EarlyHintsAreNotHeldBack(t *testing.T) {
	t.Parallel()
	hinted := make(chan int)
	g := guardtest.NewMemoryGuard(t)
	srv := httptest.NewServer(guardhttp.Middleware(g, guardhttp.Lock("k"))(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			assert.Equal(t, http.StatusEarlyHints, <-hinted)
			w.WriteHeader(http.StatusNoContent)
		})))
	defer srv.Close()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { hinted <- code; return nil },
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)
	require.NoError(t, err)
	res, err := srv.Client().Do(r)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	assert.Equal(t, http.StatusNoContent, res.StatusCode)
}

// Trailers are set after the status.
func TestAnswer_TrailersAreNotHeldBackWithTheStatus(t *testing.T) {
	t.Parallel()
	g := guardtest.NewMemoryGuard(t)
	srv := httptest.NewServer(guardhttp.Middleware(g, guardhttp.Lock("k"))(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			w.WriteHeader(http.StatusOK)
			w.Header().Set("X-Sum", "7")
			_, _ = io.WriteString(w, "body")
		})))
	defer srv.Close()
	res, err := srv.Client().Get(srv.URL)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	_, err = io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, http.Header{"X-Sum": {"7"}}, res.Trailer)
	assert.Empty(t, res.Header.Get("X-Sum"))
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

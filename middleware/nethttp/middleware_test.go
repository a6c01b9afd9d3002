package guardhttp_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

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

func TestMiddleware_MisuseIsRefusedAtConstruction(t *testing.T) {
	t.Parallel()
	guarded := guardhttp.Middleware(guardtest.NewGuard(t), guardhttp.Lock("order:{id}").Skip(nil).OnError(nil))
	assert.Equal(t, "guardhttp: no handler", panicText(func() { guarded(nil) }))
	assert.Equal(t, "guardhttp: no handler", panicText(func() { guarded(http.HandlerFunc(nil)) }))
}

func TestMiddleware_NameWithoutAPatternIsTheMethod(t *testing.T) {
	t.Parallel()
	recorder := &guardtest.Recorder{}
	g := guardtest.NewGuard(t, guard.Observe(recorder), guard.Name("of the guard"))
	h := guardhttp.Middleware(g, guardhttp.Lock("k"))(http.NotFoundHandler())
	h.ServeHTTP(httptest.NewRecorder(), pay())
	seen := recorder.Observations("WaitStart")
	require.Len(t, seen, 1)
	assert.Equal(t, "POST", seen[0].Lock.Name)
}

func TestMiddleware_OuterLayersSeeThePattern(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
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
	srv := httptest.NewServer(route(guardhttp.Middleware(guardtest.NewGuard(t), guardhttp.Lock("order:{id}"))(
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

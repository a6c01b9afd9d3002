package guardhttp_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

func pay() *http.Request { return httptest.NewRequest(http.MethodPost, "/orders/7/pay", nil) }

func TestMiddleware_NameWithoutAPatternIsTheMethod(t *testing.T) {
	t.Parallel()
	recorder := &guardtest.Recorder{}
	g := guardtest.NewMemoryGuard(t, guard.Observe(recorder))
	guardhttp.Middleware(g, guardhttp.Lock("k"))(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), pay())
	assert.Equal(t, "POST", recorder.Observations("WaitStart")[0].Lock.Name)
}

// A router that is no http.ServeMux sets path values, and no pattern. A wildcard of the pattern may be empty.
func TestMiddleware_PathValuesOfAnyRouter(t *testing.T) {
	t.Parallel()
	h := guardhttp.Middleware(guardtest.NewMemoryGuard(t), guardhttp.Lock("{rest}"))(showKey)
	r, rec := pay(), httptest.NewRecorder()
	r.SetPathValue("rest", "7")
	h.ServeHTTP(rec, r)
	assert.Equal(t, "7", rec.Body.String())

	mux := http.NewServeMux()
	mux.Handle("/files/{rest...}", h)
	mux.Handle("/all", h)
	assert.Equal(t, "Bad Request", ask(mux, "GET /files/"))
	assert.Equal(t, "Internal Server Error", ask(mux, "GET /all"))
}

func TestMiddleware_OuterLayersSeeThePattern(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{id}/pay", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	h := guardhttp.Middleware(guardtest.NewMemoryGuard(t), guardhttp.Lock("k"))(mux)
	r := pay()
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() { h.ServeHTTP(httptest.NewRecorder(), r) })
	assert.Equal(t, "POST /orders/{id}/pay", r.Pattern)
	_, held := guard.FromContext(r.Context())
	assert.False(t, held, "the outer request keeps its context")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) { adaptertest.Suite(t, build) } //nolint:paralleltest // see Suite

func build(_ testing.TB, s adaptertest.Setup) http.Handler {
	mux, routes := http.NewServeMux(), guardhttp.Routes{}
	var work http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Work(w, r)
		if s.InCode != nil {
			guardhttp.WriteError(w, r, s.InCode(r.Context()))
		}
	})
	if !s.Unguarded && !s.Table {
		work = guardhttp.Middleware(s.Guard, s.Rule())(work)
	}
	for _, method := range adaptertest.Methods {
		mux.Handle(method+" "+s.Route(), work)
	}
	if s.Unguarded || !s.Table {
		return mux
	}
	for _, method := range adaptertest.Methods {
		routes[method+" "+s.Route()] = s.Rule()
	}
	return guardhttp.Annotate(s.Guard, mux, routes)
}

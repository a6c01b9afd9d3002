package guardhttp_test

import (
	"net/http"
	"os"
	"testing"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

var adapter = adaptertest.Adapter{Build: build, Check: check, ParseKey: parseKey}

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

func check(rows ...string) error {
	mux, routes := http.NewServeMux(), guardhttp.Routes{}
	mux.Handle("POST /orders/{id}/pay", http.NotFoundHandler())
	for _, row := range rows {
		routes[row] = guardhttp.Lock("all")
	}
	return guardhttp.Check(mux, routes)
}

func parseKey(template string) error {
	_, err := guardhttp.ParseKey(template)
	return err
}

func BenchmarkMiddleware(b *testing.B) { adaptertest.Bench(b, adapter) }

func TestSuite(t *testing.T) {
	t.Parallel()
	adaptertest.Suite(t, adapter)
}

func TestSuite_OnRedis(t *testing.T) {
	t.Parallel()
	adaptertest.OnRedis(t, adapter)
}

// Not parallel: it replaces slog's default logger.
func TestSuite_Logs(t *testing.T) {
	adaptertest.Logs(t, adapter)
	adaptertest.LogsLoss(t, adapter)
}

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

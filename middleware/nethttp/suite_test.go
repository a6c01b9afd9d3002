package guardhttp_test

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

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

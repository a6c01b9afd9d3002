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

func ruleOf(s adaptertest.Setup) guardhttp.Rule {
	rule := guardhttp.LockFunc(nil, s.Options...)
	switch {
	case s.Key != nil:
		rule = guardhttp.LockFunc(func(*http.Request) (string, error) { return s.Key() }, s.Options...)
	case s.Template != "":
		rule = guardhttp.Lock(s.Template, s.Options...)
	}
	if s.OnError != nil {
		rule = rule.OnError(func(w http.ResponseWriter, r *http.Request, err error) {
			s.OnError(err)
			guardhttp.WriteError(w, r, err)
		})
	}
	return adaptertest.Change(s, rule).Unlocked(func(*http.Request) bool { return s.Unlocked })
}

func build(_ testing.TB, s adaptertest.Setup) http.Handler {
	mux, routes := http.NewServeMux(), guardhttp.Routes{}
	var work http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Work(w, r)
		if s.InCode != nil {
			guardhttp.WriteError(w, r, s.InCode(r.Context()))
		}
	})
	if !s.Unguarded && !s.Table {
		work = guardhttp.Middleware(s.Guard, ruleOf(s))(work)
	}
	for _, method := range adaptertest.Methods {
		mux.Handle(method+" "+s.Route(), work)
	}
	if s.Unguarded || !s.Table {
		return mux
	}
	for _, method := range adaptertest.Methods {
		routes[method+" "+s.Route()] = ruleOf(s)
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

// Not parallel: it listens to what is logged.
func TestSuite_Logs(t *testing.T) {
	adaptertest.Logs(t, adapter)
	adaptertest.LogsLoss(t, adapter)
}

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

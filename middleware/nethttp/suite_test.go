package guardhttp_test

import (
	"net/http"
	"testing"

	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

func parts(s adaptertest.Setup) (key guardhttp.KeyFunc, opts []guardhttp.Option) {
	opts = []guardhttp.Option{
		guardhttp.With(s.Options...),
		guardhttp.Skip(func(*http.Request) bool { return s.Skip }),
	}
	if s.OnError {
		opts = append(opts, guardhttp.OnError(guardhttp.WriteError))
	}
	if s.BusyStatus != 0 {
		opts = append(opts, guardhttp.BusyStatus(s.BusyStatus))
	}
	if s.Key != nil {
		return func(*http.Request) (string, error) { return s.Key() }, opts
	}
	return guardhttp.Key(s.Template), opts
}

func build(_ testing.TB, s adaptertest.Setup) http.Handler {
	guarded := http.Handler(s.Work)
	if !s.Unguarded {
		key, opts := parts(s)
		guarded = guardhttp.Middleware(s.Guard, key, opts...)(s.Work)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guarded)
	mux.Handle("HEAD /orders/{id}/pay", guarded)
	return mux
}

func buildAnnotated(_ testing.TB, s adaptertest.Setup) http.Handler {
	if s.Unguarded {
		return s.Work
	}
	key, opts := parts(s)
	row := guardhttp.Rule{Key: key}
	return guardhttp.Annotate(s.Guard, s.Work, guardhttp.Routes{
		"POST /orders/{id}/pay": row,
		"HEAD /orders/{id}/pay": row,
	}, opts...)
}

func TestSuite(t *testing.T) {
	t.Parallel()
	adaptertest.Suite(t, build)
}

func TestSuiteOfAnnotate(t *testing.T) {
	t.Parallel()
	adaptertest.Suite(t, buildAnnotated)
}

func TestOnRedis(t *testing.T) {
	t.Parallel()
	adaptertest.OnRedis(t, build)
}

// Not parallel: it listens to what is logged.
func TestLogs(t *testing.T) {
	adaptertest.Logs(t, build)
	adaptertest.Logs(t, buildAnnotated)
}

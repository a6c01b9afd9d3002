package guardhttp_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

func build(_ testing.TB, s adaptertest.Setup) http.Handler {
	opts := []guardhttp.Option{
		guardhttp.With(s.Options...),
		guardhttp.Skip(func(*http.Request) bool { return s.Skip }),
	}
	if s.BusyStatus != 0 {
		opts = append(opts, guardhttp.BusyStatus(s.BusyStatus))
	}
	key := guardhttp.Key(s.Template)
	if s.Key != nil {
		key = func(*http.Request) (string, error) { return s.Key() }
	}
	guarded := guardhttp.Middleware(s.Guard, key, opts...)(s.Work)
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guarded)
	mux.Handle("HEAD /orders/{id}/pay", guarded)
	return mux
}

func TestSuite(t *testing.T) {
	t.Parallel()
	adaptertest.Suite(t, build)
}

func TestExclusionOnRedis(t *testing.T) {
	t.Parallel()
	g, err := guard.New(redistest.Shared(t).Client(t), guard.StoreTimeout(time.Minute))
	require.NoError(t, err)
	defer func() { _ = g.Close() }()
	adaptertest.Exclusion(t, build, g)
}

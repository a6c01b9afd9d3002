package guardecho_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
	guardecho "github.com/redlatch/redlatch/middleware/echo"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
)

func build(tb testing.TB, s adaptertest.Setup) http.Handler {
	opts := []guardecho.Option{guardecho.With(s.Options...)}
	if s.BusyStatus != 0 {
		opts = append(opts, guardecho.BusyStatus(s.BusyStatus))
	}
	key := guardecho.Key(s.Template)
	if s.Key != nil {
		key = func(echo.Context) (string, error) { return s.Key() }
	}
	guarded, err := guardecho.Config{
		Guard:   s.Guard,
		Key:     key,
		Skipper: func(echo.Context) bool { return s.Skip },
		Options: opts,
	}.ToMiddleware()
	require.NoError(tb, err)
	e := echo.New()
	e.Match([]string{http.MethodPost, http.MethodHead}, "/orders/:id/pay", func(c echo.Context) error {
		s.Work(c.Response(), c.Request())
		return nil
	}, guarded)
	return e
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

package guardgin_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	guardgin "github.com/redlatch/redlatch/middleware/gin"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
)

func init() { gin.SetMode(gin.ReleaseMode) } // which prints nothing

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) { adaptertest.Suite(t, build) } //nolint:paralleltest // see Suite

func build(_ testing.TB, s adaptertest.Setup) http.Handler {
	engine, routes, path := newEngine(), guardgin.Routes{}, adaptertest.Colons(s.Route())
	handlers := []gin.HandlerFunc{func(c *gin.Context) {
		s.Work(c.Writer, c.Request)
		if s.InCode != nil {
			guardgin.WriteError(c, s.InCode(c.Request.Context()))
		}
		if s.Fail != nil {
			_ = c.Error(s.Fail)
		}
	}}
	switch {
	case s.Unguarded:
	case s.Table:
		for _, method := range adaptertest.Methods {
			routes[method+" "+path] = s.Rule()
		}
		engine.Use(guardgin.Annotate(s.Guard, routes))
	default:
		handlers = append([]gin.HandlerFunc{guardgin.Middleware(s.Guard, s.Rule())}, handlers...)
	}
	engine.Match(adaptertest.Methods, path, handlers...)
	return engine
}

// newEngine has the settings with which all spellings of a path reach the handlers.
func newEngine() *gin.Engine {
	engine := gin.New()
	engine.UseRawPath = true
	return engine
}

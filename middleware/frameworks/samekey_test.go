package frameworks_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	echo4 "github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardecho4 "github.com/redlatch/redlatch/middleware/echo"
	guardecho5 "github.com/redlatch/redlatch/middleware/echov5"
	guardgin "github.com/redlatch/redlatch/middleware/gin"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

const template = "order:{id}"

func FuzzSameKey(f *testing.F) { adaptertest.SameKey(f, keyServers(guardtest.NewMemoryGuard(f))) }

// keyServers serve POST /orders/{id}/pay, each with another router or adapter.
func keyServers(g *guard.Guard) map[string]http.Handler {
	middleware := guardhttp.Middleware(g, guardhttp.Lock(template))
	show := http.HandlerFunc(adaptertest.ShowKey)
	mux, bare := http.NewServeMux(), http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", middleware(show))
	bare.Handle("POST /orders/{id}/pay", show)
	servers := map[string]http.Handler{
		"ServeMux": mux,
		"Annotate": guardhttp.Annotate(g, bare, guardhttp.Routes{"POST /orders/{id}/pay": guardhttp.Lock(template)}),
	}
	for name, register := range map[string]func(chi.Router){
		"With": func(r chi.Router) { r.With(middleware).Method(http.MethodPost, "/orders/{id}/pay", show) },
		"Use of a Route": func(r chi.Router) {
			r.Route("/orders/{id}", func(r chi.Router) { r.Use(middleware); r.Method(http.MethodPost, "/pay", show) })
		},
		"Mount": func(r chi.Router) {
			r.Mount("/orders", chiServer(func(r chi.Router) { r.With(middleware).Method(http.MethodPost, "/{id}/pay", show) }))
		},
		"regular expression": func(r chi.Router) { r.With(middleware).Method(http.MethodPost, "/orders/{id:[^/]+}/pay", show) },
		"catch-all":          func(r chi.Router) { r.With(middleware).Method(http.MethodPost, "/orders/{id}/*", show) },
	} {
		servers["chi, "+name] = chiServer(register)
	}
	showGin := func(c *gin.Context) { show(c.Writer, c.Request) }
	for name, configure := range map[string]func(*gin.Engine){
		"gin":                 func(*gin.Engine) {},
		"gin, raw paths":      func(e *gin.Engine) { e.UseRawPath = true },
		"gin, escaped paths":  func(e *gin.Engine) { e.UseEscapedPath = true },
		"gin, clean paths":    func(e *gin.Engine) { e.RemoveExtraSlash = true },
		"gin, raw values":     func(e *gin.Engine) { e.UseRawPath, e.UnescapePathValues = true, false },
		"gin, escaped values": func(e *gin.Engine) { e.UseEscapedPath, e.UnescapePathValues = true, false },
		"gin, Annotate": func(e *gin.Engine) {
			e.Use(guardgin.Annotate(g, guardgin.Routes{"POST /orders/:id/pay": guardgin.Lock(template)}))
		},
	} {
		engine := gin.New()
		configure(engine)
		handlers := []gin.HandlerFunc{guardgin.Middleware(g, guardgin.Lock(template)), showGin}
		if name == "gin, Annotate" {
			handlers = handlers[1:]
		}
		engine.POST("/orders/:id/pay", handlers...)
		servers[name] = engine
	}

	work4 := func(c echo4.Context) error { show(c.Response(), c.Request()); return nil }
	guarded4, annotated4 := echo4.New(), echo4.New()
	guarded4.POST("/orders/:id/pay", work4, guardecho4.Middleware(g, guardecho4.Lock(template)))
	annotated4.Use(guardecho4.Annotate(g, guardecho4.Routes{"POST /orders/:id/pay": guardecho4.Lock(template)}))
	annotated4.POST("/orders/:id/pay", work4)
	servers["echo"], servers["echo, Annotate"] = guarded4, annotated4

	work5 := func(c *echo5.Context) error { show(c.Response(), c.Request()); return nil }
	guarded5, annotated5, wrapped5 := echo5.New(), echo5.New(), echo5.New()
	guarded5.POST("/orders/:id/pay", work5, guardecho5.Middleware(g, guardecho5.Lock(template)))
	annotated5.Use(guardecho5.Annotate(g, guardecho5.Routes{"POST /orders/:id/pay": guardecho5.Lock(template)}))
	annotated5.POST("/orders/:id/pay", work5)
	wrapped5.POST("/orders/:id/pay", work5, echo5.WrapMiddleware(middleware))
	servers["echo v5"], servers["echo v5, Annotate"], servers["echo v5, WrapMiddleware"] = guarded5, annotated5, wrapped5
	return servers
}

func chiServer(register func(chi.Router)) http.Handler {
	r := chi.NewRouter()
	register(r)
	return r
}

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	// fasthttp keeps the time for the header Date, and never stops.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

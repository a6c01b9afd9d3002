package tracing_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v4"
	echov5 "github.com/labstack/echo/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
	guardecho "github.com/redlatch/redlatch/middleware/echo"
	guardechov5 "github.com/redlatch/redlatch/middleware/echov5"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// The spans that a handler makes are below the hold, whichever adapter is around it, and
// the locks that it takes in code are, too.
func TestWorkIsBelowTheHold(t *testing.T) {
	request := func(ctx context.Context) *http.Request {
		return httptest.NewRequest(http.MethodPost, "/orders/42/pay", http.NoBody).WithContext(ctx)
	}
	for adapter, test := range map[string]struct {
		name string
		run  func(ctx context.Context, g *guard.Guard, work func(context.Context))
	}{
		"nethttp": {"POST /orders/{id}/pay", func(ctx context.Context, g *guard.Guard, work func(context.Context)) {
			mux := http.NewServeMux()
			mux.Handle("POST /orders/{id}/pay", guardhttp.Middleware(g, guardhttp.Key("order:{id}"))(
				http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { work(r.Context()) })))
			mux.ServeHTTP(httptest.NewRecorder(), request(ctx))
		}},
		"echo": {"POST /orders/:id/pay", func(ctx context.Context, g *guard.Guard, work func(context.Context)) {
			e := echo.New()
			e.POST("/orders/:id/pay", func(c echo.Context) error { work(c.Request().Context()); return nil },
				guardecho.Middleware(g, guardecho.Key("order:{id}")))
			e.ServeHTTP(httptest.NewRecorder(), request(ctx))
		}},
		"echov5": {"POST /orders/:id/pay", func(ctx context.Context, g *guard.Guard, work func(context.Context)) {
			e := echov5.New()
			e.POST("/orders/:id/pay", func(c *echov5.Context) error { work(c.Request().Context()); return nil },
				guardechov5.Middleware(g, guardechov5.Key("order:{id}")))
			e.ServeHTTP(httptest.NewRecorder(), request(ctx))
		}},
		"asynq": {"order:charge", func(ctx context.Context, g *guard.Guard, work func(context.Context)) {
			tasks := asynq.NewServeMux()
			tasks.Use(guardasynq.Middleware(g, guardasynq.Key("order:{order_id}")))
			tasks.HandleFunc("order:charge", func(ctx context.Context, _ *asynq.Task) error { work(ctx); return nil })
			require.NoError(t, tasks.ProcessTask(ctx, asynq.NewTask("order:charge", []byte(`{"order_id":42}`))))
		}},
	} {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			r := newRig()
			g := guardtest.NewGuard(t, guard.Observe(r))
			ctx, caller := r.caller(t.Context())
			test.run(ctx, g, func(ctx context.Context) {
				ctx, own := r.tracers.Tracer("test").Start(ctx, "charge")
				defer own.End()
				assert.NoError(t, guard.WithLock(ctx, guard.Key("stock"), nothing, guard.Name("stock")))
			})
			caller.End()

			parents := map[string]string{}
			names := map[any]string{}
			for _, span := range r.spans.Ended() {
				names[span.SpanContext().SpanID()] = span.Name()
			}
			for _, span := range r.spans.Ended() {
				parents[span.Name()] = names[span.Parent().SpanID()]
			}
			assert.Equal(t, map[string]string{
				"caller": "", "acquire " + test.name: "caller", "hold " + test.name: "caller",
				"charge": "hold " + test.name, "acquire stock": "charge", "hold stock": "charge",
			}, parents)
		})
	}
}

package stack_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v4"
	echov5 "github.com/labstack/echo/v5"
	"github.com/stretchr/testify/assert"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
	guardecho "github.com/redlatch/redlatch/middleware/echo"
	guardechov5 "github.com/redlatch/redlatch/middleware/echov5"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
	"github.com/redlatch/redlatch/tracing"
)

// adapters run work under the lock order:42, each in its own way; name is the lock's.
var adapters = map[string]struct {
	name string
	run  func(ctx context.Context, g *guard.Guard, work func(context.Context))
}{
	"nethttp": {"POST /orders/{id}/pay", func(ctx context.Context, g *guard.Guard, work func(context.Context)) {
		mux := http.NewServeMux()
		mux.Handle("POST /orders/{id}/pay", guardhttp.Middleware(g, guardhttp.Lock("order:{id}"))(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { work(r.Context()) })))
		mux.ServeHTTP(httptest.NewRecorder(), payOrder(ctx))
	}},
	"echo": {"POST /orders/:id/pay", func(ctx context.Context, g *guard.Guard, work func(context.Context)) {
		e := echo.New()
		e.POST("/orders/:id/pay", func(c echo.Context) error { work(c.Request().Context()); return nil },
			guardecho.Middleware(g, guardecho.Lock("order:{id}")))
		e.ServeHTTP(httptest.NewRecorder(), payOrder(ctx))
	}},
	"echov5": {"POST /orders/:id/pay", func(ctx context.Context, g *guard.Guard, work func(context.Context)) {
		e := echov5.New()
		e.POST("/orders/:id/pay", func(c *echov5.Context) error { work(c.Request().Context()); return nil },
			guardechov5.Middleware(g, guardechov5.Lock("order:{id}")))
		e.ServeHTTP(httptest.NewRecorder(), payOrder(ctx))
	}},
	"asynq": {"order:charge", func(ctx context.Context, g *guard.Guard, work func(context.Context)) {
		tasks := asynq.NewServeMux()
		tasks.Use(guardasynq.Middleware(g, guardasynq.Lock("order:{order_id}")))
		tasks.HandleFunc("order:charge", func(ctx context.Context, _ *asynq.Task) error { work(ctx); return nil })
		_ = tasks.ProcessTask(ctx, asynq.NewTask("order:charge", []byte(`{"order_id":42}`)))
	}},
}

// traces is an observer whose spans a test can look at.
type traces struct {
	observer guard.Observer
	spans    *tracetest.SpanRecorder
	tracer   trace.Tracer
}

func newTraces() *traces {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	return &traces{tracing.New(tracing.WithTracerProvider(provider)), spans, provider.Tracer("test")}
}

func nothing(context.Context) error { return nil }

func payOrder(ctx context.Context) *http.Request {
	return httptest.NewRequest(http.MethodPost, "/orders/42/pay", http.NoBody).WithContext(ctx)
}

// The spans that a handler makes are below the hold, whichever adapter is around it, and
// the locks that it takes in code are, too.
func TestTracing_WorkIsBelowTheHold(t *testing.T) {
	for adapter, test := range adapters {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			r := newTraces()
			g := guardtest.NewGuard(t, guard.Observe(r.observer))
			ctx, caller := r.tracer.Start(t.Context(), "caller")
			test.run(ctx, g, func(ctx context.Context) {
				ctx, own := r.tracer.Start(ctx, "charge")
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

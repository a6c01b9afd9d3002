package stack_test

import (
	"context"
	"fmt"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
	"github.com/redlatch/redlatch/tracing"
)

var propagator = propagation.TraceContext{}

// printer stands for an exporter.
func printer() (*sdktrace.TracerProvider, func()) {
	spans := tracetest.NewSpanRecorder()
	names := map[any]string{}
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), func() {
		for _, span := range spans.Started() {
			names[span.SpanContext().SpanID()] = span.Name()
			fmt.Printf("%s, below %q\n", span.Name(), names[span.Parent().SpanID()])
		}
	}
}

// newTask makes a task that knows the trace of its sender.
func newTask(ctx context.Context, kind string, payload []byte) *asynq.Task {
	headers := propagation.MapCarrier{}
	propagator.Inject(ctx, headers)
	return asynq.NewTaskWithHeaders(kind, payload, headers)
}

// traced begins a span for each run of a task. The headers of a task that was made
// without any are nil, which is as good as empty.
func traced(tracer trace.Tracer) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
			ctx = propagator.Extract(ctx, propagation.MapCarrier(t.Headers()))
			ctx, span := tracer.Start(ctx, "process "+t.Type(), trace.WithSpanKind(trace.SpanKindConsumer))
			defer span.End()
			return next.ProcessTask(ctx, t)
		})
	}
}

// Guard does not propagate traces. A middleware outside its own does, with the headers of
// the task: the lock is in the trace of the request that enqueued the task.
func Example_tracedTasks() {
	provider, print := printer()
	tracer := provider.Tracer("shop")
	g, err := guard.NewWithStore(guardtest.NewStore(), guard.Observe(tracing.New(tracing.WithTracerProvider(provider))))
	if err != nil {
		panic(err)
	}
	defer g.Close()

	tasks := asynq.NewServeMux()
	tasks.Use(traced(tracer), guardasynq.Middleware(g, guardasynq.Lock("order:{order_id}")))
	tasks.HandleFunc("order:charge", func(context.Context, *asynq.Task) error { return nil })

	ctx, request := tracer.Start(context.Background(), "POST /orders/42/charge")
	task := newTask(ctx, "order:charge", []byte(`{"order_id":42}`))
	request.End()

	// An asynq.Client and an asynq.Server would be between these.
	fmt.Println(tasks.ProcessTask(context.Background(), task))
	print()
	// Output:
	// <nil>
	// POST /orders/42/charge, below ""
	// process order:charge, below "POST /orders/42/charge"
	// acquire order:charge, below "process order:charge"
	// hold order:charge, below "process order:charge"
}

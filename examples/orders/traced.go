package main

import (
	"context"
	"net/http"

	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// What is here makes the spans around the locks'. In a program of your own the middleware
// of OpenTelemetry's contrib repository makes those of requests.

var propagator = propagation.TraceContext{}

// route makes a span for each request to echo.
func (t *telemetry) route(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		traced, span := t.request(r, r.Method+" "+c.Path())
		defer span.End()
		c.SetRequest(traced)
		defer c.SetRequest(r)
		return next(c)
	}
}

// handler makes a span for each request to a handler of an http.ServeMux.
func (t *telemetry) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		traced, span := t.request(r, r.Pattern)
		defer span.End()
		next.ServeHTTP(w, traced)
	})
}

func (t *telemetry) request(r *http.Request, name string) (*http.Request, trace.Span) {
	ctx := propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	return r.WithContext(ctx), span
}

// headers tell a task of the trace that it belongs to.
func (t *telemetry) headers(ctx context.Context) map[string]string {
	carrier := propagation.MapCarrier{}
	propagator.Inject(ctx, carrier)
	return carrier
}

// task makes a span for each run of a task, in the trace that its headers tell of.
func (t *telemetry) task(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		ctx = propagator.Extract(ctx, propagation.MapCarrier(task.Headers()))
		ctx, span := t.tracer.Start(ctx, "process "+task.Type(), trace.WithSpanKind(trace.SpanKindConsumer))
		defer span.End()
		return next.ProcessTask(ctx, task)
	})
}

package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// collector keeps what is exported to it, by path.
type collector struct {
	mu   sync.Mutex
	sent map[string]*bytes.Buffer
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent[r.URL.Path] == nil {
		c.sent[r.URL.Path] = new(bytes.Buffer)
	}
	_, _ = io.Copy(c.sent[r.URL.Path], r.Body)
	w.WriteHeader(http.StatusOK)
}

func (c *collector) got(path string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.sent[path]; b != nil {
		return b.String()
	}
	return ""
}

func TestExportsToACollector(t *testing.T) {
	t.Parallel()
	c := &collector{sent: map[string]*bytes.Buffer{}}
	server := httptest.NewServer(c)
	defer server.Close()
	code, _, stderr := orders(t, "", "-orders", "4", "-attempts", "4", "-otlp", strings.TrimPrefix(server.URL, "http://"))
	require.Equal(t, exitOK, code, stderr)
	// Protocol buffers hold names as they are.
	for _, span := range []string{
		"POST /orders/:id/pay", "acquire POST /orders/:id/pay", "hold POST /orders/:id/pay",
		"acquire POST /admin/orders/{id}/settle", "process order:charge", "hold order:charge", "hold stock",
		"guard.lock.key", "order:4",
	} {
		assert.Contains(t, c.got("/v1/traces"), span)
	}
	assert.Contains(t, c.got("/v1/metrics"), "guard.lock.wait.duration")
	assert.NotContains(t, c.got("/v1/metrics"), "order:4")
}

func TestNothingIsExportedByDefault(t *testing.T) {
	t.Parallel()
	signals, err := startTelemetry(t.Context(), options{})
	require.NoError(t, err)
	assert.Nil(t, signals.observer)
	assert.Empty(t, signals.metricsURL)
	assert.NoError(t, signals.stop(t.Context()))
}

func TestTelemetryThatCannotStart(t *testing.T) {
	t.Parallel()
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	code, _, stderr := orders(t, "", "-otlp", "127.0.0.1:1", "-metrics", strings.TrimPrefix(taken.URL, "http://"))
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "address already in use")
}

// A task runs in the trace of the request that enqueued it.
func TestTracesCrossTheQueue(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	signals := &telemetry{tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("orders")}
	ctx, request := signals.tracer.Start(t.Context(), "request")
	task := asynq.NewTaskWithHeaders(taskCharge, nil, signals.headers(ctx))
	request.End()

	var work trace.SpanContext
	handler := signals.task(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		work = trace.SpanContextFromContext(ctx)
		return nil
	}))
	require.NoError(t, handler.ProcessTask(t.Context(), task))
	process := spans.Ended()[1]
	assert.Equal(t, "process order:charge", process.Name())
	assert.Equal(t, process.SpanContext(), work)
	assert.Equal(t, request.SpanContext().SpanID(), process.Parent().SpanID())

	require.NoError(t, handler.ProcessTask(t.Context(), asynq.NewTask(taskCharge, nil)), "a task without headers")
	assert.False(t, spans.Ended()[2].Parent().IsValid())
}

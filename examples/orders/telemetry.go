package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/tracing"
)

const (
	exportInterval = 5 * time.Second
	exportTimeout  = 5 * time.Second
)

// telemetry is where spans and metrics go: nowhere, unless a flag says so.
type telemetry struct {
	observer   guard.Observer // nil if nothing is exported
	tracer     trace.Tracer
	metricsURL string // "" without -metrics

	stops []func(context.Context) error // in the order of starting
}

// startTelemetry exports what the flags ask for. What it started is down again if it
// fails.
func startTelemetry(ctx context.Context, opts options) (*telemetry, error) {
	t := &telemetry{tracer: noop.NewTracerProvider().Tracer("")}
	if opts.otlp == "" && opts.metrics == "" {
		return t, nil
	}
	if err := t.start(ctx, opts); err != nil {
		return nil, errors.Join(err, t.stop(ctx))
	}
	return t, nil
}

func (t *telemetry) start(ctx context.Context, opts options) error {
	service := resource.NewSchemaless(attribute.String("service.name", "orders"))
	spans := []sdktrace.TracerProviderOption{sdktrace.WithResource(service)}
	meters := []sdkmetric.Option{sdkmetric.WithResource(service)}
	if opts.metrics != "" {
		reader, err := t.serveMetrics(ctx, opts.metrics)
		if err != nil {
			return err
		}
		meters = append(meters, reader)
	}
	if opts.otlp != "" {
		batches, reader, err := otlp(ctx, opts.otlp)
		if err != nil {
			return err
		}
		spans, meters = append(spans, batches), append(meters, reader)
	} else {
		spans = append(spans, sdktrace.WithSampler(sdktrace.NeverSample()))
	}
	tracers, metrics := sdktrace.NewTracerProvider(spans...), sdkmetric.NewMeterProvider(meters...)
	t.stops = append(t.stops, tracers.Shutdown, metrics.Shutdown)
	t.tracer = tracers.Tracer("orders")
	t.observer = tracing.New(
		tracing.WithTracerProvider(tracers), tracing.WithMeterProvider(metrics),
		tracing.WithKey(), // the numbers of orders are no secret here
	)
	return nil
}

// otlp exports to a collector. What it does not take is not kept for later.
func otlp(ctx context.Context, addr string) (sdktrace.TracerProviderOption, sdkmetric.Option, error) {
	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpoint(addr), otlptracehttp.WithInsecure(),
		otlptracehttp.WithTimeout(exportTimeout), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
	if err != nil {
		return nil, nil, err
	}
	metrics, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpoint(addr), otlpmetrichttp.WithInsecure(),
		otlpmetrichttp.WithTimeout(exportTimeout), otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{}))
	if err != nil {
		return nil, nil, errors.Join(err, spans.Shutdown(ctx))
	}
	return sdktrace.WithBatcher(spans, sdktrace.WithBatchTimeout(exportInterval)),
		sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metrics, sdkmetric.WithInterval(exportInterval))), nil
}

// serveMetrics serves them as text, for Prometheus.
func (t *telemetry) serveMetrics(ctx context.Context, addr string) (sdkmetric.Option, error) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	t.metricsURL = "http://" + reachable(listener.Addr().String()) + "/metrics"
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: readHeaderTimeout}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.stops = append(t.stops, func(ctx context.Context) error {
		err := server.Shutdown(ctx)
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		return err
	})
	return sdkmetric.WithReader(exporter), nil
}

// stop exports what is left.
func (t *telemetry) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	var err error
	for i := range t.stops {
		err = errors.Join(err, t.stops[len(t.stops)-1-i](ctx))
	}
	return err
}

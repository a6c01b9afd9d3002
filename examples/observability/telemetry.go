package main

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/tracing"
)

const exportTime = 5 * time.Second // between two exports, and the longest for one

// telemetry is an Observer of locks, and the exporters of its spans and metrics.
type telemetry struct {
	observer guard.Observer
	metrics  http.Handler // for Prometheus
	shutdown func(ctx context.Context) error
}

// newTelemetry exports to the collector at an address, if there is one. Data that the collector does not take is dropped.
func newTelemetry(ctx context.Context, collector string) (*telemetry, error) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		return nil, err
	}
	service := resource.NewSchemaless(attribute.String("service.name", "orders"))
	spans := []sdktrace.TracerProviderOption{sdktrace.WithResource(service)}
	meters := []sdkmetric.Option{sdkmetric.WithResource(service), sdkmetric.WithReader(exporter)}
	if collector != "" {
		batches, reader, err := otlp(ctx, collector)
		if err != nil {
			return nil, err
		}
		spans, meters = append(spans, batches), append(meters, reader)
	}
	tracers, metrics := sdktrace.NewTracerProvider(spans...), sdkmetric.NewMeterProvider(meters...)
	return &telemetry{
		observer: tracing.New(tracing.WithTracerProvider(tracers), tracing.WithMeterProvider(metrics),
			tracing.WithKey()), // the numbers of orders are no secret here
		metrics:  promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}),
		shutdown: func(ctx context.Context) error { return errors.Join(tracers.Shutdown(ctx), metrics.Shutdown(ctx)) },
	}, nil
}

func otlp(ctx context.Context, addr string) (sdktrace.TracerProviderOption, sdkmetric.Option, error) {
	if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
		return nil, nil, fmt.Errorf("-otlp %q is not host:port", addr)
	}
	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpoint(addr), otlptracehttp.WithInsecure(),
		otlptracehttp.WithTimeout(exportTime), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
	if err != nil {
		return nil, nil, err
	}
	metrics, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpoint(addr), otlpmetrichttp.WithInsecure(),
		otlpmetrichttp.WithTimeout(exportTime), otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{}))
	if err != nil {
		return nil, nil, errors.Join(err, spans.Shutdown(ctx))
	}
	return sdktrace.WithBatcher(spans, sdktrace.WithBatchTimeout(exportTime)),
		sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metrics, sdkmetric.WithInterval(exportTime))), nil
}

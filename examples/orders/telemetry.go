package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
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

const exportTime = 5 * time.Second // between two, and for one

// observe exports what the flags ask for. Without flags there is no Observer.
func (a *app) observe(ctx context.Context, stderr io.Writer) (guard.Observer, error) {
	if a.opts.otlp == "" && a.opts.metrics == "" {
		return nil, nil
	}
	service := resource.NewSchemaless(attribute.String("service.name", "orders"), attribute.String("service.instance.id", rand.Text()))
	spans := []sdktrace.TracerProviderOption{sdktrace.WithResource(service)}
	meters := []sdkmetric.Option{sdkmetric.WithResource(service)}
	if a.opts.metrics != "" {
		registry := prometheus.NewRegistry()
		exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
		if err != nil {
			return nil, err
		}
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
		url, err := a.serve(ctx, a.opts.metrics, mux)
		if err != nil {
			return nil, err
		}
		say(stderr, "metrics on %s/metrics\n", url)
		meters = append(meters, sdkmetric.WithReader(exporter))
	}
	if a.opts.otlp == "" {
		spans = append(spans, sdktrace.WithSampler(sdktrace.NeverSample()))
	} else {
		batches, reader, err := otlp(ctx, a.opts.otlp)
		if err != nil {
			return nil, err
		}
		spans, meters = append(spans, batches), append(meters, reader)
	}
	tracers, metrics := sdktrace.NewTracerProvider(spans...), sdkmetric.NewMeterProvider(meters...)
	a.stops = append(a.stops, tracers.Shutdown, metrics.Shutdown)
	return tracing.New(tracing.WithTracerProvider(tracers), tracing.WithMeterProvider(metrics),
		tracing.WithKey()), nil // the numbers of orders are no secret here
}

// otlp exports to a collector. What it does not take is not kept for later.
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

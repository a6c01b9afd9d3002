package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/redis/go-redis/v9"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
	"github.com/redlatch/redlatch/tracing"
)

func ExampleNew() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()

	g, err := guard.New(rdb, guard.Observe(tracing.New()))
	if err != nil {
		panic(err)
	}
	defer g.Close()
}

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

func Example_spans() {
	provider, print := printer()
	tracer := provider.Tracer("shop")
	g, err := guard.NewWithStore(guardtest.NewStore(), guard.Observe(tracing.New(tracing.WithTracerProvider(provider))))
	if err != nil {
		panic(err)
	}
	defer g.Close()

	ctx, request := tracer.Start(context.Background(), "POST /orders/42/pay")
	err = g.WithLock(ctx, guard.Key("order:42"), func(ctx context.Context) error {
		_, charge := tracer.Start(ctx, "charge the card")
		defer charge.End()
		return nil
	}, guard.Name("order-payment"))
	request.End()
	fmt.Println(err)
	print()
	// Output:
	// <nil>
	// POST /orders/42/pay, below ""
	// acquire order-payment, below "POST /orders/42/pay"
	// hold order-payment, below "POST /orders/42/pay"
	// charge the card, below "hold order-payment"
}

// A caller that waits learns which caller holds the lock, and its span links to the holder's trace.
func ExampleMetadata() {
	g, err := guard.NewWithStore(guardtest.NewStore())
	if err != nil {
		panic(err)
	}
	defer g.Close()

	ctx := context.Background() // in a server, the request's
	err = g.WithLock(ctx, guard.Key("order:42"), func(context.Context) error {
		return g.WithLock(context.Background(), guard.Key("order:42"), nothing, guard.NoWait())
	}, tracing.Metadata(ctx, "worker-7"))
	var busy *guard.BusyError
	fmt.Println(errors.As(err, &busy), busy.Holder)
	// Output:
	// true worker-7
}

// Routes set no metadata of their own. Set for a Guard, callers that wait for a route learn of
// its trace, in whichever process they are.
func ExampleTraceparent() {
	provider := sdktrace.NewTracerProvider()
	g, err := guard.NewWithStore(guardtest.NewStore(), guard.MetadataFunc(tracing.Traceparent))
	if err != nil {
		panic(err)
	}
	defer g.Close()

	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guardhttp.Middleware(g, guardhttp.Lock("order:{id}"))(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			err := g.WithLock(context.Background(), guard.Key("order:42"), nothing, guard.NoWait())
			var busy *guard.BusyError
			fmt.Println(errors.As(err, &busy), strings.HasPrefix(busy.Holder, "traceparent=00-"))
		})))

	ctx, request := provider.Tracer("shop").Start(context.Background(), "POST /orders/42/pay")
	defer request.End()
	mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/orders/42/pay", http.NoBody))
	// Output:
	// true true
}

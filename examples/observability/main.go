// Command observability has customers pay three orders all the time, so that there is something to see on the dashboard,
// in the traces and on the page of locks.
//
//	go run ./examples/observability -serve 127.0.0.1:8080 -otlp localhost:4318
//
// It serves /metrics for Prometheus, and the page /locks/. It brings its own Redis, in this process, unless REDIS_URL
// names another.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/embedded"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/inspect/guardweb"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
	"github.com/redlatch/redlatch/tracing"
)

const (
	orders    = 3
	customers = 4 * orders
	prefix    = "observability"
)

func main() {
	serve := flag.String("serve", "127.0.0.1:8080", "serve on this `address`")
	otlp := flag.String("otlp", "", "export spans and metrics to the OpenTelemetry collector at `host:port`, by OTLP over HTTP without TLS")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *serve, *otlp, os.Getenv("REDIS_URL"), os.Stdout); err != nil {
		log.Fatal("observability: ", err) //nolint:gocritic // nothing is left to do
	}
}

// run serves until ctx ends. Customers come all the time.
func run(ctx context.Context, addr, otlp, redisURL string, stdout io.Writer) (err error) {
	t, err := newTelemetry(ctx, otlp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.shutdown(context.WithoutCancel(ctx))) }()
	if redisURL == "" {
		embedded, err := embedded.Start()
		if err != nil {
			return err
		}
		defer func() { _ = embedded.Close() }()
		redisURL = "redis://" + embedded.Addr()
	}
	opts, err := redis.ParseURL(redisURL)
	if err != nil {
		return errors.New("REDIS_URL is not the URL of a Redis") // err may have its password
	}
	rdb := redis.NewClient(opts)
	defer func() { _ = rdb.Close() }()
	g, err := guard.New(rdb, guard.Prefix(prefix), guard.Observe(t.observer), guard.MetadataFunc(tracing.Traceparent))
	if err != nil {
		return err
	}
	defer func() { _ = g.Close() }()

	mux := http.NewServeMux()
	lock := guardhttp.Middleware(g, guardhttp.Lock("order:{id}", guard.Wait(time.Second)))
	mux.Handle("POST /orders/{id}/pay", lock(http.HandlerFunc(pay)))
	mux.Handle("GET /metrics", t.metrics)
	mux.Handle("/locks/", guardweb.Handler(inspect.New(rdb, inspect.Prefix(prefix)), guardweb.Leases(g),
		// Any user may revoke a lock: it is a demonstration. In production, check the user.
		guardweb.Authorize(func(*http.Request) guardweb.Role { return guardweb.Act })))
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_, _ = fmt.Fprintf(stdout, "serving http://127.0.0.1:%s/locks/ and /metrics\n", port)
	var shop sync.WaitGroup
	for i := range customers {
		shop.Go(func() { customer(ctx, fmt.Sprintf("http://127.0.0.1:%s/orders/%d/pay", port, 1+i%orders)) })
	}
	defer shop.Wait()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// pay takes 50 to 500 ms.
func pay(_ http.ResponseWriter, r *http.Request) {
	pause(r.Context(), 50*time.Millisecond+rand.N(450*time.Millisecond))
}

// customer pays an order, thinks for a while and pays again.
func customer(ctx context.Context, url string) {
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
		if err != nil {
			return
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		pause(ctx, rand.N(time.Second))
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

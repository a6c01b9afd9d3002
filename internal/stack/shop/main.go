// Command shop is one instance of the shop of guard_test.go. A route of echo, a route of net/http and a
// task of asynq charge orders, and all three lock "order:{id}".
//
//	shop redis-address bank-url
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/redlatch/redlatch/guard"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
	guardecho "github.com/redlatch/redlatch/middleware/echo"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
	"github.com/redlatch/redlatch/tracing"
)

func main() { log.Fatal(serve(os.Args[1], bank(os.Args[2]))) }

func serve(redisAddr string, b bank) error {
	rdb := redis.NewClient(&redis.Options{Addr: redisAddr})
	spans := tracetest.NewSpanRecorder()
	tracer := tracing.New(tracing.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))))
	g, err := guard.New(rdb, guard.Prefix("shop"), guard.TTL(time.Second), guard.Observe(tracer))
	if err != nil {
		return err
	}
	wait := guard.Wait(time.Minute)

	e := echo.New()
	e.POST("/orders/:id/pay", func(c echo.Context) error {
		return b.charge(c.Request().Context(), c.Param("id"))
	}, guardecho.Middleware(g, guardecho.Lock("order:{id}", wait)))

	mux := http.NewServeMux()
	settle := func(w http.ResponseWriter, r *http.Request) {
		if err := b.charge(r.Context(), r.PathValue("id")); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	}
	mux.Handle("POST /orders/{id}/settle", guardhttp.Middleware(g, guardhttp.Lock("order:{id}", wait))(http.HandlerFunc(settle)))

	tasks := asynq.NewServeMux()
	tasks.Use(guardasynq.Middleware(g, guardasynq.Lock("order:{id}", wait)))
	tasks.HandleFunc("order:bill", func(ctx context.Context, t *asynq.Task) error {
		var order struct{ ID string }
		return errors.Join(json.Unmarshal(t.Payload(), &order), b.charge(ctx, order.ID))
	})
	worker := asynq.NewServerFromRedisClient(rdb, guardasynq.Configure(asynq.Config{Concurrency: 30, LogLevel: asynq.FatalLevel}))
	if err := worker.Start(tasks); err != nil {
		return err
	}
	queue := asynq.NewClientFromRedisClient(rdb)
	mux.HandleFunc("POST /orders/{id}/bill", func(w http.ResponseWriter, r *http.Request) {
		task := asynq.NewTask("order:bill", fmt.Appendf(nil, `{"id":%q}`, r.PathValue("id")))
		if _, err := queue.EnqueueContext(r.Context(), task); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})

	mux.HandleFunc("GET /spans", func(w http.ResponseWriter, _ *http.Request) {
		for _, span := range spans.Ended() {
			_, _ = fmt.Fprintln(w, span.Name())
		}
	})
	mux.Handle("/", e)
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it listens until it is killed
	if err != nil {
		return err
	}
	fmt.Println("http://" + l.Addr().String())
	return http.Serve(l, mux)
}

// bank is the URL of what charges orders.
type bank string

func (b bank) charge(ctx context.Context, order string) error {
	fence, _ := guard.Fence(ctx)
	form := url.Values{"order": {order}, "fence": {strconv.FormatUint(fence, 10)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, string(b)+"?"+form.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

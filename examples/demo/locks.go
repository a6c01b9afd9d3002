package main

import (
	"context"
	"net/http"
	"time"

	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v4"

	"github.com/redlatch/redlatch/guard"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
	guardecho "github.com/redlatch/redlatch/middleware/echo"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

const (
	// lockTTL is how long an order stays locked after the process that worked on it died.
	lockTTL = 10 * time.Second

	settleWait = 10 * time.Second
)

// keep is how long Redis keeps the record of a step of an order.
const keep = 24 * time.Hour

// locks decorates the functions that work on an order or on the stock.
type locks struct {
	pay    echo.MiddlewareFunc
	settle func(http.Handler) http.Handler
	charge asynq.MiddlewareFunc
	once   func(ctx context.Context, step, order string, fn func(context.Context) (payment, error)) (p payment, replayed bool, err error)
	stock  func(ctx context.Context, sku string, fn func(context.Context) error) error
}

// guarded returns the locks. The three decorators make the same key for the same order, so
// that they exclude each other.
func guarded(g *guard.Guard) locks {
	return locks{
		// A second click gets 409 at once, and may ask again.
		pay: guardecho.Middleware(g, guardecho.Lock("order:{id}", guard.NoWait())),
		// The back office waits for its turn.
		settle: guardhttp.Middleware(g, guardhttp.Lock("order:{id}", guard.Wait(settleWait))),
		// A task waits for a second. Then asynq runs it again later.
		charge: guardasynq.Middleware(g, guardasynq.Lock("order:{order_id}")),
		// A lock excludes a second charge at the same time. Once excludes it afterwards, too.
		once: func(ctx context.Context, step, order string, fn func(context.Context) (payment, error)) (payment, bool, error) {
			return guard.Once(ctx, g, guard.Keyf("%s:%s", step, order), keep, fn, guard.Name(step))
		},
		// The order is locked already: this nests a lock that other orders contend for.
		stock: func(ctx context.Context, sku string, fn func(context.Context) error) error {
			return g.WithLock(ctx, guard.Keyf("stock:%s", sku), fn, guard.Name("stock"))
		},
	}
}

// unguarded is the program without redlatch.
func unguarded() locks {
	return locks{
		pay:    func(next echo.HandlerFunc) echo.HandlerFunc { return next },
		settle: func(next http.Handler) http.Handler { return next },
		charge: func(next asynq.Handler) asynq.Handler { return next },
		once: func(ctx context.Context, _, _ string, fn func(context.Context) (payment, error)) (payment, bool, error) {
			p, err := fn(ctx)
			return p, false, err
		},
		stock: func(ctx context.Context, _ string, fn func(context.Context) error) error {
			return fn(ctx)
		},
	}
}

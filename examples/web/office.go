package main

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/redlatch/redlatch/guard"
	guardecho "github.com/redlatch/redlatch/middleware/echov5"
)

// office stands for a database without transactions.
type office struct {
	paymentTakes time.Duration
	sold         sync.Map
}

// routes locks the seat by its route, and in code. For echo v4, import middleware/echo instead.
func (o *office) routes(g *guard.Guard) *echo.Echo {
	e := echo.New()
	e.POST("/shows/:show/seats/:seat", o.buy,
		guardecho.Middleware(g, guardecho.Lock("seat:{show}:{seat}", guard.NoWait())))
	e.POST("/shows/:show/best", func(c *echo.Context) error { return o.buyBest(c, g) })
	return e
}

type seat struct{ show, number string }

func (o *office) buy(c *echo.Context) error {
	return o.sell(c.Request().Context(), c, seat{c.Param("show"), c.Param("seat")})
}

// buyBest chooses the seat before it locks the seat: no route has its name.
func (o *office) buyBest(c *echo.Context, g *guard.Guard) error {
	best := seat{c.Param("show"), "1"}
	err := g.WithLock(c.Request().Context(), guard.Keyf("seat:%s:%s", best.show, best.number), func(ctx context.Context) error {
		return o.sell(ctx, c, best)
	}, guard.NoWait())
	return guardecho.HTTPError(c, err) // answers an error of the lock, returns another as it is
}

// sell reads and then writes. The lock of the seat makes that safe.
func (o *office) sell(ctx context.Context, c *echo.Context, s seat) error {
	if url.PathEscape(s.show)+url.PathEscape(s.number) != s.show+s.number {
		return echo.ErrNotFound // a seat has one spelling
	}
	if _, sold := o.sold.Load(s); sold {
		return echo.NewHTTPError(http.StatusGone, "sold")
	}
	select {
	case <-time.After(o.paymentTakes):
	case <-ctx.Done(): // the client has left, or the lock is lost
		return context.Cause(ctx)
	}
	o.sold.Store(s, true)
	return c.String(http.StatusCreated, "seat "+s.number+"\n")
}

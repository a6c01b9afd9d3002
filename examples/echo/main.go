// Command echo is a box office on echo v5 that sells no seat twice. It brings its own
// Redis:
//
//	go run ./examples/echo
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/embedded"
	guardecho "github.com/redlatch/redlatch/middleware/echov5"
)

const addr = "localhost:8080"

func main() {
	server, err := embedded.Start() // yours is redis.NewClient(...)
	if err != nil {
		log.Fatal(err)
	}
	g, err := guard.New(server.Client())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("Two buyers of one seat:\n"+
		"  curl -i -X POST %[1]s/shows/hamlet/seats/12 & curl -i -X POST %[1]s/shows/hamlet/seats/12; wait\n", addr)
	log.Print(routes(g, &office{paymentTakes: time.Second}).Start(addr))
	_ = g.Shutdown(context.Background()) // waits for the requests that run
	_ = server.Close()
}

// routes has the lock of the route. For echo v4, import middleware/echo instead.
func routes(g *guard.Guard, o *office) *echo.Echo {
	e := echo.New()
	e.POST("/shows/:show/seats/:seat", o.buy,
		guardecho.Middleware(g, guardecho.Lock("seat:{show}:{seat}", guard.NoWait())))
	e.POST("/shows/:show/best", func(c *echo.Context) error { return o.buyBest(c, g) })
	return e
}

// office stands for a database. It knows nothing of what goes on between two calls.
type office struct {
	paymentTakes time.Duration
	sold         sync.Map
}

type seat struct{ show, number string }

func (o *office) buy(c *echo.Context) error {
	return o.sell(c.Request().Context(), c, seat{c.Param("show"), c.Param("seat")})
}

// buyBest does not know which seat it is about until it has looked: it locks in code.
func (o *office) buyBest(c *echo.Context, g *guard.Guard) error {
	best := seat{c.Param("show"), "1"}
	err := g.WithLock(c.Request().Context(), guard.Keyf("seat:%s:%s", best.show, best.number), func(ctx context.Context) error {
		return o.sell(ctx, c, best)
	}, guard.NoWait())
	return guardecho.HTTPError(c, err) // of the lock; others stay as they are
}

// sell checks, and then acts. What makes that safe is the lock of the seat.
func (o *office) sell(ctx context.Context, c *echo.Context, s seat) error {
	if url.PathEscape(s.show)+url.PathEscape(s.number) != s.show+s.number {
		return echo.ErrNotFound // the lock knows one seat by one name only, and so do we
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

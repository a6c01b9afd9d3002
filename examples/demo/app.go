package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/inspect/guardweb"
	guardecho "github.com/redlatch/redlatch/middleware/echo"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

const (
	readHeaderTimeout = 5 * time.Second
	shutdownTimeout   = 10 * time.Second
)

// app is the running program: the shop, its HTTP server and its worker.
type app struct {
	opts    options
	redis   *backend
	guard   *guard.Guard // nil if unguarded
	shop    *shop
	tally   *tally
	queue   *queue
	baseURL string
	stops   []func(context.Context) error // in the order of starting
}

// start starts everything. If it fails, it stops the started parts.
func start(ctx context.Context, opts options, redisURL string, stderr io.Writer) (*app, error) {
	a := &app{opts: opts, tally: newTally(opts)}
	if err := a.start(ctx, redisURL, stderr); err != nil {
		return nil, errors.Join(err, a.stop(ctx))
	}
	return a, nil
}

func (a *app) start(ctx context.Context, redisURL string, stderr io.Writer) (err error) {
	if a.redis, err = openRedis(ctx, redisURL); err != nil {
		return err
	}
	a.stops = append(a.stops, a.redis.close)
	locks, guarding := unguarded(), "WITHOUT locks"
	if !a.opts.unguarded {
		if a.guard, err = guard.New(a.redis.client, guard.Prefix(a.redis.run), guard.TTL(lockTTL)); err != nil {
			return err
		}
		a.stops = append(a.stops, a.guard.Shutdown)
		locks, guarding = guarded(a.guard), "guarded by locks" //nolint:contextcheck // requests bring theirs
	}
	a.shop = newShop(a.opts.orders, a.opts.latency, locks)
	if a.queue, err = startQueue(a.redis, a.opts.workers, a.shop, a.tally.taskRan); err != nil {
		return err
	}
	a.stops = append(a.stops, a.queue.stop)
	addr := a.opts.serve
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	a.baseURL, err = a.serve(ctx, addr, a.handler()) //nolint:contextcheck // requests bring theirs
	say(stderr, "%s, %s\n", a.redis, guarding)
	return err
}

// serve starts an HTTP server that runs until the app stops, and returns its URL.
func (a *app) serve(ctx context.Context, addr string, handler http.Handler) (url string, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: readHeaderTimeout}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	a.stops = append(a.stops, func(ctx context.Context) error {
		err := server.Shutdown(ctx)
		if err != nil {
			err = errors.Join(err, server.Close())
		}
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		return err
	})
	host, port, err := net.SplitHostPort(l.Addr().String())
	if net.ParseIP(host).IsUnspecified() {
		host = "localhost" // to connect to
	}
	return "http://" + net.JoinHostPort(host, port), err
}

// stop waits for running work, from the outside in.
func (a *app) stop(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	for i := range a.stops {
		err = errors.Join(err, a.stops[len(a.stops)-1-i](ctx))
	}
	return err
}

// handler serves the shop with echo and the back office with net/http.
func (a *app) handler() http.Handler {
	e := echo.New()
	e.POST("/orders/:id/pay", func(c echo.Context) error {
		p, err := a.shop.pay(c.Request().Context(), c.Param("id"))
		return respond(c, http.StatusOK, p, err)
	}, a.shop.locks.pay)
	e.POST("/orders/:id/charge", func(c echo.Context) error { // by a task
		p, err := a.shop.status(c.Param("id"))
		if err == nil {
			p.Status, err = "queued", a.queue.add(c.Request().Context(), p.Order)
		}
		return respond(c, http.StatusAccepted, p, err)
	})
	e.GET("/orders/:id", func(c echo.Context) error {
		p, err := a.shop.status(c.Param("id"))
		return respond(c, http.StatusOK, p, err)
	})
	mux := http.NewServeMux()
	mux.Handle("POST /admin/orders/{id}/settle", a.shop.locks.settle(http.HandlerFunc(a.settle)))
	if a.guard != nil {
		// Any user may revoke a lock: it is a demonstration. In production, check the user.
		mux.Handle("/locks/", guardweb.Handler(inspect.New(a.redis.client, inspect.Prefix(a.redis.run)),
			guardweb.Leases(a.guard),
			guardweb.Authorize(func(*http.Request) guardweb.Role { return guardweb.Act })))
		mux.Handle("GET /{$}", http.RedirectHandler("/locks/", http.StatusSeeOther))
	}
	mux.Handle("/", e)
	return mux
}

func respond(c echo.Context, code int, p payment, err error) error {
	switch {
	case errors.Is(err, errNoOrder):
		return echo.NewHTTPError(http.StatusNotFound, errNoOrder.Error())
	case err != nil:
		return guardecho.HTTPError(c, err) // of the stock's lock, which is taken in code
	}
	return c.JSON(code, p)
}

// settle pays the order by hand.
func (a *app) settle(w http.ResponseWriter, r *http.Request) {
	p, err := a.shop.pay(r.Context(), r.PathValue("id"))
	switch {
	case errors.Is(err, errNoOrder):
		http.Error(w, errNoOrder.Error(), http.StatusNotFound)
	case err != nil:
		guardhttp.WriteError(w, r, err)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(p)
	}
}

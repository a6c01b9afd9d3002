package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect/guardweb"
	"github.com/redlatch/redlatch/tracing"
)

const (
	readHeaderTimeout = 5 * time.Second
	shutdownTimeout   = 10 * time.Second
)

// app is the running program: the service, its HTTP server and its worker.
type app struct {
	opts    options
	signals *telemetry
	redis   *backend
	guard   *guard.Guard // nil if unguarded
	times   *lockTimes
	seen    *guardweb.History // what the page shows of the past
	tally   *tally
	service *service
	worker  *worker
	baseURL string

	server *http.Server
	served chan error // what ended the HTTP server
}

// start brings everything up. What it started is down again if it fails.
func start(ctx context.Context, opts options, signals *telemetry, redisURL string) (*app, error) {
	rdb, err := openRedis(ctx, redisURL)
	if err != nil {
		return nil, err
	}
	a := &app{opts: opts, signals: signals, redis: rdb, times: newLockTimes(), seen: guardweb.NewHistory(), tally: newTally(opts)}
	if err := a.build(); err != nil {
		return nil, errors.Join(err, rdb.close(ctx))
	}
	listener, err := a.listen(ctx)
	if err != nil {
		return nil, errors.Join(err, a.closeGuard(ctx), rdb.close(ctx))
	}
	if err := a.worker.start(); err != nil {
		return nil, errors.Join(err, listener.Close(), a.closeGuard(ctx), rdb.close(ctx))
	}
	a.serveHTTP(listener)
	return a, nil
}

// build puts the parts together; nothing runs yet.
func (a *app) build() error {
	locks := unguarded()
	if !a.opts.unguarded {
		opts := []guard.Option{guard.Prefix(a.redis.run), guard.TTL(lockTTL)}
		if a.opts.serve == "" { // what is served has no end, and a list of all times neither
			opts = append(opts, guard.Observe(a.times))
		} else {
			opts = append(opts, guard.Observe(a.seen))
		}
		if a.signals.observer != nil {
			opts = append(opts, guard.Observe(a.signals.observer), guard.MetadataFunc(tracing.Traceparent))
		}
		g, err := guard.New(a.redis.client, opts...)
		if err != nil {
			return err
		}
		a.guard, locks = g, guarded(g)
	}
	a.service = &service{
		books:   newBooks(a.opts.orders),
		gateway: newGateway(a.opts.latency),
		locks:   locks,
	}
	a.worker = newWorker(a.redis.client, a.redis.run, a.opts.workers, a.service, a.tally.taskRan)
	a.worker.signals = a.signals
	return nil
}

func (a *app) listen(ctx context.Context) (net.Listener, error) {
	addr := a.opts.serve
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	a.baseURL = "http://" + reachable(l.Addr().String())
	return l, nil
}

// reachable turns an address that stands for all of the machine's into one to connect to.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

func (a *app) serveHTTP(l net.Listener) {
	a.server = &http.Server{Handler: a.handler(), ReadHeaderTimeout: readHeaderTimeout}
	a.served = make(chan error, 1)
	go func() { a.served <- a.server.Serve(l) }()
}

// stop lets the work that runs come to its end, from the outside in.
func (a *app) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := a.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, a.server.Close())
	}
	if served := <-a.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	a.worker.stop()
	return errors.Join(err, a.closeGuard(ctx), a.redis.close(ctx))
}

func (a *app) closeGuard(ctx context.Context) error {
	if a.guard == nil {
		return nil
	}
	return a.guard.Shutdown(ctx)
}

// Command orders pays orders, and shows that each is charged exactly once however many
// ask for it at the same time: over an echo route, over a net/http route of the back
// office, by asynq tasks, and with a stock count that all of them share. Every one of
// these names what it works on ("order:42"), and redlatch lets one at a time work on it.
//
//	go run ./examples/orders             a burst of concurrent attempts, then a table
//	go run ./examples/orders -unguarded  the same burst without the locks
//	go run ./examples/orders -serve :8080
//	go run ./examples/orders -serve :8080 -otlp localhost:4318 -metrics :9464
//
// It brings its own Redis, in this process. With REDIS_URL set it uses that one, under a
// key prefix of its own, and removes what it wrote there. See -help for the flags.
//
// locks.go holds all there is of redlatch in the program, except that telemetry.go observes
// it; examples/observability has what shows the spans and metrics.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// The exit codes.
const (
	exitOK     = 0 // every order was charged exactly once
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends what hangs
	code := run(ctx, os.Args[1:], os.Getenv("REDIS_URL"), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program. What it has to show goes to stdout, everything else to stderr.
func run(ctx context.Context, args []string, redisURL string, stdout, stderr io.Writer) int {
	opts, err := parseFlags(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage // the flag package has said why
	}
	signals, err := startTelemetry(ctx, opts)
	if err != nil {
		say(stderr, "orders: %v\n", err)
		return exitFailed
	}
	a, err := start(ctx, opts, signals, redisURL)
	if err != nil {
		say(stderr, "orders: %v\n", errors.Join(err, signals.stop(ctx)))
		return exitFailed
	}
	say(stderr, "%s, %s\n", a.redis, opts.guarding())
	if signals.metricsURL != "" {
		say(stderr, "metrics on %s\n", signals.metricsURL)
	}

	code := exitOK
	if opts.serve != "" {
		serve(ctx, a, stdout, stderr)
	} else {
		code = fire(ctx, a, stdout, stderr)
	}
	if err := errors.Join(a.stop(ctx), signals.stop(ctx)); err != nil {
		say(stderr, "orders: stop: %v\n", err)
		return exitFailed
	}
	return code
}

// fire sends the burst and reports on it.
func fire(ctx context.Context, a *app, stdout, stderr io.Writer) int {
	b := newBurst(a)
	stopProgress := showProgress(stderr, b)
	err := b.run(ctx)
	stopProgress()

	r := b.report()
	write := r.writeTable
	if a.opts.json {
		write = r.writeJSON
	}
	if err := errors.Join(err, write(stdout), r.verdict()); err != nil {
		say(stderr, "orders: %v\n", err)
		return exitFailed
	}
	say(stderr, "every order was charged exactly once\n")
	return exitOK
}

// say writes for people. If nobody is there to read it, there is nothing to do about it.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

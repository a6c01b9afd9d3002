// Command demo pays orders, and shows that each is charged exactly once however many
// ask for it at the same time: over an echo route, over a net/http route of the back
// office, by asynq tasks, and with a stock count that all of them share. Every one of
// these names what it works on ("order:42"), and redlatch lets one at a time work on it. No code
// checks whether an order was paid: guard.Once charges it once, and gives later callers what
// came of that.
//
//	go run ./examples/demo             a burst of concurrent attempts, then a table
//	go run ./examples/demo -unguarded  the same burst without the locks
//	go run ./examples/demo -serve :8080
//
// It brings its own Redis, in this process. With REDIS_URL set it uses the Redis there, under a
// key prefix of its own, and removes what it wrote there. See -help for the flags.
//
// locks.go has the locks; shop.go is what they protect. examples/observability shows spans and metrics.
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
	"time"
)

// The exit codes.
const (
	exitOK     = 0 // every order was charged exactly once
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends a program that hangs
	code := run(ctx, os.Args[1:], os.Getenv("REDIS_URL"), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type options struct {
	orders, attempts, workers int
	latency                   time.Duration
	unguarded                 bool
	serve                     string
}

func parseFlags(args []string, stderr io.Writer) (o options, err error) {
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.IntVar(&o.orders, "orders", 120, "`number` of orders to pay")
	fs.IntVar(&o.attempts, "attempts", 8, "`number` of attempts to pay each order, at the same time: requests and tasks")
	fs.IntVar(&o.workers, "workers", 16, "`number` of HTTP clients, and of tasks worked on, at a time")
	fs.DurationVar(&o.latency, "latency", 0, "how long the payment gateway takes (default 20ms, with -serve 3s)")
	fs.BoolVar(&o.unguarded, "unguarded", false, "go without locks, to see what they are for")
	fs.StringVar(&o.serve, "serve", "", "serve on this `address` until interrupted, and print curl lines to try, instead of the burst")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	switch {
	case fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.orders < 1 || o.attempts < 1 || o.workers < 1:
		err = errors.New("-orders, -attempts and -workers are 1 at least")
	case o.latency < 0:
		err = fmt.Errorf("-latency %v is negative", o.latency)
	case o.latency == 0 && o.serve != "":
		o.latency = 3 * time.Second // a person needs time to start a second curl
	case o.latency == 0:
		o.latency = 20 * time.Millisecond
	}
	if err != nil {
		say(stderr, "demo: %v\n", err)
	}
	return o, err
}

// run is the program. Results go to stdout, messages to stderr.
func run(ctx context.Context, args []string, redisURL string, stdout, stderr io.Writer) int {
	opts, err := parseFlags(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	}
	a, err := start(ctx, opts, redisURL, stderr)
	if err != nil {
		say(stderr, "demo: %v\n", err)
		return exitFailed
	}
	if opts.serve != "" {
		say(stdout, curlLines, a.baseURL, opts.orders, opts.latency)
		say(stderr, "serving on %s, Ctrl-C ends it\n", a.baseURL)
		<-ctx.Done()
	} else {
		err = fire(ctx, a, stdout)
	}
	if err := errors.Join(err, a.stop(ctx)); err != nil {
		say(stderr, "demo: %v\n", err)
		return exitFailed
	}
	if opts.serve == "" {
		say(stderr, "every order was charged exactly once\n")
	}
	return exitOK
}

// say writes for people. There is nothing to do about an error.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// curlLines takes the base URL, the number of orders and the gateway's latency.
const curlLines = `Orders 1 to %[2]d wait to be paid; the payment gateway takes %[3]v. Two at once:
  curl -si -X POST %[1]s/orders/1/pay & curl -si -X POST %[1]s/orders/1/pay; wait
The back office waits for its turn instead:
  curl -si -X POST %[1]s/orders/2/pay & curl -si -X POST %[1]s/admin/orders/2/settle; wait
A task that contends with a request:
  curl -si -X POST %[1]s/orders/3/charge; curl -si -X POST %[1]s/orders/3/pay
Who holds what, and who waits: a page to open in a browser
  %[1]s/locks/
`

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"time"
)

// How long the payment gateway takes. A person needs time to start a second curl.
const (
	burstLatency = 20 * time.Millisecond
	serveLatency = 3 * time.Second
)

type options struct {
	orders    int
	attempts  int
	workers   int
	latency   time.Duration
	unguarded bool
	serve     string
	json      bool
	otlp      string
	metrics   string
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("orders", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.IntVar(&o.orders, "orders", 120, "`number` of orders to pay")
	fs.IntVar(&o.attempts, "attempts", 8, "`number` of attempts to pay each order, at the same time: requests, the back office's requests and tasks")
	fs.IntVar(&o.workers, "workers", 16, "`number` of HTTP clients, and of tasks worked on, at a time")
	fs.DurationVar(&o.latency, "latency", 0, fmt.Sprintf("how long the payment gateway takes (default %v, with -serve %v)", burstLatency, serveLatency))
	fs.BoolVar(&o.unguarded, "unguarded", false, "go without locks, to see what they are for")
	fs.StringVar(&o.serve, "serve", "", "serve on this `address` until interrupted, and print curl lines to try, instead of the burst")
	fs.BoolVar(&o.json, "json", false, "print one JSON object instead of the table")
	fs.StringVar(&o.otlp, "otlp", "", "export spans and metrics to the OpenTelemetry collector at `host:port`, by OTLP over HTTP without TLS")
	fs.StringVar(&o.metrics, "metrics", "", "serve metrics for Prometheus on this `address`, under /metrics")
	if err := fs.Parse(args); err != nil {
		return options{}, err
	}
	if err := o.validate(fs); err != nil {
		_, _ = fmt.Fprintf(stderr, "orders: %v\n", err)
		return options{}, err
	}
	if o.latency == 0 {
		o.latency = burstLatency
		if o.serve != "" {
			o.latency = serveLatency
		}
	}
	return o, nil
}

func (o *options) validate(fs *flag.FlagSet) error {
	switch {
	case fs.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.orders < 1:
		return fmt.Errorf("-orders %d is less than 1", o.orders)
	case o.attempts < 1:
		return fmt.Errorf("-attempts %d is less than 1", o.attempts)
	case o.workers < 1:
		return fmt.Errorf("-workers %d is less than 1", o.workers)
	case o.latency < 0:
		return fmt.Errorf("-latency %v is negative", o.latency)
	case o.otlp != "" && !isHostPort(o.otlp):
		return fmt.Errorf("-otlp %q is not host:port", o.otlp)
	case o.json && o.serve != "":
		return errors.New("-json reports on the burst, which -serve does without")
	}
	return nil
}

func isHostPort(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	return err == nil && host != "" && port != ""
}

func (o *options) guarding() string {
	if o.unguarded {
		return "WITHOUT locks"
	}
	return "guarded by locks"
}

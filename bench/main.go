// Command bench measures this module's locks against other Redis locks written in Go,
// on one redis-server that it starts itself.
//
//	go run .                        # everything; writes RESULTS.md and the plots
//	go run . -quick                 # everything, in less than two minutes, for a first look
//	go run . -scenario crowd,turns  # some of it
//
// See README.md for how to read what it prints.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	if isWorker() {
		os.Exit(work())
	}
	o, err := parseOptions(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	scenarios []*scenario
	rounds    int
	size
	out      string // where results are written; empty: nowhere
	profiles string
}

func parseOptions(args []string) (options, error) {
	o := options{scenarios: scenarios, size: fullSize}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	names := flags.String("scenario", "", "run only these `names`, separated by commas; results are printed only")
	flags.IntVar(&o.rounds, "rounds", 3, "rounds of each scenario that is timed")
	quick := flags.Bool("quick", false, "one short round in less than two minutes; results are printed only")
	flags.StringVar(&o.out, "out", ".", "`directory` for RESULTS.md and the plots")
	flags.StringVar(&o.profiles, "profiles", "", "write CPU profiles of the clients to this `directory`")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("what is %q?", flags.Arg(0))
	}
	if o.rounds < 1 {
		return o, fmt.Errorf("-rounds must be at least 1, not %d", o.rounds)
	}
	if *quick {
		o.rounds, o.size = 1, quickSize
	}
	if *quick || *names != "" {
		o.out = ""
	}
	if *names == "" {
		return o, nil
	}
	o.scenarios = nil
	for name := range strings.SplitSeq(*names, ",") {
		i := slices.IndexFunc(scenarios, func(s *scenario) bool { return s.name == name })
		if i < 0 {
			return o, fmt.Errorf("-scenario: there is no %q", name)
		}
		o.scenarios = append(o.scenarios, scenarios[i])
	}
	return o, nil
}

func run(ctx context.Context, o options) error {
	began := time.Now()
	about, all, err := measureAll(ctx, o)
	if err != nil {
		return err
	}
	about = append(about, "took "+time.Since(began).Round(time.Second).String())
	fmt.Printf("%s\n%s\n", formatTable(all), strings.Join(about, "\n"))
	if o.out == "" {
		return nil
	}
	return writeResults(o.out, about, all)
}

// measureAll runs the scenarios that were asked for, one after another.
func measureAll(ctx context.Context, o options) (about []string, all []result, err error) {
	server, err := startServer(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer server.stop()
	client := redis.NewClient(&redis.Options{Addr: server.addr})
	defer func() { _ = client.Close() }()
	b := &bench{options: o, client: client, server: server}
	if about, err = aboutRun(ctx, b); err != nil {
		return nil, nil, err
	}
	for _, s := range o.scenarios {
		fmt.Fprintf(os.Stderr, "%-9s %s ", s.name, s.title)
		r, err := s.run(ctx, b, s)
		fmt.Fprintln(os.Stderr)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", s.name, err)
		}
		all = append(all, r)
	}
	return about, all, nil
}

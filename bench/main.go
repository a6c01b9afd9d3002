// Command bench measures this module's locks against other Redis locks written in Go,
// on redis-servers that it starts itself.
//
//	go run .                        # everything; writes RESULTS.md
//	go run . -quick                 # everything, in less than two minutes, for a first look
//	go run . -scenario crowd,turns  # some of it
//	go run . -servers redis-server,/opt/valkey/bin/valkey-server
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
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redlatch/redlatch/bench/internal/stage"
	"github.com/redlatch/redlatch/internal/redistest"
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
	servers   []string // paths of redis-server; empty: that of PATH
	rounds    int
	size
	out      string // where results are written; empty: nowhere
	profiles string
}

func parseOptions(args []string) (options, error) {
	o := options{scenarios: scenarios, size: fullSize}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	names := flags.String("scenario", "", "run only these `names`, separated by commas; results are printed only")
	servers := flags.String("servers", "", "`paths` of redis-servers, separated by commas: on those after the first, what depends on the server is measured")
	flags.IntVar(&o.rounds, "rounds", 3, "rounds of each scenario that is timed")
	quick := flags.Bool("quick", false, "one short round in less than two minutes; results are printed only")
	flags.StringVar(&o.out, "out", ".", "`directory` for RESULTS.md")
	flags.StringVar(&o.profiles, "profiles", "", "write CPU profiles of the clients to this `directory`")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q", flags.Arg(0))
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
	o.servers = strings.Split(*servers, ",")
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
	runs, err := measureAll(ctx, o)
	if err != nil {
		return err
	}
	runs[0].about = append(runs[0].about, "load average after: "+loadAverage(), "took "+time.Since(began).Round(time.Second).String())
	text := formatResults(runs)
	fmt.Println(text)
	if o.out == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(o.out, "RESULTS.md"), []byte(text), 0o644)
}

// measured is what was measured on one server.
type measured struct {
	server  string // its name and version
	load    string // loadAverage before
	about   []string
	results []result
}

// measureAll runs the scenarios that were asked for on each server, one after another.
func measureAll(ctx context.Context, o options) (runs []measured, err error) {
	for i, path := range o.servers {
		if path != "" {
			if err := os.Setenv("REDLATCH_REDIS_SERVER", path); err != nil { // see redistest.Start
				return nil, err
			}
		}
		if i > 0 {
			o.scenarios = slices.DeleteFunc(slices.Clone(o.scenarios), func(s *scenario) bool { return !s.everyServer })
		}
		err := stage.Run(func(on *stage.Stage) error {
			server := redistest.Start(on, "--maxclients", "20000")
			run, err := measureOn(ctx, &bench{options: o, client: server.Client(on), addr: server.Addr()})
			runs = append(runs, run)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return runs, nil
}

func measureOn(ctx context.Context, b *bench) (run measured, err error) {
	run.load = loadAverage()
	if run.server, run.about, err = aboutRun(ctx, b); err != nil {
		return run, err
	}
	run.about = append(run.about, fmt.Sprintf("rounds: %d", b.rounds), "load average before: "+run.load)
	for _, s := range b.scenarios {
		fmt.Fprintf(os.Stderr, "%-9s %s, %s ", s.name, s.title, run.server)
		r, err := s.run(ctx, b, s)
		fmt.Fprintln(os.Stderr)
		if err != nil {
			return run, fmt.Errorf("%s: %w", s.name, err)
		}
		run.results = append(run.results, r)
	}
	return run, nil
}

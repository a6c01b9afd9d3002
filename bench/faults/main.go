// Command faults hurts the locks of several libraries in the same way, and says what came
// of it: whether two were at work at the same time, when the work was notified, whether a
// late write got through, what stayed locked, and which errors callers got.
//
//	go run ./faults                       # everything, three rounds; prints a table
//	go run ./faults -only deleted,killed  # some of it
//	go run ./faults -v                    # and the times of each call
//
// All libraries meet a fault at the same time, each with two worker processes, on one
// redis-server. The rounds of a scenario run side by side, and have to agree. Workers write to this program through pipes: it is the resource that the
// locks protect, and the witness.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	if os.Getenv(workerVariable) != "" {
		os.Exit(work())
	}
	o, err := parseOptions(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(2)
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	scenarios []*scenario
	libraries []string
	rounds    int
	verbose   bool
}

func parseOptions(args []string) (options, error) {
	o := options{scenarios: scenarios}
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	only := flags.String("only", "", "run only these `scenarios`, separated by commas")
	among := flags.String("libraries", strings.Join(libraries, ","), "hurt only these `libraries`, separated by commas")
	flags.IntVar(&o.rounds, "rounds", 3, "rounds of each scenario, which have to agree")
	flags.BoolVar(&o.verbose, "v", false, "print what each call saw, in ms from the fault")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.libraries = strings.Split(*among, ",")
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unknown argument %q", flags.Arg(0))
	case o.rounds < 1:
		return o, fmt.Errorf("-rounds must be at least 1, not %d", o.rounds)
	}
	for _, l := range o.libraries {
		if !slices.Contains(libraries, l) {
			return o, fmt.Errorf("-libraries: there is no %q", l)
		}
	}
	if *only == "" {
		return o, nil
	}
	o.scenarios = nil
	for name := range strings.SplitSeq(*only, ",") {
		i := slices.IndexFunc(scenarios, func(s *scenario) bool { return s.name == name })
		if i < 0 {
			return o, fmt.Errorf("-only: there is no %q", name)
		}
		o.scenarios = append(o.scenarios, scenarios[i])
	}
	return o, nil
}

func run(o options) error {
	began := time.Now()
	dir, err := os.MkdirTemp("", "redlatch-faults-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := ownClocks(dir); err != nil {
		return fmt.Errorf("servers with clocks of their own: %w", err)
	}
	var t table
	for _, sc := range o.scenarios {
		fmt.Fprintln(os.Stderr, sc.name)
		err = errors.Join(err, t.play(sc, o)) // others may do
	}
	fmt.Print(t.markdown(o.libraries))
	fmt.Fprintf(os.Stderr, "took %v\n", time.Since(began).Round(time.Second))
	fmt.Print(t.disagreement())
	return err
}

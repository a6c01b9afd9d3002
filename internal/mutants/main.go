// Mutants breaks the rules in table/table.txt, one at a time, and says which
// test notices. It exits with 1 if one survives that should not, or the other way round.
//
//	make mutants
//	make mutants ARGS='-run quorum -parallel 4'
//	make mutants ARGS='-generated watchdog -n 100'
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/mutants/table"
)

var (
	only      = flag.String("run", "", "only rows whose names, or files, match this `pattern`")
	parallel  = flag.Int("parallel", 2, "rows at a time, each in a tree of its own")
	timeout   = flag.Duration("timeout", 3*time.Minute, "for one go test; a test that hangs for more than half of it notices, too")
	near      = flag.Int("near", 1000, "try only so many of a row's tests, the nearest: quick, and what they miss others may notice")
	verbose   = flag.Bool("v", false, "print what the noticing test said")
	generated = flag.String("generated", "", "instead of rows, try mutants that are made of the code of the packages that match this `pattern`")
	sample    = flag.Int("n", 0, "try only so many mutants of a package")
	seed      = flag.Uint64("seed", 1, "says which")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to do
	}
}

func run(ctx context.Context) error {
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if *generated != "" {
		return runGenerated(ctx, root, pattern)
	}
	rows, err := table.Rows()
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(r table.Row) bool { return !pattern.MatchString(r.Name) && !pattern.MatchString(r.File) })
	var s score
	inParallel(ctx, s.replay(ctx, rows), func(some <-chan table.Row) { s.work(ctx, root, some) })
	return s.sum(len(rows))
}

// inParallel has some workers share what is to do.
func inParallel[T any](ctx context.Context, all []T, work func(some <-chan T)) {
	todo := make(chan T)
	var wg sync.WaitGroup
	for range *parallel {
		wg.Go(func() { work(todo) })
	}
	for _, one := range all {
		if ctx.Err() != nil {
			break
		}
		todo <- one
	}
	close(todo)
	wg.Wait()
}

// score counts.
type score struct {
	mu                         sync.Mutex
	noticed, survived, allowed int
	wrong                      []string
}

// replayed matches the rules of the scripts that TestReplay_BrokenScripts noticed.
var replayed = regexp.MustCompile(`(?m)^ *--- PASS: TestReplay_BrokenScripts/(\S+)`)

// replay counts the rows that one run of TestReplay_BrokenScripts breaks and notices, and returns the rest.
func (s *score) replay(ctx context.Context, rows []table.Row) (rest []table.Row) {
	if !slices.ContainsFunc(rows, func(r table.Row) bool { return r.Replayed() != "" }) {
		return rows
	}
	const name = "^TestReplay_BrokenScripts$"
	at := time.Now()
	out, err := exec.CommandContext(ctx, "go", append([]string{"test", "-vet=off", "-count=1", "-v", "-run=" + name}, append(table.Replays, "-large")...)...).CombinedOutput()
	noticed := map[string]bool{}
	for _, m := range replayed.FindAllStringSubmatch(string(out), -1) {
		noticed[m[1]] = true
	}
	if err != nil {
		fmt.Printf("TestReplay_BrokenScripts: %v: what it did not notice is tried by itself\n", err)
	}
	for _, r := range rows {
		if where := r.Replayed(); where != "" && noticed[strings.ReplaceAll(r.Name, " ", "_")] {
			s.add(r.Name, r.Survives, "TestReplay_BrokenScripts of "+where, "", time.Since(at), nil)
		} else {
			rest = append(rest, r)
		}
	}
	return rest
}

func (s *score) work(ctx context.Context, root string, some <-chan table.Row) {
	t, err := newTree(root)
	if err == nil {
		defer t.remove()
	}
	for r := range some {
		at := time.Now()
		var by, said string
		if err == nil {
			by, said, err = t.try(ctx, &r)
		}
		s.add(r.Name, r.Survives, by, said, time.Since(at), err)
		err = nil
	}
}

func (s *score) add(name, survives, by, said string, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mark := "noticed "
	switch {
	case err != nil:
		mark, by = "ERROR   ", err.Error()
		s.wrong = append(s.wrong, name+": "+err.Error())
	case by == "" && survives == "":
		mark, by = "SURVIVED", said
		s.survived++
		s.wrong = append(s.wrong, name+": nothing noticed")
	case by == "":
		mark, by = "survived", survives
		s.allowed++
	case survives != "":
		s.noticed++
		s.wrong = append(s.wrong, name+": was to survive, but "+by+" noticed: take its ! out of the table")
	default:
		s.noticed++
	}
	fmt.Printf("%s %5.1fs  %s: %s\n", mark, took.Seconds(), name, by)
	if *verbose && said != "" {
		fmt.Println(said)
	}
}

func (s *score) sum(of int) error {
	done := s.noticed + s.survived + s.allowed
	if done > 0 {
		fmt.Printf("%d of %d noticed (%.0f %%), %d survive for a reason\n",
			s.noticed, done, 100*float64(s.noticed)/float64(done), s.allowed)
	}
	if len(s.wrong) > 0 || done < of {
		return fmt.Errorf("%d of %d done\n  %s", done, of, strings.Join(s.wrong, "\n  "))
	}
	return nil
}

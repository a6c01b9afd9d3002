// Mutants changes the code of packages, and the Lua of scripts, one condition, call or number at a time, and runs
// the tests that are near. It prints which changes no test noticed, and exits with 1 if a package's score,
// noticed of made, is below the floor.
//
//	make mutants ARGS=watchdog
//	make mutants ARGS='-n 100 -seed 7 guard/quorum$ redisstore/lua'
//	make mutants ARGS=-chaos
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

var (
	only     = flag.String("run", "", "only mutants whose file, function or text matches this `pattern`")
	sample   = flag.Int("n", 0, "try only so many mutants of a package")
	seed     = flag.Uint64("seed", 1, "says which")
	parallel = flag.Int("parallel", 2, "mutants at a time")
	verbose  = flag.Bool("v", false, "print each mutant, and what the noticing test said")
	chaos    = flag.Bool("chaos", false, "break the library as chaos.go says, and run package chaos on it")
)

const (
	floor    = 97.0            // the least score of a package, in percent
	cleanRun = 3 * time.Minute // the longest run of tests without a mutant, or of chaos
)

// limitOf bounds a run with a mutant by the time of one without. Mutants run side by side, on machines that do other work.
func limitOf(took time.Duration) time.Duration { return 5*time.Second + 3*took }

func main() {
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "mutants [flags] [pattern of packages]...")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to do
	}
}

func run(ctx context.Context, patterns []string) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if *chaos {
		return runChaos(ctx, root)
	}
	which, err := regexp.Compile(strings.Join(patterns, "|"))
	if err != nil {
		return err
	}
	packages, err := packagesOf(ctx, root)
	if err != nil {
		return err
	}
	var low []string
	for _, p := range packages {
		if !which.MatchString(p.path) {
			continue
		}
		s, err := tryPackage(ctx, root, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.path, err)
		}
		s.print(p.path)
		if s.percent() < floor {
			low = append(low, fmt.Sprintf("%s: %.1f %%", p.path, s.percent()))
		}
	}
	if len(low) > 0 {
		return fmt.Errorf("below %v %%: %s", floor, strings.Join(low, ", "))
	}
	return ctx.Err()
}

// tryPackage tries the mutants of a package of Go, or of a folder of scripts.
func tryPackage(ctx context.Context, root string, p pkg) (*score, error) {
	t, err := newTree(root)
	if err != nil {
		return nil, err
	}
	defer t.remove()
	if p.scripts {
		return t.tryScripts(ctx, p)
	}
	return t.tryGo(ctx, p)
}

// choose returns the indexes of the mutants to try.
func choose(ids []string) (chosen []int, err error) {
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		if pattern.MatchString(id) {
			chosen = append(chosen, i)
		}
	}
	if *sample > 0 && *sample < len(chosen) {
		r := rand.New(rand.NewPCG(*seed, 0))
		r.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:*sample]
		slices.Sort(chosen)
	}
	return chosen, nil
}

// inParallel shares the chosen mutants among workers.
func inParallel(ctx context.Context, chosen []int, try func(worker, i int)) {
	todo := make(chan int)
	var workers sync.WaitGroup
	for worker := range *parallel {
		workers.Go(func() {
			for i := range todo {
				try(worker, i)
			}
		})
	}
	for _, i := range chosen {
		if ctx.Err() != nil {
			break
		}
		todo <- i
	}
	close(todo)
	workers.Wait()
}

// score counts the mutants of a package.
type score struct {
	mu       sync.Mutex // protects what follows
	made     int
	survived []string
}

// add counts a mutant. by is the test that noticed it, "" if none did, and said its output. A mutant whose tests end
// with another error counts as a survivor.
func (s *score) add(id, by, said string, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", id, err)
	}
	if by == "" {
		s.survived = append(s.survived, id)
		by = "no test notices"
	}
	if *verbose {
		fmt.Printf("%5.1fs  %s: %s\n%s", took.Seconds(), id, by, said)
	}
}

func (s *score) percent() float64 {
	if s.made == 0 {
		return 100
	}
	return 100 * float64(s.made-len(s.survived)) / float64(s.made)
}

func (s *score) print(path string) {
	fmt.Printf("%-45s %4d / %4d  %5.1f %%\n", path, s.made-len(s.survived), s.made, s.percent())
	slices.Sort(s.survived)
	for _, id := range s.survived {
		fmt.Println("  survived: " + id)
	}
}

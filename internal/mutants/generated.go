package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/mutants/generate"
	"github.com/redlatch/redlatch/internal/mutants/table"
)

// runGenerated tries mutants that are made of the code of packages.
func runGenerated(ctx context.Context, root string, pattern *regexp.Regexp) error {
	packages, err := table.Packages()
	if err != nil {
		return err
	}
	which, err := regexp.Compile(*generated)
	if err != nil {
		return err
	}
	var failed []error
	for _, g := range packages {
		if which.MatchString(g.Path) {
			failed = append(failed, tryPackage(ctx, root, &g, pattern))
		}
	}
	return errors.Join(failed...)
}

// tryPackage tries the mutants of a package. All of them are in its test programs, which run once
// without any of them, test by test, to see which test comes by which mutant.
func tryPackage(ctx context.Context, root string, g *table.Package, pattern *regexp.Regexp) error {
	p, chosen, err := choose(root, g, pattern)
	if err != nil || len(chosen) == 0 {
		return err
	}
	var s score
	t, err := newTree(root)
	if err != nil {
		return err
	}
	defer t.remove()
	for file, text := range p.Files {
		name, err := filepath.Rel(t.root, file)
		if err != nil {
			return err
		}
		if err := t.replace(name, text); err != nil {
			return err
		}
	}
	runs, err := t.measure(ctx, g.Tests)
	if err != nil {
		return err
	}
	inParallel(ctx, chosen, func(some <-chan int) {
		for i := range some {
			at, id := time.Now(), p.Mutants[i].ID
			by, said, err := t.without(ctx, i+1, runs)
			s.add(id, g.Survives[id], by, said, time.Since(at), err)
		}
	})
	return s.sum(len(chosen))
}

// choose makes the mutants of a package, and says which ones to try.
func choose(root string, g *table.Package, pattern *regexp.Regexp) (p *generate.Package, chosen []int, err error) {
	files, err := regexp.Compile(g.Files)
	if err != nil {
		return nil, nil, err
	}
	if p, err = generate.Load(root, g.Path, files.MatchString); err != nil {
		return nil, nil, err
	}
	for i, m := range p.Mutants {
		if pattern.MatchString(m.ID) {
			chosen = append(chosen, i)
		}
	}
	if *sample > 0 && *sample < len(chosen) {
		r := rand.New(rand.NewPCG(*seed, 0)) //nolint:gosec // a sample
		r.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:*sample]
		slices.Sort(chosen)
	}
	return p, chosen, nil
}

// testRun is one test, run by itself without a mutant.
type testRun struct {
	pkg, name string
	took      time.Duration
	seen      map[int]bool // the mutants that it came by
}

// measure runs each test of some packages, the quickest first.
func (t *tree) measure(ctx context.Context, tests [][]string) (runs []testRun, err error) {
	for _, args := range tests {
		path, err := t.program(ctx, args[0])
		if err != nil {
			return nil, err
		}
		list := exec.CommandContext(ctx, path, "-test.list", "^(Test|Fuzz)")
		list.Dir = filepath.Join(t.root, args[0])
		names, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("the tests of %s: %w", args[0], err)
		}
		chosen := regexp.MustCompile("")
		if len(args) > 2 {
			chosen = regexp.MustCompile(args[2])
		}
		for name := range strings.FieldsSeq(string(names)) {
			if name == "PASS" || len(args) > 2 && chosen.MatchString(name) == (args[1] == "-skip") || regexp.MustCompile(breakers).MatchString(name) {
				continue
			}
			run, err := t.measureOne(ctx, args[0], name)
			if err != nil {
				fmt.Printf("left out: %v\n", err)
				continue
			}
			runs = append(runs, run)
		}
	}
	slices.SortStableFunc(runs, func(a, b testRun) int { return cmp.Compare(a.took, b.took) })
	return runs, ctx.Err()
}

func (t *tree) measureOne(ctx context.Context, pkg, name string) (testRun, error) {
	run := testRun{pkg: pkg, name: name, seen: map[int]bool{}}
	note := filepath.Join(t.dir, "seen")
	if err := os.WriteFile(note, nil, 0o600); err != nil {
		return run, err
	}
	at := time.Now()
	by, said, err := t.test(ctx, []string{pkg, "-run", "^" + name + "$"}, *timeout, "MUTANTS_SEEN="+note)
	if err == nil && by != "" {
		err = errors.New(said)
	}
	if err != nil {
		return run, fmt.Errorf("%s of %s fails without a mutant: %w", name, pkg, err)
	}
	run.took = time.Since(at)
	seen, err := os.ReadFile(note)
	for line := range bytes.Lines(seen) {
		id, _ := strconv.Atoi(string(bytes.TrimSpace(line)))
		run.seen[id] = true
	}
	return run, err
}

// without runs the tests that come by a mutant with it, the quickest first.
func (t *tree) without(ctx context.Context, id int, runs []testRun) (by, said string, err error) {
	near := slices.DeleteFunc(slices.Clone(runs), func(r testRun) bool { return !r.seen[id] })
	if len(near) == 0 {
		return "", "no test comes by it", nil
	}
	for most := 2 * time.Second; len(near) > 0; most = time.Hour { // a few quick ones, then all others
		var took time.Duration
		var names []string
		pkg := near[0].pkg
		rest := slices.DeleteFunc(slices.Clone(near), func(r testRun) bool {
			if r.pkg != pkg || took > 0 && took+r.took > most {
				return false
			}
			took += r.took
			names = append(names, r.name)
			return true
		})
		near = rest
		by, said, err = t.test(ctx, []string{pkg, "-run", "^(" + strings.Join(names, "|") + ")$"},
			5*time.Second+5*took, "MUTANT="+strconv.Itoa(id))
		if by != "" || err != nil {
			return by, said, err
		}
	}
	return "", "", nil
}

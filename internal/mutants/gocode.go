package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/mutants/generate"
)

// tryGo tries the mutants of a package. All of them are in its test programs, which run once without any, test by
// test, to see which test comes by which mutant.
func (t *tree) tryGo(ctx context.Context, p pkg) (*score, error) {
	made, err := generate.Load(t.root, p.path, p.files)
	if err != nil {
		return nil, err
	}
	ids := made.IDs
	chosen, err := choose(ids)
	if err != nil || len(chosen) == 0 {
		return new(score), err
	}
	for file, text := range made.Files {
		name, err := filepath.Rel(t.root, file)
		if err != nil {
			return nil, err
		}
		if err := t.replace(name, text); err != nil {
			return nil, err
		}
	}
	runs, err := t.measure(ctx, p.tests)
	if err != nil {
		return nil, err
	}
	s := new(score)
	inParallel(ctx, chosen, func(_, i int) {
		at := time.Now()
		by, said, err := t.without(ctx, i+1, runs)
		s.add(ids[i], by, said, time.Since(at), err)
	})
	return s, ctx.Err()
}

// testRun is one test, run by itself without a mutant.
type testRun struct {
	pkg, name string
	took      time.Duration
	seen      map[int]bool // the mutants that it came by
}

// measure runs each test of some packages, and returns them with the quickest first.
func (t *tree) measure(ctx context.Context, tests []string) (runs []testRun, err error) {
	for _, pkg := range tests {
		path, err := t.program(ctx, pkg)
		if err != nil {
			return nil, err
		}
		list := exec.CommandContext(ctx, path, "-test.list", "^(Test|Fuzz|Example)")
		list.Dir = filepath.Join(t.root, pkg)
		names, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("the tests of %s: %w", pkg, err)
		}
		for name := range strings.FieldsSeq(string(names)) {
			run, err := t.measureOne(ctx, pkg, name)
			if err != nil {
				fmt.Fprintf(os.Stderr, "left out: %v\n", err)
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
	path, err := t.program(ctx, pkg)
	if err != nil {
		return run, err
	}
	at := time.Now()
	by, said, err := t.test(ctx, pkg, path, []string{"-test.run", "^" + name + "$"}, cleanRun, "MUTANTS_SEEN="+note)
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
	for most := 2 * time.Second; len(near) > 0; most = time.Hour { // a few quick ones, then all others
		var took time.Duration
		var names []string
		pkg := near[0].pkg
		near = slices.DeleteFunc(near, func(r testRun) bool {
			if r.pkg != pkg || took > 0 && took+r.took > most {
				return false
			}
			took += r.took
			names = append(names, r.name)
			return true
		})
		path, err := t.program(ctx, pkg)
		if err != nil {
			return "", "", err
		}
		by, said, err = t.test(ctx, pkg, path, []string{"-test.run", "^(" + strings.Join(names, "|") + ")$"},
			limitOf(took), "MUTANT="+strconv.Itoa(id))
		if by != "" || err != nil {
			return by, said, err
		}
	}
	return "", "", nil
}

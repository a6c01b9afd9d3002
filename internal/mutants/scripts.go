package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/mutants/generate"
)

// room is how much longer than its script a mutant may be.
const room = 40

// script is a file of Lua, and its text as it stands in the test programs: with room behind it.
type script struct {
	name string // from the root
	text []byte
}

// tryScripts tries the mutants of a folder of scripts. Programs embed scripts as they are. So the programs are made
// once, and the text of a mutant is put into a copy of a program, in the place of its script.
func (t *tree) tryScripts(ctx context.Context, p pkg) (*score, error) {
	files, err := filepath.Glob(filepath.Join(t.root, p.path, "*.lua"))
	if err != nil {
		return nil, err
	}
	var ids []string
	var mutants [][]byte
	var of []script
	for _, file := range files {
		name, err := filepath.Rel(t.root, file)
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		s := script{name, withRoom(text, len(text)+room)}
		if err := t.replace(name, s.text); err != nil {
			return nil, err
		}
		for _, m := range generate.Lua(string(text)) {
			ids = append(ids, name+":"+m.ID)
			mutants = append(mutants, withRoom([]byte(m.Text), len(s.text)))
			of = append(of, s)
		}
	}
	chosen, err := choose(ids)
	if err != nil || len(chosen) == 0 {
		return new(score), err
	}
	suites, err := t.suites(ctx, p.tests)
	if err != nil {
		return nil, err
	}
	s := new(score)
	inParallel(ctx, chosen, func(worker, i int) {
		at := time.Now()
		by, said, err := t.tryScript(ctx, suites, worker, of[i], mutants[i])
		s.add(ids[i], by, said, time.Since(at), err)
	})
	return s, ctx.Err()
}

func withRoom(text []byte, size int) []byte {
	return append(bytes.Clone(text), bytes.Repeat([]byte("\n"), size-len(text))...)
}

// suite is a test program with its scripts, and how long it takes without a mutant.
type suite struct {
	pkg     string
	args    []string
	program []byte
	took    time.Duration
}

func (t *tree) suites(ctx context.Context, tests []string) (all []suite, err error) {
	for _, line := range tests {
		words := strings.Fields(line)
		s := suite{pkg: words[0], args: words[1:]}
		for i, word := range s.args {
			s.args[i] = strings.Replace(word, "-run", "-test.run", 1)
		}
		path, err := t.program(ctx, s.pkg)
		if err != nil {
			return nil, err
		}
		at := time.Now()
		by, said, err := t.test(ctx, s.pkg, path, s.args, cleanRun)
		if err != nil || by != "" || strings.Contains(said, "no tests to run") {
			return nil, fmt.Errorf("%s without a mutant: %s %w\n%s", line, by, err, said)
		}
		s.took = time.Since(at)
		if s.program, err = os.ReadFile(path); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func (t *tree) tryScript(ctx context.Context, suites []suite, worker int, s script, mutant []byte) (by, said string, err error) {
	for _, suite := range suites {
		if !bytes.Contains(suite.program, s.text) {
			return "", "", fmt.Errorf("the program of %s has not got %s", suite.pkg, s.name)
		}
		path := filepath.Join(t.dir, fmt.Sprint("worker", worker, ".test"))
		if err := t.writeProgram(path, bytes.ReplaceAll(suite.program, s.text, mutant)); err != nil {
			return "", "", err
		}
		by, said, err = t.test(ctx, suite.pkg, path, suite.args, limitOf(suite.took))
		if err != nil || by != "" {
			return by, said, err
		}
	}
	return "", "", nil
}

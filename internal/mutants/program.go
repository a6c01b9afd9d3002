package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// tree is the sources, some of which are replaced, and the test programs that were made of them.
type tree struct {
	root, dir string            // the sources; where its own files are
	replaced  map[string]string // see go help build, -overlay
	tests     map[string]string // by package
}

func newTree(root string) (*tree, error) {
	dir, err := os.MkdirTemp("", "mutants-")
	return &tree{root: root, dir: dir}, err
}

func (t *tree) remove() { _ = os.RemoveAll(t.dir) }

// replace has a text stand in the place of a file.
func (t *tree) replace(file string, text []byte) error {
	if t.replaced == nil {
		t.replaced = map[string]string{}
	}
	to := filepath.Join(t.dir, strings.NewReplacer("/", "_").Replace(file))
	t.replaced[filepath.Join(t.root, file)] = to
	t.tests = nil
	return os.WriteFile(to, text, 0o600)
}

// restore takes all of that back.
func (t *tree) restore() { t.replaced, t.tests = nil, nil }

// program makes the test program of a package.
func (t *tree) program(ctx context.Context, pkg string) (path string, err error) {
	if path = t.tests[pkg]; path != "" {
		return path, nil
	}
	overlay, err := json.Marshal(map[string]any{"Replace": t.replaced})
	if err != nil {
		return "", err
	}
	overlayed := filepath.Join(t.dir, "overlay.json")
	if err := os.WriteFile(overlayed, overlay, 0o600); err != nil {
		return "", err
	}
	path = filepath.Join(t.dir, strings.NewReplacer("/", "_", ".", "_").Replace(pkg)+".test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlayed, "-o", path, pkg)
	cmd.Dir = t.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it is no program any more: %w\n%s", err, out)
	}
	if t.tests == nil {
		t.tests = map[string]string{}
	}
	t.tests[pkg] = path
	return path, nil
}

// breakers are tests that break rules by themselves: they would only miss the text.
const breakers = "^(TestReplay_BrokenScripts|TestTable_FitsTheCode)$"

var (
	failed   = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	panicked = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*|.*goleak: .*|redistest: .*)$`)
	unbuilt  = regexp.MustCompile(`(?m)^.*(Error compiling script|compiling the script).*$`)
)

// test runs tests, and says which one failed.
func (t *tree) test(ctx context.Context, args []string, limit time.Duration, env ...string) (by, said string, err error) {
	path, err := t.program(ctx, args[0])
	if err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(ctx, limit+time.Minute)
	defer cancel()
	all := []string{"-test.count=1", "-test.failfast", fmt.Sprint("-test.timeout=", limit), "-test.skip", breakers}
	for i, arg := range args[1:] {
		switch {
		case arg == "-run":
			arg = "-test.run"
		case arg == "-skip":
			arg = "-test.skip"
		case args[i] == "-skip": // the one before
			arg += "|" + breakers
		}
		all = append(all, arg)
	}
	cmd := exec.CommandContext(ctx, path, all...)
	cmd.Dir, cmd.Env = filepath.Join(t.root, args[0]), append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err = cmd.Run(); err == nil {
		return "", out.String(), nil
	}
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || ctx.Err() != nil {
		return "", "", fmt.Errorf("%s: %w", args[0], err)
	}
	said = out.String()
	if text := unbuilt.FindString(said); text != "" && len(env) == 0 { // else it is a mutant of Go code
		return "", said, fmt.Errorf("it is no program any more: %s\n%s", text, said)
	}
	where := args[0]
	if strings.Contains(said, "panic: test timed out") {
		return hung(said, limit)
	}
	if names := failed.FindAllStringSubmatch(said, -1); names != nil {
		by = names[0][1]
		for _, name := range names { // the innermost says most
			if strings.HasPrefix(name[1], by+"/") {
				by = name[1]
			}
		}
		return by + " of " + where, said, nil
	}
	if text := panicked.FindString(said); text != "" {
		return text + " in " + where, said, nil
	}
	return "", said, fmt.Errorf("no test says that it failed:\n%s", said)
}

var running = regexp.MustCompile(`(?m)^\t+(Test\S+) \((\S+)\)$`)

// hung says which test did not end. Where none took most of the time, all together took too long,
// and nothing is known.
func hung(said string, limit time.Duration) (by, out string, err error) {
	for _, test := range running.FindAllStringSubmatch(said, -1) {
		if took, err := time.ParseDuration(test[2]); err == nil && took > limit/2 {
			return test[1] + " hangs", said, nil
		}
	}
	return "", said, fmt.Errorf("the tests take longer than %v: give more by -timeout", limit)
}

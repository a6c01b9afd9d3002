package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// tree is the sources, some of which are replaced, and the test programs that were made of them.
type tree struct {
	root, dir string            // the sources; where its own files are
	replaced  map[string]string // see go help build, -overlay
	tests     map[string]string // by package

	starting sync.Mutex // a program that starts would inherit the file of a program that is being written, which then could not start
}

func newTree(root string) (*tree, error) {
	dir, err := os.MkdirTemp("", "mutants-")
	return &tree{root: root, dir: dir, replaced: map[string]string{}, tests: map[string]string{}}, err
}

func (t *tree) remove() { _ = os.RemoveAll(t.dir) }

// replace has a text stand in the place of a file, before programs are made.
func (t *tree) replace(file string, text []byte) error {
	to := filepath.Join(t.dir, strings.ReplaceAll(file, "/", "_"))
	t.replaced[filepath.Join(t.root, file)] = to
	return os.WriteFile(to, text, 0o600)
}

// program returns the test program of a package.
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
	t.tests[pkg] = path
	return path, nil
}

func (t *tree) writeProgram(path string, program []byte) error {
	t.starting.Lock()
	defer t.starting.Unlock()
	return os.WriteFile(path, program, 0o700)
}

var (
	failed   = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	panicked = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*|.*goleak: .*|redistest: .*)$`)
	unbuilt  = regexp.MustCompile(`(?m)^.*(Error compiling script|compiling the script).*( near |syntax error).*$`) // an embedded Redis says so of any error
)

// test runs a test program of a package, and says which test failed: "" if none did. A program that takes longer than
// limit hangs, which notices, too.
func (t *tree) test(ctx context.Context, pkg, path string, args []string, limit time.Duration, env ...string) (by, said string, err error) {
	limited, cancel := context.WithTimeout(ctx, limit+5*time.Second) // go test's own -timeout comes first, and says more
	defer cancel()
	out := output{failed: func() { time.AfterFunc(time.Second, cancel) }} // which is enough to say why
	cmd := exec.CommandContext(limited, path, append([]string{"-test.count=1", "-test.failfast", fmt.Sprint("-test.timeout=", limit)}, args...)...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = filepath.Join(t.root, pkg), append(os.Environ(), env...), 5*time.Second
	cmd.Stdout, cmd.Stderr = &out, &out
	t.starting.Lock()
	err = cmd.Start()
	t.starting.Unlock()
	if err != nil {
		return "", "", err
	}
	if err = cmd.Wait(); err == nil {
		return "", string(out.text), nil
	}
	said = string(out.text)
	if ctx.Err() != nil {
		return "", "", ctx.Err()
	}
	if text := unbuilt.FindString(said); text != "" && len(env) == 0 { // else it is a mutant of Go code
		return "", said, fmt.Errorf("it is no script any more: %s\n%s", text, said)
	}
	if names := failed.FindAllStringSubmatch(said, -1); names != nil {
		by = names[0][1]
		for _, name := range names { // the innermost says most
			if strings.HasPrefix(name[1], by+"/") {
				by = name[1]
			}
		}
		return by + " of " + pkg, said, nil
	}
	if limited.Err() != nil || strings.Contains(said, "panic: test timed out") {
		return "timeout of " + pkg, said, nil
	}
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		return "", "", fmt.Errorf("%s: %w", pkg, err)
	}
	if text := panicked.FindString(said); text != "" {
		return text + " in " + pkg, said, nil
	}
	return "", said, fmt.Errorf("no test says that it failed:\n%s", said)
}

// output is what a program says. It calls failed when the first test has failed: others may hang.
type output struct {
	text   []byte
	failed func()
}

func (o *output) Write(p []byte) (int, error) {
	o.text = append(o.text, p...)
	if o.failed != nil && failed.Match(o.text) {
		o.failed()
		o.failed = nil
	}
	return len(p), nil
}

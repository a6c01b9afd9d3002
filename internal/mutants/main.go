// Mutants breaks the rules in table/table.txt, one at a time, in a copy of the tree, and says which
// test notices. It exits with 1 if one survives that should not, or the other way round.
//
//	make mutants
//	make mutants ARGS='-run quorum -parallel 4'
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/mutants/table"
)

var (
	only     = flag.String("run", "", "only rows whose names, or files, match this `pattern`")
	parallel = flag.Int("parallel", 2, "rows at a time, each in a tree of its own")
	timeout  = flag.Duration("timeout", 3*time.Minute, "for one go test; a test that hangs for more than half of it notices, too")
	near     = flag.Int("near", 1000, "try only so many of a row's tests, the nearest: quick, and what they miss others may notice")
	verbose  = flag.Bool("v", false, "print what the noticing test said")
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
	all, err := table.Rows()
	if err != nil {
		return err
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	var rows []table.Row
	for _, r := range all {
		if pattern.MatchString(r.Name) || pattern.MatchString(r.File) {
			rows = append(rows, r)
		}
	}
	var s score
	rest := s.replay(ctx, rows)
	todo := make(chan table.Row)
	go func() {
		defer close(todo)
		for _, r := range rest {
			select {
			case todo <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	var wg sync.WaitGroup
	for range *parallel {
		wg.Go(func() { s.work(ctx, todo) })
	}
	wg.Wait()
	return s.sum(len(rows))
}

// score counts.
type score struct {
	mu                         sync.Mutex
	noticed, survived, allowed int
	wrong                      []string
}

// replayed matches the rules of the scripts that TestBrokenScripts noticed.
var replayed = regexp.MustCompile(`(?m)^ *--- PASS: TestBrokenScripts/(\S+)`)

// replay counts the rows that one run of TestBrokenScripts breaks and notices, and returns the rest.
func (s *score) replay(ctx context.Context, rows []table.Row) (rest []table.Row) {
	if !slices.ContainsFunc(rows, func(r table.Row) bool { return r.Replayed() != "" }) {
		return rows
	}
	const name = "^TestBrokenScripts$"
	at := time.Now()
	out, err := exec.CommandContext(ctx, "go", append([]string{"test", "-vet=off", "-count=1", "-v", "-run=" + name}, table.Replays...)...).CombinedOutput()
	noticed := map[string]bool{}
	for _, m := range replayed.FindAllStringSubmatch(string(out), -1) {
		noticed[m[1]] = true
	}
	if err != nil {
		fmt.Printf("TestBrokenScripts: %v: what it did not notice is tried by itself\n", err)
	}
	for _, r := range rows {
		if where := r.Replayed(); where != "" && noticed[strings.ReplaceAll(r.Name, " ", "_")] {
			s.add(&r, "TestBrokenScripts of "+where, "", time.Since(at), nil)
		} else {
			rest = append(rest, r)
		}
	}
	return rest
}

func (s *score) work(ctx context.Context, todo <-chan table.Row) {
	dir, err := os.MkdirTemp("", "mutants-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = copyTree(ctx, dir)
	}
	t := tree{dir: dir}
	for r := range todo {
		at := time.Now()
		var by, said string
		if err == nil {
			by, said, err = t.try(ctx, &r)
		}
		s.add(&r, by, said, time.Since(at), err)
		err = nil
	}
}

func (s *score) add(r *table.Row, by, said string, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mark := "noticed "
	switch {
	case err != nil:
		mark, by = "ERROR   ", err.Error()
		s.wrong = append(s.wrong, r.Name+": "+err.Error())
	case by == "" && r.Survives == "":
		mark = "SURVIVED"
		s.survived++
		s.wrong = append(s.wrong, r.Name+": nothing noticed")
	case by == "":
		mark, by = "survived", r.Survives
		s.allowed++
	case r.Survives != "":
		s.noticed++
		s.wrong = append(s.wrong, r.Name+": was to survive, but "+by+" noticed: take its ! out of the table")
	default:
		s.noticed++
	}
	fmt.Printf("%s %5.1fs  %s: %s\n", mark, took.Seconds(), r.Name, by)
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

// copyTree copies what git knows of, and what it does not ignore.
func copyTree(ctx context.Context, dir string) error {
	out, err := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, ".go") {
			text = embedded.ReplaceAll(text, []byte("$2 = scriptOnDisk(`"+filepath.Join(dir, filepath.Dir(name))+"/$1`)"))
			if folder.Match(text) {
				text = folder.ReplaceAll(text, []byte("var lua = scriptsOnDisk(`"+filepath.Join(dir, filepath.Dir(name))+"`)"))
				text = bytes.Replace(text, []byte("\"embed\""), []byte("_ \"embed\""), 1)
			}
			if onDiskCall.Match(text) {
				if err := os.WriteFile(filepath.Join(dir, filepath.Dir(name), "script_on_disk.go"), onDisk(text), 0o600); err != nil {
					return err
				}
			}
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// What matches a script, or a folder of them, that is part of a program; and one that was.
var (
	embedded   = regexp.MustCompile(`//go:embed (lua/\S+)\n\t(\w+) string`)
	folder     = regexp.MustCompile(`(?m)^//go:embed lua\nvar lua embed\.FS$`)
	onDiskCall = regexp.MustCompile("(?m)^(\t\\w+|var lua) = scripts?OnDisk\\(`")
)

// onDisk has scripts read when a program starts. So a rule of a script is broken in programs
// that are compiled already.
func onDisk(text []byte) []byte {
	head := regexp.MustCompile(`(?m)^package \w+$`).Find(text)
	return append(head, `

import "os"

func scriptOnDisk(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return string(text)
}

type scriptsOnDisk string

func (dir scriptsOnDisk) ReadFile(name string) ([]byte, error) {
	return os.ReadFile(string(dir) + "/" + name)
}
`...)
}

// tree is a copy of the sources, and the test programs that were made of it.
type tree struct {
	dir   string
	tests map[string]string // by package
}

// try breaks a rule in a tree, runs tests until one notices, and puts the rule back.
func (t *tree) try(ctx context.Context, r *table.Row) (by, said string, err error) {
	file := filepath.Join(t.dir, r.File)
	text, err := os.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	broken, err := r.Broken(string(text))
	if err != nil {
		return "", "", err
	}
	if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
		return "", "", err
	}
	if !strings.HasSuffix(r.File, ".lua") {
		t.tests = nil
	}
	defer func() {
		err = errors.Join(err, os.WriteFile(file, text, 0o600))
		if !strings.HasSuffix(r.File, ".lua") {
			t.tests = nil
		}
	}()
	for _, args := range r.Tests[:min(*near, len(r.Tests))] {
		by, said, err = t.test(ctx, args)
		if err != nil || by != "" && strings.Contains(said, r.Says) {
			return by, said, err
		}
	}
	return "", "", nil
}

// program makes the test program of a package.
func (t *tree) program(ctx context.Context, pkg string) (path string, err error) {
	if path = t.tests[pkg]; path != "" {
		return path, nil
	}
	path = filepath.Join(t.dir, strings.NewReplacer("/", "_", ".", "_").Replace(pkg)+".test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", path, pkg)
	cmd.Dir = t.dir
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
const breakers = "^(TestTheDriverFindsBrokenRules|TestBrokenScripts|TestTableFitsTheCode)$"

var (
	failed   = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	panicked = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*|.*goleak: .*|redistest: .*)$`)
	unbuilt  = regexp.MustCompile(`(?m)^.*(Error compiling script|compiling the script).*$`)
)

// test runs tests, and says which one failed.
func (t *tree) test(ctx context.Context, args []string) (by, said string, err error) {
	path, err := t.program(ctx, args[0])
	if err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout+time.Minute)
	defer cancel()
	all := []string{"-test.count=1", "-test.failfast", fmt.Sprint("-test.timeout=", *timeout), "-test.skip", breakers}
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
	cmd.Dir = filepath.Join(t.dir, args[0])
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err = cmd.Run(); err == nil {
		return "", "", nil
	}
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || ctx.Err() != nil {
		return "", "", fmt.Errorf("%s: %w", args[0], err)
	}
	said = out.String()
	if text := unbuilt.FindString(said); text != "" {
		return "", said, fmt.Errorf("it is no program any more: %s\n%s", text, said)
	}
	where := args[0]
	if strings.Contains(said, "panic: test timed out") {
		return hung(said)
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
func hung(said string) (by, out string, err error) {
	for _, test := range running.FindAllStringSubmatch(said, -1) {
		if took, err := time.ParseDuration(test[2]); err == nil && took > *timeout/2 {
			return test[1] + " hangs", said, nil
		}
	}
	return "", said, fmt.Errorf("the tests take longer than %v: give more by -timeout", *timeout)
}

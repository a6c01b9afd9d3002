package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// pkg is a package of Go, or a folder of scripts, and the tests that have to notice its mutants.
type pkg struct {
	path    string // from the root, as ./guard/quorum
	scripts bool
	files   *regexp.Regexp // those that are meant
	tests   []string       // packages of tests; those of a folder of scripts may have flags for go test
}

const module = "github.com/redlatch/redlatch"

var (
	product = regexp.MustCompile(`^\./(guard|guardsql|middleware|tracing|cmd)(/|$)`)
	kits    = regexp.MustCompile(`/(browser|chaos|dbtest|embedded|model|testenv|storetest|adaptertest|tasktest|frameworks)(/|$)`)
)

// more has packages whose tests see rules of a package that its own tests do not see.
var more = map[string][]string{
	"./guard":                        {"./guard/internal/redisstore"}, // Replicas
	"./guard/guardstore":             {"./guard/guardtest"},
	"./guard/guardtest":              {"./guard/internal/model", "./guard/internal/model/records", "./guard/internal/cohort", "./guard"},
	"./guard/internal/clock":         {"./guard/internal/watchdog", "./guard/internal/retry"},
	"./guard/internal/cohort":        {"./guard"},
	"./guard/internal/keyformat":     {"./guard"},
	"./guard/internal/redisconn":     {"./guard/internal/redisstore"},
	"./guard/internal/redisstore":    {"./guard", "./guard/quorum"}, // OnClient, ReleaseBy
	"./guard/internal/retry":         {"./guard/internal/cohort", "./guard"},
	"./guard/internal/task":          {"./guard/internal/cohort", "./guard"},
	"./guard/internal/watchdog":      {"./guard/internal/cohort", "./guard"},
	"./guardsql":                     {"./guardsql/internal/dbtest"},
	"./middleware/internal/httplock": {"./middleware/nethttp", "./middleware/echo", "./middleware/gin"},
	"./middleware/internal/locking":  {"./middleware/nethttp", "./middleware/grpc"},
	"./middleware/internal/tasklock": {"./middleware/asynq", "./middleware/watermill", "./middleware/river"},
}

// first has the tests of a folder of scripts that notice most: those of its package run after them.
var first = map[string][]string{
	"./guard/inspect/lua":             {"./guard/inspect -run ^TestLua_"},
	"./guard/internal/redisstore/lua": {"./guard/internal/model -run ^TestReplay$", "./guard/internal/model/records -run ^TestReplay$"},
}

// files has patterns for the files of kits that are tried, too.
var files = map[string]string{"./guard/guardtest": "/memory"}

// packagesOf lists the packages to try. A package without tests has those of its importers.
func packagesOf(ctx context.Context, root string) (all []pkg, err error) {
	listed, err := list(ctx, root)
	if err != nil {
		return nil, err
	}
	for _, l := range listed {
		if !product.MatchString(l.path()) || kits.MatchString(l.path()) {
			continue
		}
		p := pkg{path: l.path(), files: regexp.MustCompile(files[l.path()]), tests: []string{l.path()}}
		if !l.hasTests() {
			p.tests = importers(listed, l)
		}
		p.tests = append(p.tests, more[p.path]...)
		all = append(all, p)
		lua := p.path + "/lua"
		if _, err := os.Stat(filepath.Join(root, lua)); err == nil {
			all = append(all, pkg{path: lua, scripts: true, tests: append(slices.Clone(first[lua]), p.path)})
		}
	}
	return all, nil
}

// listed is a package as go list knows it.
type listed struct {
	ImportPath                string
	Imports                   []string
	TestGoFiles, XTestGoFiles []string
}

func (l *listed) path() string   { return "." + strings.TrimPrefix(l.ImportPath, module) }
func (l *listed) hasTests() bool { return len(l.TestGoFiles)+len(l.XTestGoFiles) > 0 }

func list(ctx context.Context, root string) (all []*listed, err error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-json=ImportPath,Imports,TestGoFiles,XTestGoFiles", "work")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		l := new(listed)
		if err := decoder.Decode(l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
}

// importers are the packages with tests that import one.
func importers(all []*listed, of *listed) (paths []string) {
	for _, l := range all {
		if l.hasTests() && slices.Contains(l.Imports, of.ImportPath) && !kits.MatchString(l.path()) {
			paths = append(paths, l.path())
		}
	}
	return paths
}

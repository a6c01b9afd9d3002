// Package readme keeps the README and the guides true: their snippets are parts of
// examples that compile, what they point at is there, and what can be counted is right.
package readme

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

const root = "../.."

// documents returns everything in Markdown that links to other files, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{"README.md", "README.zh.md", "CONTRIBUTING.md", "SECURITY.md", "SUPPORT.md", "CHANGELOG.md"} {
		all[name] = read(t, name)
	}
	for _, dir := range []string{"docs", "internal/docs"} {
		maps.Copy(all, pages(t, dir))
	}
	return all
}

// pages returns the pages below a directory, by path.
func pages(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(root), dir, func(name string, _ fs.DirEntry, err error) error {
		if err == nil && path.Ext(name) == ".md" {
			all[name] = read(t, name)
		}
		return err
	}))
	require.NotEmpty(t, all)
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}

// sources returns all files in Go, by path.
func sources(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err == nil && entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case err == nil && path.Ext(name) == ".go":
			all[name] = read(t, name)
		}
		return err
	}))
	return all
}

// examples returns the lines of the example functions' files, and of the programs in examples/, without what indents them.
func examples(t *testing.T) (all []string) {
	t.Helper()
	for name, text := range sources(t) {
		test := strings.HasSuffix(name, "_test.go")
		is := test && strings.HasPrefix(path.Base(name), "example") || !test && strings.HasPrefix(name, "examples/")
		if is && !strings.Contains(text, "//go:build") {
			all = append(all, indents.ReplaceAllString("\n"+text, "\n"))
		}
	}
	return all
}

var (
	indents = regexp.MustCompile(`\n[ \t]+`)
	fence   = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
)

// Every snippet in Go stands, line by line, in a file that go vet and go test compile.
func TestREADME_SnippetsAreFromCompiledExamples(t *testing.T) {
	all := examples(t)
	for name, text := range documents(t) {
		for _, snippet := range fence.FindAllStringSubmatch(text, -1) {
			part := "\n" + indents.ReplaceAllString("\n"+strings.Trim(snippet[1], "\n"), "\n")[1:] + "\n"
			found := slices.ContainsFunc(all, func(example string) bool { return strings.Contains(example, part) })
			assert.True(t, found, "%s: in no example:\n%s", name, part)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]+))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`) // by GitHub, in the anchor of a heading
)

// A link into the repository leads to a file, and to a heading in it that is there.
func TestREADME_LinksLeadSomewhere(t *testing.T) {
	all := documents(t)
	for name, text := range all {
		for _, to := range link.FindAllStringSubmatch(text, -1) {
			file := name
			if to[1] != "" {
				file = path.Join(path.Dir(name), to[1])
				_, err := os.Stat(filepath.Join(root, file))
				assert.NoError(t, err, name)
			}
			if to[2] == "" {
				continue
			}
			var there []string
			for _, h := range heading.FindAllStringSubmatch(all[file], -1) {
				there = append(there, strings.ReplaceAll(strings.ToLower(dropped.ReplaceAllString(h[1], "")), " ", "-"))
			}
			assert.Contains(t, there, to[2], "%s: %s", name, to[0])
		}
	}
}

var command = regexp.MustCompile("(?m)(?:^|`)(?:make ([a-z]+)|go run \\./([a-z/]+))")

// What they say to run can be run: a target of the Makefile, a program.
func TestREADME_CommandsAreThere(t *testing.T) {
	makefile := read(t, "Makefile")
	require.NotEmpty(t, command.FindString(documents(t)["README.md"]))
	for name, text := range documents(t) {
		for _, c := range command.FindAllStringSubmatch(text, -1) {
			if c[1] != "" {
				assert.Contains(t, makefile, "\n"+c[1]+":", "%s: make %s", name, c[1])
				continue
			}
			_, err := os.Stat(filepath.Join(root, c[2], "main.go"))
			assert.NoError(t, err, name)
		}
	}
}

var testName = regexp.MustCompile("`(Test[A-Z]\\w+)`")

// A test that a document calls as its witness is there.
func TestREADME_TestsThatAreNamedAreThere(t *testing.T) {
	code := strings.Join(slices.Collect(maps.Values(sources(t))), "\n")
	for name, text := range documents(t) {
		for _, named := range testName.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(code, "\nfunc "+named[1]+"(") {
				t.Errorf("%s: no test is called %s", name, named[1])
			}
		}
	}
}

// Package readme keeps the README true: its snippets are parts of examples that
// compile, and what it points at is there.
package readme

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	return string(text)
}

// lines gives the lines of a text without what indents them.
func lines(text string) []string {
	all := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range all {
		all[i] = strings.TrimSpace(line)
	}
	return all
}

var fence = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// Every snippet in Go stands, line by line, in a file that go vet and go test compile.
func TestSnippetsAreFromCompiledExamples(t *testing.T) {
	examples := exampleFiles(t)
	require.NotEmpty(t, examples)
	snippets := fence.FindAllStringSubmatch(readme(t), -1)
	require.GreaterOrEqual(t, len(snippets), 3, "a route, a task and code")
	for _, snippet := range snippets {
		found := false
		for _, example := range examples {
			found = found || contains(example, lines(snippet[1]))
		}
		assert.True(t, found, "in no example:\n%s", snippet[1])
	}
}

// exampleFiles gives the lines of the example functions' files, and of the programs in
// examples/.
func exampleFiles(t *testing.T) (files [][]string) {
	t.Helper()
	repo := os.DirFS(root)
	require.NoError(t, fs.WalkDir(repo, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case !isExample(name):
			return nil
		}
		text, err := fs.ReadFile(repo, name)
		if err == nil && !strings.Contains(string(text), "//go:build") {
			files = append(files, lines(string(text)))
		}
		return err
	}))
	return files
}

func isExample(name string) bool {
	if path.Ext(name) != ".go" {
		return false
	}
	test := strings.HasSuffix(name, "_test.go")
	return test && strings.HasPrefix(path.Base(name), "example") || !test && strings.HasPrefix(name, "examples/")
}

func contains(file, part []string) bool {
	for i := 0; i+len(part) <= len(file); i++ {
		if slices.Equal(file[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

var link = regexp.MustCompile(`\]\(([^)#:]+)\)`)

func TestLinksIntoTheRepositoryLeadSomewhere(t *testing.T) {
	for _, target := range link.FindAllStringSubmatch(readme(t), -1) {
		_, err := os.Stat(filepath.Join(root, target[1]))
		assert.NoError(t, err)
	}
}

var command = regexp.MustCompile("(?m)(?:^|`)(?:make ([a-z]+)|go run \\./([a-z/]+))")

// What the README says to run can be run: a target of the Makefile, a program.
func TestCommandsAreThere(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	commands := command.FindAllStringSubmatch(readme(t), -1)
	require.NotEmpty(t, commands)
	for _, c := range commands {
		if c[1] != "" {
			assert.Contains(t, string(makefile), "\n"+c[1]+":", "make %s", c[1])
			continue
		}
		_, err := os.Stat(filepath.Join(root, c[2], "main.go"))
		assert.NoError(t, err)
	}
}

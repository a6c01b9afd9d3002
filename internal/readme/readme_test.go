// Package readme keeps the README and the guides true: their snippets are parts of
// examples that compile, what they point at is there, and what can be counted is right.
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

// documents gives the README and the guides, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	repo, all := os.DirFS(root), map[string]string{}
	names, err := fs.Glob(repo, "docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range append(names, "README.md", "README.zh.md", "CONTRIBUTING.md") {
		text, err := fs.ReadFile(repo, name)
		require.NoError(t, err)
		all[name] = string(text)
	}
	return all
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
func TestREADME_SnippetsAreFromCompiledExamples(t *testing.T) {
	examples := exampleFiles(t)
	require.NotEmpty(t, examples)
	for name, text := range documents(t) {
		snippets := fence.FindAllStringSubmatch(text, -1)
		if name == "README.md" {
			require.Len(t, snippets, 2, "a few lines, and a program")
		}
		for _, snippet := range snippets {
			found := slices.ContainsFunc(examples, func(example []string) bool { return contains(example, lines(snippet[1])) })
			assert.True(t, found, "%s: in no example:\n%s", name, snippet[1])
		}
	}
}

var oneLine = regexp.MustCompile("`(guard\\w*\\.[A-Z][^`]*\\))`")

// What the README names in a line is in an example, too.
func TestREADME_OneLinersAreFromCompiledExamples(t *testing.T) {
	examples := exampleFiles(t)
	all := documents(t)
	for _, name := range []string{"README.md", "README.zh.md"} {
		lines := oneLine.FindAllStringSubmatch(all[name], -1)
		require.GreaterOrEqual(t, len(lines), 5, name)
		for _, one := range lines {
			found := slices.ContainsFunc(examples, func(example []string) bool {
				return slices.ContainsFunc(example, func(line string) bool { return strings.Contains(line, one[1]) })
			})
			assert.True(t, found, "%s: in no example: %s", name, one[1])
		}
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

func TestREADME_LinksIntoTheRepositoryLeadSomewhere(t *testing.T) {
	for name, text := range documents(t) {
		for _, target := range link.FindAllStringSubmatch(text, -1) {
			_, err := os.Stat(filepath.Join(root, filepath.Dir(name), target[1]))
			assert.NoError(t, err, name)
		}
	}
}

var (
	toHeading = regexp.MustCompile(`\]\(([^)#:]*)#([^)]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	dropped   = regexp.MustCompile(`[^\p{L}\p{N} _-]`) // by GitHub, in the anchor of a heading
)

// A link to a part of a document leads to a heading that is there.
func TestREADME_LinksToHeadingsLeadToOne(t *testing.T) {
	all := documents(t)
	for name, text := range all {
		for _, to := range toHeading.FindAllStringSubmatch(text, -1) {
			file := name
			if to[1] != "" {
				file = path.Join(path.Dir(name), to[1])
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
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	require.NotEmpty(t, command.FindString(documents(t)["README.md"]))
	for name, text := range documents(t) {
		for _, c := range command.FindAllStringSubmatch(text, -1) {
			if c[1] != "" {
				assert.Contains(t, string(makefile), "\n"+c[1]+":", "%s: make %s", name, c[1])
				continue
			}
			_, err := os.Stat(filepath.Join(root, c[2], "main.go"))
			assert.NoError(t, err, name)
		}
	}
}

// A guide that is longer is two.
func TestREADME_GuidesAreShort(t *testing.T) {
	for name, text := range documents(t) {
		most := 150
		if strings.HasPrefix(name, "README") {
			most = 151
		}
		assert.Less(t, strings.Count(text, "\n"), most, name)
	}
}

var testName = regexp.MustCompile("`(Test[A-Z]\\w+)`")

// A test that a document calls as its witness is there.
func TestREADME_TestsThatAreNamedAreThere(t *testing.T) {
	all := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	repo := os.DirFS(root)
	require.NoError(t, fs.WalkDir(repo, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		text, err := fs.ReadFile(repo, name)
		for _, d := range declared.FindAllSubmatch(text, -1) {
			all[string(d[1])] = true
		}
		return err
	}))
	all["TestStore"] = true // guardtest's, for users
	for name, text := range documents(t) {
		for _, named := range testName.FindAllStringSubmatch(text, -1) {
			assert.True(t, all[named[1]], "%s: no test is called %s", name, named[1])
		}
	}
}

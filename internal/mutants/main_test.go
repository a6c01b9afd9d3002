package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// module writes the files of a module, and returns a tree of it.
func moduleOf(t *testing.T, files map[string]string) *tree {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module m\n\ngo 1.25\n"
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	tr, err := newTree(dir)
	require.NoError(t, err)
	t.Cleanup(tr.remove)
	return tr
}

// Each mutant is tried with the tests that come by it.
func TestMutants_OfGo(t *testing.T) {
	t.Parallel()
	tr := moduleOf(t, map[string]string{
		"m.go":        "package m\n\nfunc F(a int) bool {\n\treturn a > 0\n}\n\nfunc G() int { return F2() + 2 }\n\nfunc F2() int { return 5 }\n",
		"m_test.go":   "package m\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {\n\tif !F(1) {\n\t\tt.Fatal(1)\n\t}\n}\n",
		"n/n_test.go": "package n\n\nimport (\n\t\"testing\"\n\t\"m\"\n)\n\nfunc TestG(t *testing.T) {\n\tif m.G() != 7 {\n\t\tt.Fatal(1)\n\t}\n}\n",
	})
	s, err := tr.tryGo(t.Context(), pkg{path: ".", files: regexp.MustCompile(""), tests: []string{".", "./n"}})
	require.NoError(t, err)
	assert.Equal(t, []string{"m.go F bound: a > 0"}, s.survived)
	assert.Equal(t, 7, s.made)
}

// A mutant of a script is put into the test programs.
func TestMutants_OfScripts(t *testing.T) {
	t.Parallel()
	tr := moduleOf(t, map[string]string{
		"lua/a.lua": "if a then\n  f(2)\nend\n",
		"m_test.go": "package m\n\nimport (\n\t\"embed\"\n\t\"strings\"\n\t\"testing\"\n)\n\n//go:embed lua\nvar lua embed.FS\n\nfunc TestA(t *testing.T) {\n" +
			"\ttext, _ := lua.ReadFile(\"lua/a.lua\")\n\tif !strings.Contains(string(text), \"f(2)\") {\n\t\tt.Fatal(string(text))\n\t}\n}\n",
	})
	s, err := tr.tryScripts(t.Context(), pkg{path: "./lua", scripts: true, tests: []string{". -run ^TestA$"}})
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"lua/a.lua:1 always: a", "lua/a.lua:1 never: a"}, s.survived)
	assert.Equal(t, 4, s.made)
	assert.InDelta(t, 50, s.percent(), 0.1)

	_, err = tr.suites(t.Context(), []string{". -run ^TestB$"})
	assert.ErrorContains(t, err, "no tests to run")
}

// A hang in a test is noticed, and a hang after the tests, where go test has no timeout.
func TestMutants_HangIsNoticed(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"in a test":       "func TestF(t *testing.T) {\n\tselect {\n\tcase <-t.Context().Done():\n\t}\n}\n",
		"after the tests": "func TestMain(m *testing.M) {\n\tm.Run()\n\tfor {\n\t}\n}\n",
	} {
		tr := moduleOf(t, map[string]string{"m_test.go": "package m\n\nimport \"testing\"\n\n" + text})
		path, err := tr.program(t.Context(), ".")
		require.NoError(t, err)
		by, _, err := tr.test(t.Context(), ".", path, nil, 100*time.Millisecond)
		require.NoError(t, err, name)
		assert.Equal(t, "timeout of .", by, name)
	}
	tr := moduleOf(t, map[string]string{"m_test.go": "package m\n\nimport \"testing\"\n\n" +
		"func TestF(t *testing.T) {\n\tt.Parallel()\n\tt.Error(1)\n}\n\nfunc TestG(t *testing.T) {\n\tt.Parallel()\n\t<-t.Context().Done()\n}\n"})
	path, err := tr.program(t.Context(), ".")
	require.NoError(t, err)
	by, said, err := tr.test(t.Context(), ".", path, nil, time.Minute)
	require.NoError(t, err)
	assert.Equal(t, "TestF of .", by, "beside a test that hangs")
	assert.NotContains(t, said, "timed out", "it is not waited for")
}

const root = "../.."

// Product packages are tried, and kits are not.
func TestPackages_AreThoseOfTheProduct(t *testing.T) {
	t.Parallel()
	all, err := packagesOf(t.Context(), root)
	require.NoError(t, err)
	tests := map[string][]string{}
	for _, p := range all {
		assert.NotEmpty(t, p.tests, p.path)
		tests[p.path] = p.tests
	}
	assert.Equal(t, []string{"./guard/quorum"}, tests["./guard/quorum"])
	assert.Equal(t, []string{"./cmd/redlatch"}, tests["./cmd/redlatch/internal/child"], "it has no tests of its own")
	assert.Contains(t, tests, "./guard/quorum/lua")
	assert.NotContains(t, tests, "./guard/internal/testenv")
	for path := range more {
		assert.Contains(t, tests, path)
	}
	for path := range first {
		assert.Contains(t, tests, path)
	}
}

// Each package is of one job of the workflow.
func TestPackages_AllAreInTheWorkflow(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, ".github/workflows/mutants.yml"))
	require.NoError(t, err)
	all, err := packagesOf(t.Context(), root)
	require.NoError(t, err)
	for _, p := range all {
		var jobs []string
		for _, job := range regexp.MustCompile(`(?m)^ +- '(.+)'$`).FindAllStringSubmatch(string(text), -1) {
			if regexp.MustCompile(job[1]).MatchString(p.path) {
				jobs = append(jobs, job[1])
			}
		}
		assert.Len(t, jobs, 1, "%s: %q", p.path, jobs)
	}
}

// A rule whose text is not there breaks nothing.
func TestChaos_RulesAreInTheCode(t *testing.T) {
	t.Parallel()
	for _, r := range rules {
		_, err := r.broken(root)
		assert.NoError(t, err)
	}
}

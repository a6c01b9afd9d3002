package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/mutants/table"
)

// The runner distinguishes a test that failed from a program that does not build.
func TestMutants_WhichTestNoticed(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("go.mod", "module m\n\ngo 1.26\n")
	write("m.go", "package m\n\nfunc F() int { return 1 }\n")
	write("m_test.go", "package m\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {\n"+
		"\tt.Run(\"is 1\", func(t *testing.T) {\n\t\tif F() != 1 {\n\t\t\tt.Fatal(F())\n\t\t}\n\t})\n}\n")
	r := table.Row{Name: "one", File: "m.go", Was: "return 1", Is: "return 2", Tests: [][]string{{"."}}}
	tr := tree{root: dir, dir: t.TempDir()}
	by, _, err := tr.try(t.Context(), &r)
	require.NoError(t, err)
	assert.Equal(t, "TestF/is_1 of .", by)

	r.Is = "return 2 - 1"
	by, _, err = tr.try(t.Context(), &r)
	require.NoError(t, err)
	assert.Empty(t, by, "nothing is broken")

	r.Is = "return nothing"
	_, _, err = tr.try(t.Context(), &r)
	require.ErrorContains(t, err, "no program")

	r.Is = "panic(1)"
	by, _, err = tr.try(t.Context(), &r)
	require.NoError(t, err)
	assert.Contains(t, by, "TestF")

	by, _, err = hung("panic: test timed out after 3m0s\n\trunning tests:\n\t\tTestA (1s)\n\t\tTestB/b (2m50s)\n", 3*time.Minute)
	require.NoError(t, err)
	assert.Equal(t, "TestB/b hangs", by)
	_, _, err = hung("panic: test timed out after 3m0s\n\trunning tests:\n\t\tTestA (1s)\n", 3*time.Minute)
	require.ErrorContains(t, err, "longer than 3m0s")
}

// Each mutant is tried with the tests that come by it, and what no test notices is said.
func TestMutants_WhatNothingNoticesOfAPackage(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module m\n\ngo 1.26\n",
		"m.go":      "package m\n\nfunc F(a int) bool {\n\treturn a > 0\n}\n\nfunc g() bool { return true }\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {\n\tif !F(1) {\n\t\tt.Fatal(1)\n\t}\n}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	g := &table.Package{Path: ".", Tests: [][]string{{"."}}, Survives: map[string]string{"m.go g not: true": "It has no caller."}}
	err := tryPackage(t.Context(), dir, g, regexp.MustCompile(""))
	require.ErrorContains(t, err, "3 of 3 done\n  m.go F bound: a > 0: nothing noticed")
	assert.NotContains(t, err.Error(), "not: a > 0")
	assert.NotContains(t, err.Error(), "m.go g ")

	g.Survives["m.go F bound: a > 0"], g.Survives["m.go F not: a > 0"] = "No.", "No."
	err = tryPackage(t.Context(), dir, g, regexp.MustCompile(""))
	require.ErrorContains(t, err, "m.go F not: a > 0: was to survive, but TestF")
}

// Of each mutant that may survive it is said why, and it is there.
func TestMutants_GeneratedMutantsThatMaySurviveAreThere(t *testing.T) {
	t.Parallel()
	packages, err := table.Packages()
	require.NoError(t, err)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for _, g := range packages {
		if len(g.Survives) == 0 {
			continue // to make mutants takes a second
		}
		p, all, err := choose(root, &g, regexp.MustCompile(""))
		require.NoError(t, err)
		assert.NotEmpty(t, all, g.Path)
		ids := map[string]bool{}
		for _, m := range p.Mutants {
			assert.False(t, ids[m.ID], "two mutants are called %q", m.ID)
			ids[m.ID] = true
		}
		for id, why := range g.Survives {
			assert.True(t, ids[id], "there is no mutant %q", id)
			assert.True(t, strings.HasSuffix(why, "."), "%s: why it survives is a sentence", id)
		}
	}
}

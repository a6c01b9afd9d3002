package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/mutants/table"
)

// The runner tells a test that failed from a program that does not build.
func TestWhoNoticed(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("go.mod", "module m\n\ngo 1.26\n")
	write("m.go", "package m\n\nfunc F() int { return 1 }\n")
	write("m_test.go", "package m\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {\n"+
		"\tt.Run(\"is 1\", func(t *testing.T) {\n\t\tif F() != 1 {\n\t\t\tt.Fatal(F())\n\t\t}\n\t})\n}\n")
	r := table.Row{Name: "one", File: "m.go", Was: "return 1", Is: "return 2", Tests: [][]string{{"."}}}
	tr := tree{dir: dir}
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

	by, _, err = hung("panic: test timed out after 3m0s\n\trunning tests:\n\t\tTestA (1s)\n\t\tTestB/b (2m50s)\n")
	require.NoError(t, err)
	assert.Equal(t, "TestB/b hangs", by)
	_, _, err = hung("panic: test timed out after 3m0s\n\trunning tests:\n\t\tTestA (1s)\n")
	require.ErrorContains(t, err, "longer than 3m0s")

	text, err := os.ReadFile(filepath.Join(dir, "m.go"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "return 1", "the rule is back")
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

// A row whose text is not there, or there twice, breaks nothing, or something else.
func TestTableFitsTheCode(t *testing.T) {
	t.Parallel()
	rows, err := readTable("table.txt")
	require.NoError(t, err)
	names := map[string]bool{}
	for _, r := range rows {
		text, err := os.ReadFile(filepath.Join(root, r.file))
		require.NoError(t, err, r.name)
		_, err = r.broken(string(text))
		assert.NoError(t, err)
		assert.NotEqual(t, r.was, r.is, r.name)
		assert.False(t, names[r.name], "two rows are called %q", r.name)
		names[r.name] = true
		for _, args := range r.tests {
			assert.DirExists(t, filepath.Join(root, args[0]), r.name)
		}
		if r.survives != "" {
			assert.True(t, strings.HasSuffix(r.survives, "."), "%s: why it survives is a sentence", r.name)
		}
	}
}

func TestReadTable(t *testing.T) {
	t.Parallel()
	read := func(text string) ([]row, error) {
		name := filepath.Join(t.TempDir(), "table.txt")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return readTable(name)
	}
	rows, err := read("# a comment\n\nfile a.go\ntest ./a -run A\ntest ./b\n\none\n- a\n- \tb\n+ c\n\ntwo\n- d\n+ \n! It is slow.\n\nfile b.go\ntest ./b\n\nthree\n- e\n+ f\n")
	require.NoError(t, err)
	near := [][]string{{"./a", "-run", "A"}, {"./b"}}
	assert.Equal(t, []row{
		{"one", "a.go", "a\n\tb", "c", near, ""},
		{"two", "a.go", "d", "", near, "It is slow."},
		{"three", "b.go", "e", "f", [][]string{{"./b"}}, ""},
	}, rows)
	for _, text := range []string{
		"file a.go\ntest ./a\n\n- a\n+ b\n", "file a.go\n\none\n- a\n", "test ./a\n\none\n- a\n", "file a.go\ntest ./a\n\none\ntwo\n- a\n",
	} {
		_, err := read(text)
		assert.Error(t, err, text)
	}
}

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
	r := row{name: "one", file: "m.go", was: "return 1", is: "return 2", tests: [][]string{{"."}}}
	by, _, err := r.try(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, "TestF/is_1 of .", by)

	r.is = "return 2 - 1"
	by, _, err = r.try(t.Context(), dir)
	require.NoError(t, err)
	assert.Empty(t, by, "nothing is broken")

	r.is = "return nothing"
	_, _, err = r.try(t.Context(), dir)
	require.ErrorContains(t, err, "no program")

	r.is = "panic(1)"
	by, _, err = r.try(t.Context(), dir)
	require.NoError(t, err)
	assert.Contains(t, by, "TestF")

	text, err := os.ReadFile(filepath.Join(dir, "m.go"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "return 1", "the rule is back")
}

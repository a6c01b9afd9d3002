package table

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../../.."

// A row whose text is not there, or there twice, breaks nothing, or something else.
func TestTable_FitsTheCode(t *testing.T) {
	t.Parallel()
	rows, err := Rows()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, r := range rows {
		text, err := os.ReadFile(filepath.Join(root, r.File))
		require.NoError(t, err, r.Name)
		_, err = r.Broken(string(text))
		assert.NoError(t, err)
		assert.NotEqual(t, r.Was, r.Is, r.Name)
		assert.False(t, names[r.Name], "two rows are called %q", r.Name)
		names[r.Name] = true
		for _, args := range r.Tests {
			assert.DirExists(t, filepath.Join(root, args[0]), r.Name)
		}
		if r.Survives != "" {
			assert.True(t, strings.HasSuffix(r.Survives, "."), "%s: why it survives is a sentence", r.Name)
		}
	}
}

func TestTable_Read(t *testing.T) {
	t.Parallel()
	rows, err := read("# a comment\n\nfile a.go\ntest ./a -run A\ntest ./b\n\none :: a⏎\tb ==> c\ntwo :: d\n! It is slow.\n\n" +
		"file b.go\ntest ./b\nthree ::  e ==> f⏎\nsays twice: \nfile c.go\nfour :: g ==> h\nchaos quorum\nfive :: i ==> j\n")
	require.NoError(t, err)
	near, b := [][]string{{"./a", "-run", "A"}, {"./b"}}, [][]string{{"./b"}}
	assert.Equal(t, []Row{
		{"one", "a.go", "a\n\tb", "c", near, "", "", ""},
		{"two", "a.go", "d", "", near, "", "", "It is slow."},
		{"three", "b.go", " e", "f\n", b, "twice: ", "", ""},
		{"four", "c.go", "g", "h", b, "", "", ""},
		{"five", "c.go", "i", "j", onChaos("quorum"), "", "quorum", ""},
	}, rows)
	for _, text := range []string{
		"file a.go\none :: a ==> b\n", "test ./a\none :: a ==> b\n", "file a.go\ntest ./a\none ::  ==> b\n", "file a.go\ntest ./a\none\n", "! It is slow.\n",
	} {
		_, err := read(text)
		assert.Error(t, err, text)
	}
}

package generate

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const source = `package m

import "time"

type kind struct{ n int }

func (k *kind) F(a, b int, wait time.Duration) (bool, error) {
	for k.n < a {
		k.n++
	}
	if a < b && k.n > 0 {
		go k.F(a, b, 2*time.Second)
	}
	switch {
	case max(a, b) == 5:
		return false, nil
	}
	return k.n+1 >= a, k.err(kind{n: k.n})
}

func (k *kind) err(kind) error { return nil }
`

// Mutants are the same each time, and their names say what each one changes.
func TestGenerate_Mutants(t *testing.T) {
	t.Parallel()
	p := made(t, source)
	var ids []string
	for _, id := range p.IDs {
		ids = append(ids, strings.TrimPrefix(id, "m.go kind.F "))
	}
	assert.Equal(t, []string{
		"never: k.n < a", "bound: k.n < a", "drop: k.n++",
		"always: a < b && k.n > 0", "never: a < b && k.n > 0", "without: a < b", "without: k.n > 0", "bound: a < b", "bound: k.n > 0",
		"drop: go k.F(a, b, 2*time.Second)", "number: 2*time.Second",
		"always: max(a, b) == 5", "never: max(a, b) == 5", "max without: a", "max without: b", "number: 5",
		"not: false", "not: k.n+1 >= a", "nothing: return k.n+1 >= a, k.err(kind{n: k.n})",
		"bound: k.n+1 >= a", "sign: k.n+1", "without field: n: k.n",
	}, ids)
	assert.Equal(t, p, made(t, source))
}

func TestGenerate_UnnoticeableMutantsAreNotMade(t *testing.T) {
	t.Parallel()
	p := made(t, `package m

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const none = 0

var pool sync.Pool

func zero() int { return none }

func f(a []*int, n int) {
	pool.Put(a)
	timer := time.NewTimer(1)
	defer timer.Stop()
	_, cancel := context.WithCancel(context.Background())
	defer cancel()
	a[n] = nil
	a = slices.Clip(a)
	_, _ = make([]int, 0, 2*n+3), make(map[int]int, n+5)
	_ = rand.N(n + 7)
	_ = make([]int, n-1)
}
`)
	assert.Equal(t, []string{
		"m.go f drop: _, _ = make([]int, 0, 2*n+3), make(map[int]int, n+5)", "m.go f drop: _ = rand.N(n + 7)",
		"m.go f drop: _ = make([]int, n-1)", "m.go f sign: n-1",
	}, p.IDs)
}

func made(t *testing.T, text string) *Package {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module m\n\ngo 1.25\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "m.go"), []byte(text), 0o600))
	p, err := Load(dir, ".", regexp.MustCompile(""))
	require.NoError(t, err)
	for path, text := range p.Files {
		delete(p.Files, path)
		p.Files[filepath.Base(path)] = text
	}
	return p
}

package chaos_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/mutants/table"
)

// What a run cannot notice it does not prove. The libraries are those of the table of make mutants
// that name a topology.
func TestMutants_AreCaught(t *testing.T) {
	if !*mutantsFlag {
		t.Skip("takes minutes: asked for with -mutants")
	}
	rows, err := table.Rows()
	require.NoError(t, err)
	mutants := slices.DeleteFunc(rows, func(r table.Row) bool { return r.Chaos == "" })
	require.NotEmpty(t, mutants)
	for _, m := range mutants {
		t.Run(strings.TrimPrefix(m.Name, "chaos: "), func(t *testing.T) {
			overlay := overlay(t, &m)
			for _, args := range m.Tests {
				begun := time.Now()
				args = slices.Concat([]string{"test", "-overlay", overlay, "-count=1", "-timeout=5m", "."}, args[1:])
				out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
				if err == nil {
					continue
				}
				require.Contains(t, string(out), "--- FAIL: TestChaos/"+m.Chaos)
				if !strings.Contains(string(out), m.Says) {
					t.Logf("%s is red for another reason", args) // a rule may stand for several things
					continue
				}
				t.Logf("caught by %s after %v: %s", args, time.Since(begun).Round(time.Second), firstLine(string(out), m.Says))
				return
			}
			t.Error("not caught, or not for what it breaks")
		})
	}
}

// overlay writes what go build takes for the mutant's file.
func overlay(t *testing.T, m *table.Row) (path string) {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("..", "..", m.File))
	require.NoError(t, err)
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	text, err := m.Broken(string(source))
	require.NoError(t, err)

	dir := t.TempDir()
	broken := filepath.Join(dir, filepath.Base(m.File))
	require.NoError(t, os.WriteFile(broken, []byte(text), 0o600))
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {file: broken}})
	require.NoError(t, err)
	path = filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(path, replaced, 0o600))
	return path
}

func firstLine(text, with string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, with) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

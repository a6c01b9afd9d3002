package chaos_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mutant is a library that was broken on purpose.
type mutant struct {
	name     string
	topology string
	file     string // below package guard
	old, new string
	says     string // what a run has to say of it
}

var mutants = []mutant{
	{
		"release without owner check", "single", "internal/redisstore/lua/release.lua",
		"if mine then\n  local fence =",
		"if hold[2] then\n  local fence =",
		`held twice: "`,
	},
	{
		"no local deadline", "single", "internal/watchdog/grant.go",
		"return sent.Add(ttl - ttl/10 - 2*time.Millisecond)",
		"return sent.Add(24 * time.Hour)",
		`held twice: "`,
	},
	{
		"fences frozen", "single", "internal/redisstore/lua/take.lua",
		"  local ahead = not less(high, at)\n",
		"  local ahead = false\n  fence = '1'\n",
		"write under one fence",
	},
	{
		"fences that Redis forgets", "single", "internal/redisstore/lua/take.lua",
		"local fence, high = at, above",
		"at = '0'\n  local fence, high = at, above",
		", longer than ", // how long such fences are remembered
	},
	{
		"fences are taken ahead of time", "single", "internal/redisstore/lua/take.lua",
		"local fence, high = at, above",
		"at = string.format('%.0f', at + 60000000)\n  local fence, high = at, above",
		"further ahead of every clock",
	},
	{
		"permits that nobody counts", "single", "internal/redisstore/lua/admit.lua",
		"  return inside.n < inside.many\n",
		"  return true\n",
		`held twice: "`,
	},
	{
		"locks that are kept too short", "single", "internal/redisstore/lua/release.lua",
		"redis.call('PEXPIRE', KEYS[1], rest)",
		"redis.call('PEXPIRE', KEYS[1], math.ceil(rest / 4))",
		"was to keep the lock for",
	},
	{
		"a revocation of whoever holds", "single", "inspect/lua/revoke.lua",
		"if (hold[2] or hold[1]) ~= ARGV[1] then",
		"if not hold[1] then",
		"was revoked, and nobody meant it",
	},
	{
		"a minority is a quorum", "quorum", "internal/quorum/store.go",
		"need: len(clients)/2 + 1,",
		"need: len(clients) / 2,",
		`held twice: "`,
	},
	{
		"a primary that was replaced goes unnoticed", "sentinel", "internal/redisconn/sentinel.go",
		"checkInterval = time.Second",
		"checkInterval = time.Hour",
		`held twice: "`,
	},
	{
		"fences that another server does not know", "cluster", "internal/redisstore/lua/take.lua",
		"local fence, high = at, above",
		"at = '0'\n  local fence, high = at, above",
		", longer than ", // how long such fences are remembered
	},
}

const seedsEach = 5 // to find a mutant out

// What a run cannot notice it does not prove.
func TestMutantsAreCaught(t *testing.T) {
	if !*mutantsFlag {
		t.Skip("takes minutes: asked for with -mutants")
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			overlay := m.overlay(t)
			for seed := range seedsEach {
				begun := time.Now()
				cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-count=1", "-timeout=5m", ".",
					"-run=TestChaos", "-duration=20s", "-topology="+m.topology, "-seed="+strconv.Itoa(seed+1))
				out, err := cmd.CombinedOutput()
				if err == nil {
					continue
				}
				require.Contains(t, string(out), "--- FAIL: TestChaos/"+m.topology)
				if !strings.Contains(string(out), m.says) {
					t.Logf("seed %d is red for another reason", seed+1) // a rule may stand for several things
					continue
				}
				t.Logf("caught at seed %d after %v: %s", seed+1, time.Since(begun).Round(time.Second), firstLine(string(out), m.says))
				return
			}
			t.Error("not caught, or not for what it breaks")
		})
	}
}

// overlay writes what go build takes for the mutant's file.
func (m *mutant) overlay(t *testing.T) (path string) {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("..", m.file))
	require.NoError(t, err)
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(source), m.old), "%s is not what the mutant was made for", m.file)

	dir := t.TempDir()
	broken := filepath.Join(dir, filepath.Base(m.file))
	require.NoError(t, os.WriteFile(broken, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600))
	text, err := json.Marshal(map[string]map[string]string{"Replace": {file: broken}})
	require.NoError(t, err)
	path = filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(path, text, 0o600))
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

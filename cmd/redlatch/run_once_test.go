//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

func TestRunOnce_RunsOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "ran")
	argv := []string{"run", "--once", "20h", "nightly", "--", "sh", "-c", `echo "$REDLATCH_FENCE" >> "$0"`, file}
	assert.Equal(t, says{0, "", ""}, do(t, s.Addr(), argv...))
	host, err := os.Hostname()
	require.NoError(t, err)
	for range 2 {
		got := do(t, s.Addr(), argv...)
		assert.Zero(t, got.code)
		assert.Regexp(t, `^redlatch: nightly: done \S+ ago by `+regexp.QuoteMeta(host)+`\n$`, got.stderr)
	}
	assert.Len(t, lines(t, file), 1)
	free(t, s.Client(t), "nightly")
	assert.Contains(t, do(t, s.Addr(), "show", "nightly").stdout, "its record: done since ")
	assert.Zero(t, do(t, s.Addr(), "forget", "-y", "nightly").code)
	assert.Zero(t, do(t, s.Addr(), argv...).code)
	assert.Len(t, lines(t, file), 2)
}

func TestRunOnce_KeepsNothingOfACommandThatFailed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	assert.Equal(t, says{7, "", ""}, do(t, s.Addr(), "run", "--once", "1h", "k", "--", "sh", "-c", "exit 7"))
	assert.Zero(t, s.Client(t).Exists(t.Context(), "guard:{k}:once").Val())
	assert.Equal(t, says{0, "it ran\n", ""}, do(t, s.Addr(), "run", "--once", "1h", "k", "--", "echo", "it ran"))
}

// While another host runs it, the rules of --wait say what happens; then it is done.
func TestRunOnce_WaitsForTheOneThatRuns(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := s.Client(t)
	first := start(t, s.Addr(), "run", "--once", "1h", "--name", "first", "k", "--", "sleep", "1000")
	held(t, client, "k")
	assert.Equal(t, 75, do(t, s.Addr(), "run", "-n", "--once", "1h", "k", "--", "echo", "again").code)
	second := start(t, s.Addr(), "run", "--once", "1h", "k", "--", "echo", "again")
	eventually(t, "it waits", func() bool { return waiting(t, client, "k") == 1 })
	first.signal(t, syscall.SIGTERM)
	assert.Equal(t, 143, first.code(t))
	assert.Zero(t, second.code(t))
	assert.Equal(t, "again\n", second.stdout.String(), "the first one failed")
}

func TestRunOnce_RefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	for says, flags := range map[string][]string{
		"--once 0s is outside":   {"--once", "0"},
		"does not go with -s or": {"--once", "1h", "-s"},
		"with -s or --limit":     {"--once", "1h", "--limit", "2"},
		"want a duration":        {"--once", "nightly"},
	} {
		got := do(t, "127.0.0.1:1", append(append([]string{"run"}, flags...), "k", "--", "true")...)
		assert.Equal(t, 64, got.code, says)
		assert.Contains(t, got.stderr, says)
	}
}

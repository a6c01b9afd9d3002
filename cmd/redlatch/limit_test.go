//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/redistest"
)

// untilFile is a command that says that it runs and ends when it may.
const untilFile = `echo "in" >>"$0"; until [ -e "$0.go" ]; do sleep 0.02; done; echo out >>"$0"`

func TestLimit_RunWithALimit(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, i := s.Client(t), inspect.New(s.Client(t))
	file := filepath.Join(t.TempDir(), "limited")
	limited := func(name string) *call {
		return start(t, s.Addr(), "run", "--limit", "2", "--name", name, "export", "--", "sh", "-c", untilFile, file)
	}
	inside := []*call{limited("first")}
	eventually(t, "one runs", func() bool { return len(lines(t, file)) == 1 })
	inside = append(inside, limited("second"))
	eventually(t, "two run", func() bool { return len(lines(t, file)) == 2 })
	assert.Equal(t, 75, do(t, s.Addr(), "run", "-n", "--limit", "2", "export", "--", "touch", file+".ran").code)
	assert.Equal(t, 75, do(t, s.Addr(), "run", "-n", "export", "--", "touch", file+".ran").code, "alone")
	assert.Equal(t, 75, do(t, s.Addr(), "run", "-n", "-s", "export", "--", "touch", file+".ran").code, "two is the most")
	assert.NoFileExists(t, file+".ran")
	third := limited("third")
	eventually(t, "one waits", func() bool { return waiting(t, client, "export") == 1 })

	// All that look see both, and who waits.
	info, err := i.Get(t.Context(), "export")
	require.NoError(t, err)
	require.Len(t, info.Holders, 2)
	got := do(t, s.Addr(), "ls", "export")
	rows := strings.Split(strings.TrimSpace(got.stdout), "\n")
	require.Len(t, rows, 3, got.stdout)
	assert.Regexp(t, `^export .* 1 for \S+ +`+strconv.FormatUint(info.Holders[0].Fence, 10)+` +first \(limit 2\)$`, rows[1])
	assert.Regexp(t, `^export .*`+strconv.FormatUint(info.Holders[1].Fence, 10)+` +second \(limit 2\)$`, rows[2])
	got = do(t, s.Addr(), "show", "export")
	assert.Equal(t, 2, strings.Count(got.stdout, "export is held by "), got.stdout)
	assert.Regexp(t, `(?m)^  1\. +\S+ +for \S+ \(limit 2\)$`, got.stdout)
	got = do(t, s.Addr(), "watch", "--json", "--count", "1")
	var locks []lockJSON
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &locks))
	require.Len(t, locks, 1)
	require.Len(t, locks[0].Holders, 2)
	for n, h := range locks[0].Holders {
		assert.Equal(t, 2, h.Limit)
		assert.Equal(t, info.Holders[n].Fence, h.Fence)
	}
	require.Len(t, locks[0].Waiting, 1)
	assert.Equal(t, 2, locks[0].Waiting[0].Limit)

	// One of them is ended, and only that one.
	got = do(t, s.Addr(), "revoke", "export")
	assert.Equal(t, 64, got.code)
	assert.Contains(t, got.stderr, "export has 2 holders: name one by --fence")
	got = do(t, s.Addr(), "revoke", "--fence", strconv.FormatUint(info.Holders[1].Fence, 10), "export")
	require.Zero(t, got.code, got.stderr)
	assert.Equal(t, 70, inside[1].code(t))
	eventually(t, "the third one runs", func() bool { return len(lines(t, file)) == 3 })
	require.NoError(t, os.WriteFile(file+".go", nil, 0o644))
	assert.Zero(t, inside[0].code(t))
	assert.Zero(t, third.code(t))
	free(t, client, "export")
}

// Readers run beside readers, a writer beside nobody.
func TestLimit_RunShared(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := s.Client(t)
	file := filepath.Join(t.TempDir(), "shared")
	var readers []*call
	for n := range 3 {
		readers = append(readers, start(t, s.Addr(), "run", "-s", "--name", "reader", "rates", "--", "sh", "-c", untilFile, file))
		eventually(t, "it runs", func() bool { return len(lines(t, file)) == n+1 })
	}
	got := do(t, s.Addr(), "ls")
	assert.Equal(t, 3, strings.Count(got.stdout, "reader (shared)"), got.stdout)
	writer := start(t, s.Addr(), "run", "rates", "--", "sh", "-c", `echo writer >>"$0"`, file)
	eventually(t, "it waits", func() bool { return waiting(t, client, "rates") == 1 })
	assert.Equal(t, 75, do(t, s.Addr(), "run", "-w", "0.3", "-s", "rates", "--", "true").code, "a writer waits in front")
	require.NoError(t, os.WriteFile(file+".go", nil, 0o644))
	assert.Zero(t, writer.code(t))
	for _, reader := range readers {
		assert.Zero(t, reader.code(t))
	}
	assert.Equal(t, []string{"in", "in", "in", "out", "out", "out", "writer"}, lines(t, file))
}

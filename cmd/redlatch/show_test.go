//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/redistest"
)

// hold takes a key in this process, until the test ends.
func hold(t *testing.T, s *redistest.Server, key string, opts ...guard.Option) *guard.Lease {
	t.Helper()
	g, err := guard.New(s.Client(t), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	lease, err := g.Acquire(t.Context(), guard.Key(key))
	require.NoError(t, err)
	t.Cleanup(func() { _ = lease.Release(context.Background()) }) // it may be lost
	return lease
}

func TestShow_ListAndShow(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := s.Client(t)
	assert.Equal(t, says{0, "nothing is held\n", ""}, do(t, s.Addr(), "ls"))
	assert.Equal(t, says{0, "order:1 is free\nnobody waits\n", ""}, do(t, s.Addr(), "show", "order:1"))

	first := hold(t, s, "order:1", guard.Metadata("request 7"))
	second := hold(t, s, "order:2", guard.Metadata("\x1b[2J"))
	hold(t, s, "user:1")
	waiter := start(t, s.Addr(), "run", "order:1", "--", "true")
	eventually(t, "it waits", func() bool { return waiting(t, client, "order:1") == 1 })

	got := do(t, s.Addr(), "ls", "order:*")
	require.Zero(t, got.code, got.stderr)
	rows := strings.Split(strings.TrimSpace(got.stdout), "\n")
	require.Len(t, rows, 3)
	assert.Regexp(t, `^KEY +HELD BY +FOR +LEFT +WAITING +FENCE +WHAT$`, rows[0])
	assert.Regexp(t, fmt.Sprintf(`^order:1 +\S+ +\S+s +\S+s +1 for \S+ +%d +request 7$`, first.Fence()), rows[1])
	assert.Regexp(t, fmt.Sprintf(`^order:2 +\S+ +\S+s +\S+s +0 +%d +"\\x1b\[2J"$`, second.Fence()), rows[2])

	got = do(t, s.Addr(), "show", "order:1")
	assert.Zero(t, got.code)
	for _, text := range []string{"order:1 is held by ", "request 7", "1 waiting", fmt.Sprint(first.Fence())} {
		assert.Contains(t, got.stdout, text)
	}
	assert.NotContains(t, got.stdout, first.Owner(), "owners are secrets")

	var lock lockJSON
	got = do(t, s.Addr(), "show", "--json", "order:1")
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &lock))
	require.Len(t, lock.Holders, 1)
	assert.Equal(t, first.Fence(), lock.Holders[0].Fence)
	assert.Equal(t, "request 7", lock.Holders[0].Metadata)
	assert.InDelta(t, 30, lock.Holders[0].Left, 30)
	assert.Len(t, lock.Waiting, 1)

	got = do(t, s.Addr(), "ls", "--json")
	assert.Len(t, strings.Split(strings.TrimSpace(got.stdout), "\n"), 3)

	got = do(t, s.Addr(), "watch", "--json", "--count", "2", "--interval", "0.1", "order:*")
	require.Zero(t, got.code, got.stderr)
	looks := strings.Split(strings.TrimSpace(got.stdout), "\n")
	require.Len(t, looks, 2)
	for _, look := range looks {
		var locks []lockJSON
		require.NoError(t, json.Unmarshal([]byte(look), &locks))
		assert.Len(t, locks, 2)
	}
	got = do(t, s.Addr(), "watch", "--count", "1")
	assert.Contains(t, got.stdout, "user:1")
	assert.NotContains(t, got.stdout, "\x1b", "in a pipe")

	require.NoError(t, first.Release(t.Context()))
	assert.Zero(t, waiter.code(t))
}

// The command under a lock that is revoked ends, and the next one in gets it.
func TestShow_Revoke(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	client, p := s.Client(t), newPipe(t)
	holder := start(t, s.Addr(), "run", "--ttl", "1s", "revoked", "--", "sh", "-c", stubborn, p.path)
	p.works(t)
	fence := strings.Fields(client.Get(t.Context(), "guard:{revoked}:last").Val())[0]

	got := do(t, s.Addr(), "revoke", "--fence", "7", "revoked")
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, "no hold with the fence 7 any more: nothing was done")
	got = do(t, s.Addr(), "revoke", "--json", "--fence", fence, "revoked")
	require.Zero(t, got.code, got.stderr)
	assert.Contains(t, got.stdout, `"done":"revoke"`)
	assert.Contains(t, got.stdout, `"fence":`+fence)
	assert.Equal(t, 70, holder.code(t))
	p.gone(t)

	eventually(t, "free", func() bool { return do(t, s.Addr(), "run", "-n", "revoked", "--", "true").code == 0 })
	got = do(t, s.Addr(), "revoke", "revoked")
	assert.Equal(t, says{1, "", "redlatch: revoked is free\n"}, got)
}

// A command that is revoked may end in its own time, one whose lock was broken may not.
func TestShow_RevokedCommandsMayEndInGoodOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	file := filepath.Join(t.TempDir(), "signals")
	holder := start(t, s.Addr(), "run", "politely", "--", "sh", "-c",
		`trap 'sleep 0.5; echo done >>"$0"; exit 3' TERM; echo ready >>"$0"; while :; do sleep 0.02; done`, file)
	eventually(t, "ready", func() bool { return len(lines(t, file)) == 1 })
	require.Zero(t, do(t, s.Addr(), "revoke", "politely").code)
	assert.Equal(t, 70, holder.code(t))
	assert.Contains(t, holder.stderr.String(), "revoked")
	assert.Equal(t, []string{"ready", "done"}, lines(t, file))

	p := newPipe(t)
	holder = start(t, s.Addr(), "run", "--ttl", "60s", "rudely", "--", "sh", "-c", stubborn, p.path)
	p.works(t)
	begun := time.Now()
	require.Zero(t, do(t, s.Addr(), "break", "-y", "rudely").code)
	p.gone(t)
	assert.Less(t, time.Since(begun), 5*time.Second, "it was given the time that a revoked one has")
	assert.Equal(t, 70, holder.code(t))
}

func TestShow_Break(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	lease := hold(t, s, "broken")
	got := do(t, s.Addr(), "break", "broken")
	assert.Equal(t, 64, got.code, "nobody to ask")
	assert.Contains(t, got.stderr, "--yes")
	require.NoError(t, lease.Err())

	got = do(t, s.Addr(), "break", "--yes", "--fence", strconv.FormatUint(lease.Fence()+1, 10), "broken")
	assert.Equal(t, 1, got.code)
	for _, verb := range [][]string{{"break", "--yes"}, {"revoke"}} {
		got = do(t, s.Addr(), append(verb, "--fence", "0", "broken")...)
		assert.Equal(t, 1, got.code, "0 is no hold's, not whichever")
		assert.Contains(t, got.stderr, "no hold with the fence 0 any more: nothing was done")
		require.NoError(t, lease.Err())
		info, err := inspect.New(s.Client(t)).Get(t.Context(), "broken")
		require.NoError(t, err)
		require.Len(t, info.Holders, 1)
		assert.False(t, info.Holders[0].Revoked)
	}
	got = do(t, s.Addr(), "break", "--yes", "broken")
	require.Zero(t, got.code, got.stderr)
	assert.Contains(t, got.stdout, "broken was taken from ")
	free(t, s.Client(t), "broken")
}

func TestShow_LookingAtWhatIsNoLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := s.Client(t)
	require.NoError(t, client.HSet(t.Context(), "guard:{by hand}", "a", "b").Err())
	require.NoError(t, client.Set(t.Context(), "guard:{text}", "x", time.Minute).Err())
	hold(t, s, "good")
	for _, args := range [][]string{{"show", "by hand"}, {"revoke", "by hand"}, {"break", "--yes", "text"}} {
		got := do(t, s.Addr(), args...)
		assert.Equal(t, 65, got.code, args)
		assert.Contains(t, got.stderr, "not a lock", args)
	}
	got := do(t, s.Addr(), "ls")
	assert.Equal(t, 65, got.code)
	assert.Contains(t, got.stdout, "good")
	assert.Contains(t, got.stderr, "by hand")
	assert.Equal(t, "b", client.HGet(t.Context(), "guard:{by hand}", "a").Val())
}

func TestShow_LookingWithoutRedis(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"ls"}, {"show", "k"}, {"watch"}, {"revoke", "k"}, {"break", "-y", "k"}, {"forget", "-y", "k"}, {"doctor"}} {
		got := do(t, "127.0.0.1:1", args...)
		assert.Equal(t, 69, got.code, args)
		assert.Contains(t, got.stderr, "refused", args)
	}
}

// A process waits once for all its callers, and Redis knows nothing of those of the holder.
func TestShow_SaysThatOtherProcessesDoNotWait(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	hold(t, s, "own callers")
	got := do(t, s.Addr(), "show", "own callers")
	assert.Contains(t, got.stdout, "\nno other process waits\n")
	assert.NotContains(t, got.stdout, "nobody")
}

// A line that is broken in two cannot be read.
func TestShow_ListFitsTheColumns(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	long := "order:" + strings.Repeat("payment-", 12) + "end"
	hold(t, s, long, guard.Metadata(strings.Repeat("what it does ", 10)))
	hold(t, s, "short")
	whole := do(t, s.Addr(), "ls").stdout
	assert.Contains(t, whole, long, "in a pipe")
	for _, columns := range []int{70, 100, 150} {
		c := prepare(t, s.Addr(), "ls")
		c.cmd.Env = append(c.cmd.Env, "COLUMNS="+strconv.Itoa(columns))
		c.start(t)
		require.Zero(t, c.code(t))
		rows := strings.Split(strings.TrimSuffix(c.stdout.String(), "\n"), "\n")
		require.Len(t, rows, 3)
		for _, row := range rows {
			assert.LessOrEqual(t, utf8.RuneCountInString(row), columns, row)
		}
		assert.Regexp(t, `^ord.*….*end `, rows[1], "both ends of a key say which it is")
		assert.Regexp(t, `^short `, rows[2])
		assert.Greater(t, utf8.RuneCountInString(rows[1]), columns-3, "no more than needed")
	}
	for _, columns := range []string{"", "0", "-1", "wide", "20"} {
		c := prepare(t, s.Addr(), "ls")
		c.cmd.Env = append(c.cmd.Env, "COLUMNS="+columns)
		c.start(t)
		assert.Zero(t, c.code(t))
		assert.Contains(t, c.stdout.String(), "\nshort ", columns)
	}
}

func TestShow_Doctor(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	got := do(t, s.Addr(), "doctor")
	assert.Zero(t, got.code, got.stderr)
	assert.Regexp(t, `(?m)^ok    version \(`+s.Addr()+`\): (Redis|Valkey) \d`, got.stdout)
	require.NoError(t, s.Client(t).ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	require.NoError(t, s.Client(t).ConfigSet(t.Context(), "maxmemory", "100mb").Err())
	got = do(t, s.Addr(), "doctor", "--json")
	assert.Equal(t, 1, got.code)
	var found []doctor.Finding
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &found))
	assert.Contains(t, found, doctor.Finding{
		Server: s.Addr(), Check: "memory", Level: doctor.Bad,
		Says: "maxmemory-policy is allkeys-lru: a full Redis drops locks that are held",
		Fix:  "CONFIG SET maxmemory-policy noeviction",
	})
	assert.Equal(t, 64, do(t, s.Addr(), "doctor", "who").code)
}

func TestShow_LookingRefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	for says, args := range map[string][]string{
		"KEY is missing": {"show"},
		`unexpected argument "--json" behind KEY;`: {"show", "k", "--json"},
		`unexpected argument "b" behind MATCH;`:    {"ls", "a", "b"},
		"--interval 10ms is less":                  {"watch", "--interval", "10ms"},
		"--count -1 is negative":                   {"watch", "--count", "-1"},
		"invalid argument \"ten\"":                 {"revoke", "--fence", "ten", "k"},
		"invalid lock key":                         {"revoke", ""},
		`unexpected argument "x" behind KEY;`:      {"forget", "k", "x"},
		`--prefix "" must be`:                      {"show", "--prefix", "", "k"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			got := do(t, "127.0.0.1:1", args...)
			assert.Equal(t, 64, got.code)
			assert.Contains(t, got.stderr, says)
		})
	}
}

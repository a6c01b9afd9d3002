//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

func TestRun_EndsWithTheCodeOfItsCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o644))
	for want, argv := range map[int][]string{
		0:   {"true"},
		7:   {"sh", "-c", "exit 7"},
		137: {"sh", "-c", "kill -KILL $$"},
		126: {script},
		127: {"redlatch-has-no-such-program"},
	} {
		t.Run(strconv.Itoa(want), func(t *testing.T) {
			t.Parallel()
			key := t.Name()
			got := do(t, s.Addr(), append([]string{"run", key, "--"}, argv...)...)
			assert.Equal(t, want, got.code)
			if want < 126 || want > 127 {
				assert.Empty(t, got.stderr)
			} else {
				assert.Contains(t, got.stderr, argv[0])
			}
			free(t, s.Client(t), key)
		})
	}
}

func TestRun_WhatIsNotThereIs127(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("#!/nowhere/interpreter\n"), 0o755))
	s := redistest.Shared(t)
	for n, name := range []string{"./missing", script} {
		key := fmt.Sprint("not there ", n)
		got := do(t, s.Addr(), "run", key, "--", name)
		assert.Equal(t, says{127, "", "redlatch: " + name + ": no such file or directory\n"}, got)
		free(t, s.Client(t), key)
	}
}

func TestRun_GivesItsCommandInputAndEnvironment(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	client := s.Client(t)
	c := prepare(t, s.Addr(), "run", "env", "--", "sh", "-c", "cat; echo $REDLATCH_KEY $REDLATCH_FENCE; ps -o pgid= -p $$; echo $$")
	c.cmd.Stdin = strings.NewReader("from the input\n")
	c.start(t)
	require.Zero(t, c.code(t), c.stderr.String())
	words := strings.Fields(c.stdout.String())
	require.Len(t, words, 7)
	assert.Equal(t, []string{"from", "the", "input", "env"}, words[:4])
	fence, err := client.Get(t.Context(), "guard:{env}:last").Result()
	require.NoError(t, err)
	assert.Equal(t, strings.Fields(fence)[0], words[4])
	assert.Equal(t, words[6], words[5], "a process group of its own")
}

// A job of each minute whose second host is a little late.
func TestRun_MinHoldKeepsTheKeyAfterTheCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t) // the key stays
	first := do(t, s.Addr(), "run", "-n", "--min-hold", "50s", "each minute", "--", "true")
	assert.Zero(t, first.code, first.stderr)
	second := do(t, s.Addr(), "run", "-n", "--min-hold", "50s", "each minute", "--", "true")
	assert.Equal(t, 75, second.code)
}

func TestRun_WithABusyLock(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	client := s.Client(t)
	holder := start(t, s.Addr(), "run", "--name", "the holder", "busy", "--", "sleep", "1000")
	held(t, client, "busy")
	for name, test := range map[string]struct {
		flags []string
		code  int
	}{
		"tries once":   {[]string{"-n"}, 75},
		"waits":        {[]string{"-w", "0.2"}, 75},
		"waits, in Go": {[]string{"--wait", "200ms"}, 75},
		"another code": {[]string{"-n", "-E", "9"}, 9},
		"cron":         {[]string{"-n", "--ok-if-busy"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "ran")
			got := do(t, s.Addr(), append(append([]string{"run"}, test.flags...), "busy", "--", "touch", file)...)
			assert.Equal(t, test.code, got.code)
			assert.NoFileExists(t, file)
			if test.code == 0 {
				assert.Empty(t, got.stdout+got.stderr, "cron would mail it")
			} else {
				assert.Contains(t, got.stderr, `busy is busy, held by "the holder"`)
			}
		})
	}
	holder.signal(t, syscall.SIGTERM)
	assert.Equal(t, 128+15, holder.code(t))
}

func TestRun_WithoutRedis(t *testing.T) {
	t.Parallel()
	got := do(t, "127.0.0.1:1", "run", "nightly", "--", "true")
	assert.Equal(t, 69, got.code)
	assert.Contains(t, got.stderr, "redlatch: nightly: guard: lock store is unavailable: ")
	assert.Regexp(t, `^redlatch: .*connection refused\n$`, got.stderr)
}

// Whatever is under the key, it is not for us to work beside it.
func TestRun_WithAKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	client := s.Client(t)
	require.NoError(t, client.Set(t.Context(), "guard:{of another type}", "x", time.Minute).Err())
	file := filepath.Join(t.TempDir(), "ran")
	got := do(t, s.Addr(), "run", "-w", "0.5", "of another type", "--", "touch", file)
	assert.Contains(t, []int{69, 75}, got.code)
	assert.NoFileExists(t, file)
	assert.Equal(t, "x", client.GetDel(t.Context(), "guard:{of another type}").Val())
}

func TestRun_RefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	for says, args := range map[string][]string{
		"which command?":               {},
		`no command "walk"`:            {"walk"},
		"want KEY -- command":          {"run", "k"},
		"want KEY -- command args":     {"run", "k", "true"},
		"want KEY -- command args…":    {"run", "-n", "k", "--"},
		"unknown flag: --fast":         {"run", "--fast", "k", "--", "true"},
		"exclude each other":           {"run", "-n", "-w", "1", "k", "--", "true"},
		"--ok-if-busy and -E":          {"run", "--ok-if-busy", "-E", "1", "k", "--", "true"},
		"-E 256 is outside 0 to 255":   {"run", "-E", "256", "k", "--", "true"},
		"want a duration":              {"run", "-w", "soon", "k", "--", "true"},
		"--wait -1s is negative":       {"run", "-w", "-1", "k", "--", "true"},
		"--ttl 10ms is outside 100ms":  {"run", "--ttl", "10ms", "k", "--", "true"},
		"10s, a third of the ttl":      {"run", "-k", "11", "k", "--", "true"},
		"--min-hold -1s is outside 0s": {"run", "--min-hold", "-1s", "k", "--", "true"},
		"--max-hold -1s is negative":   {"run", "--max-hold", "-1s", "k", "--", "true"},
		"--limit 0 is outside 1 to":    {"run", "--limit", "0", "k", "--", "true"},
		"--limit 10001 is outside":     {"run", "--limit", "10001", "k", "--", "true"},
		"-s and --limit exclude":       {"run", "-s", "--limit", "3", "k", "--", "true"},
		"with -s or --limit":           {"run", "-s", "--min-hold", "1s", "k", "--", "true"},
		`--prefix "{" must be`:         {"run", "--prefix", "{", "k", "--", "true"},
		"invalid lock key":             {"run", "", "--", "true"},
		"--redis: the scheme is none":  {"run", "--redis", "http://user:hunter2@host", "k", "--", "true"},
		"--name has 257 bytes":         {"run", "--name", strings.Repeat("n", 257), "k", "--", "true"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			got := do(t, "127.0.0.1:1", args...)
			assert.Equal(t, 64, got.code)
			assert.Contains(t, got.stderr, says)
			assert.NotContains(t, got.stderr, "hunter2")
			assert.Empty(t, got.stdout)
		})
	}
	got := do(t, "", "run", "k", "--", "true")
	assert.Equal(t, 64, got.code)
	assert.Contains(t, got.stderr, "REDIS_URL")
}

func TestRun_RedisFlagBeatsTheEnvironment(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	got := do(t, "127.0.0.1:1", "run", "--redis", "redis://"+s.Addr(), "flag", "--", "true")
	assert.Equal(t, says{}, got)
}

func TestRun_Help(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"help"}, {"run", "--help"}, {"run", "-h"}} {
		got := do(t, "", args...)
		assert.Zero(t, got.code)
		assert.Contains(t, got.stdout, "redlatch run [flags] KEY -- command args…")
		assert.Empty(t, got.stderr)
	}
}

// The command and its child say which signals they got.
const family = `
	trap 'echo child-$1 >>"$0"; exit 3' "$1"
	sh -c 'trap "echo grandchild-$1 >>\"$0\"; exit" "$1"; echo ready >>"$0"; while :; do sleep 0.02; done' "$0" "$1" &
	while :; do sleep 0.02; done`

func TestRun_ForwardsSignals(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, sig := range map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
	} { // a shell has what it puts behind itself ignore INT and QUIT
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "signals")
			c := start(t, s.Addr(), "run", "signal "+name, "--", "sh", "-c", family, file, name)
			eventually(t, "grandchild", func() bool { return len(lines(t, file)) == 1 })
			c.signal(t, sig)
			assert.Equal(t, 3, c.code(t))
			eventually(t, "both", func() bool { return len(lines(t, file)) == 3 })
			assert.ElementsMatch(t, []string{"ready", "child-" + name, "grandchild-" + name}, lines(t, file))
		})
	}
}

func TestRun_SignalEndsTheWait(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	client := s.Client(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			// The program gives Redis half a second to hear of it: a busy machine may need another try.
			left := false
			for tries := 0; tries < 5 && !left; tries++ {
				key := t.Name() + strconv.FormatInt(time.Now().UnixNano(), 10)
				holder := start(t, s.Addr(), "run", key, "--", "sleep", "1000")
				held(t, client, key)
				file := filepath.Join(t.TempDir(), "ran")
				c := start(t, s.Addr(), "run", key, "--", "touch", file)
				eventually(t, "it waits", func() bool { return waiting(t, client, key) == 1 })
				c.signal(t, syscall.SIGWINCH)
				c.signal(t, sig)
				assert.Equal(t, 128+int(sig), c.code(t))
				assert.Empty(t, c.stderr.String())
				left = waiting(t, client, key) == 0
				holder.signal(t, syscall.SIGTERM)
				holder.code(t)
				assert.NoFileExists(t, file)
			}
			assert.True(t, left, "it stays in the queue")
		})
	}
}

// nohup's child does not end with the terminal.
func TestRun_LeavesIgnoredSignalsAlone(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	file := filepath.Join(t.TempDir(), "signals")
	c := prepare(t, s.Addr())
	c.cmd.Path, c.cmd.Args = "/bin/sh", []string{
		"sh", "-c", `trap "" HUP; exec "$0" run nohup -- sh -c 'echo ready >"$0"; until [ -e "$0.end" ]; do sleep 0.02; done' "$1"`,
		binary, file,
	}
	c.start(t)
	eventually(t, "ready", func() bool { return len(lines(t, file)) == 1 })
	c.signal(t, syscall.SIGHUP)
	require.NoError(t, os.WriteFile(file+".end", nil, 0o644))
	assert.Zero(t, c.code(t))
}

// stubborn holds the named pipe open, as does its child, and both ignore TERM. The pipe ends
// when both are gone.
const stubborn = `
	trap "" TERM
	exec 3>"$0"
	sh -c 'while :; do echo child >&3; sleep 0.02; done' &
	while :; do echo command >&3; sleep 0.02; done`

// family of a command that does not want to end, seen through its pipe.
type pipe struct {
	path  string
	words chan string
	ended chan struct{}
}

func newPipe(t *testing.T) *pipe {
	t.Helper()
	p := &pipe{filepath.Join(t.TempDir(), "pipe"), make(chan string, 1), make(chan struct{})}
	require.NoError(t, syscall.Mkfifo(p.path, 0o600))
	go func() {
		defer close(p.ended)
		file, err := os.Open(p.path)
		if !assert.NoError(t, err) {
			return
		}
		defer file.Close()
		var word string
		for {
			if _, err := fmt.Fscan(file, &word); err != nil {
				return
			}
			select {
			case p.words <- word:
			default:
			}
		}
	}()
	return p
}

func (p *pipe) works(t *testing.T) {
	t.Helper()
	seen := map[string]bool{}
	for len(seen) < 2 {
		select {
		case word := <-p.words:
			seen[word] = true
		case <-time.After(patience):
			require.FailNow(t, "the command does not work", seen)
		}
	}
}

func (p *pipe) gone(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		require.FailNow(t, "the command goes on")
	}
}

// Redis falls silent: nobody of the command's is left while the key is still there.
func TestRun_LossKillsTheCommandBeforeTheKeyCanExpire(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*redistest.Proxy){
		"silent": (*redistest.Proxy).Freeze,
		"away":   (*redistest.Proxy).Cut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			proxy, client, p := redistest.NewProxy(t, s.Addr()), s.Client(t), newPipe(t)
			c := start(t, proxy.Addr(), "run", "--ttl", "2s", "k", "--", "sh", "-c", stubborn, p.path)
			p.works(t)
			fail(proxy)
			p.gone(t)
			left, err := client.PTTL(t.Context(), "guard:{k}").Result()
			require.NoError(t, err)
			assert.Positive(t, left, "the key expired before the command was gone")
			assert.Equal(t, 70, c.code(t))
			assert.Equal(t, "redlatch: the lock of k was lost and the command ended: Redis has not confirmed it for too long\n", c.stderr.String())
		})
	}
}

// TERM comes first, while there is still time for a good end.
func TestRun_LossGivesTheCommandTimeToEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy, client := redistest.NewProxy(t, s.Addr()), s.Client(t)
	file := filepath.Join(t.TempDir(), "signals")
	c := start(t, proxy.Addr(), "run", "--ttl", "6s", "k", "--", "sh", "-c",
		`trap 'sleep 0.3; echo done >>"$0"; exit 3' TERM; echo ready >>"$0"; while :; do sleep 0.02; done`, file)
	eventually(t, "ready", func() bool { return len(lines(t, file)) == 1 })
	proxy.Freeze()
	eventually(t, "done", func() bool { return len(lines(t, file)) == 2 })
	left, err := client.PTTL(t.Context(), "guard:{k}").Result()
	require.NoError(t, err)
	assert.Positive(t, left, "the key expired before the command was gone")
	assert.Equal(t, 70, c.code(t))
}

// The whole server stands still, as the machine that it runs on might.
func TestRun_LossWhileRedisIsStopped(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, p := s.Client(t), newPipe(t)
	c := start(t, s.Addr(), "run", "--ttl", "2s", "k", "--", "sh", "-c", stubborn, p.path)
	p.works(t)
	before := client.PExpireTime(t.Context(), "guard:{k}").Val()
	require.NoError(t, s.Pause())
	p.gone(t)
	assert.Less(t, time.Duration(time.Now().UnixMilli())*time.Millisecond, before+2*time.Second)
	assert.Equal(t, 70, c.code(t))
	require.NoError(t, s.Resume())
}

// Somebody else can have the lock by then: there is no time to be nice.
func TestRun_TheKeyIsDeletedUnderTheCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	client, p := s.Client(t), newPipe(t)
	c := start(t, s.Addr(), "run", "--ttl", "600ms", "-k", "200ms", "deleted", "--", "sh", "-c", stubborn, p.path)
	p.works(t)
	require.NoError(t, client.Del(t.Context(), "guard:{deleted}").Err())
	p.gone(t)
	assert.Equal(t, 70, c.code(t))
	assert.Equal(t, 1, strings.Count(c.stderr.String(), "lost"), c.stderr.String())
}

// A command that ended well may have worked beside another one.
func TestRun_ALossThatTheReleaseFindsIsALoss(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	client := s.Client(t)
	file := filepath.Join(t.TempDir(), "seen")
	c := start(t, s.Addr(), "run", "lost at the end", "--", "sh", "-c", untilFile, file)
	eventually(t, "it runs", func() bool { return len(lines(t, file)) == 1 })
	require.NoError(t, client.Del(t.Context(), "guard:{lost at the end}").Err())
	require.NoError(t, os.WriteFile(file+".go", nil, 0o644))
	assert.Equal(t, 70, c.code(t))
	assert.Equal(t, []string{"in", "out"}, lines(t, file), "the next renewal is 10 s away")
	assert.Contains(t, c.stderr.String(), "the lock of lost at the end was lost before the command ended: ")
	assert.Equal(t, 1, strings.Count(c.stderr.String(), "was lost"), c.stderr.String())
}

// The command heeds TERM, and what it started does not.
func TestRun_LossKillsWhatTheCommandLeavesBehind(t *testing.T) {
	t.Parallel()
	const leader = `
		exec 3>"$0"
		sh -c 'trap "" TERM; while :; do echo child >&3; sleep 0.02; done' &
		trap 'exit 3' TERM
		while :; do echo command >&3; sleep 0.02; done`
	s := redistest.Start(t)
	proxy, client, p := redistest.NewProxy(t, s.Addr()), s.Client(t), newPipe(t)
	c := start(t, proxy.Addr(), "run", "--ttl", "2s", "k", "--", "sh", "-c", leader, p.path)
	p.works(t)
	proxy.Freeze()
	p.gone(t)
	left, err := client.PTTL(t.Context(), "guard:{k}").Result()
	require.NoError(t, err)
	assert.Positive(t, left, "the key expired before the child was gone")
	assert.Equal(t, 70, c.code(t))
}

// There was time to end, and then another one can have the lock.
func TestRun_ALockThatGoesDuringTheGraceEndsIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy, client, p := redistest.NewProxy(t, s.Addr()), s.Client(t), newPipe(t)
	file := filepath.Join(t.TempDir(), "signals")
	c := start(t, proxy.Addr(), "run", "--ttl", "24s", "-k", "8s", "k", "--", "sh", "-c", `
		trap 'echo TERM >>"$1"' TERM
		exec 3>"$0"
		while :; do echo command >&3; echo child >&3; sleep 0.02; done`, p.path, file)
	p.works(t)
	proxy.Freeze()
	eventually(t, "TERM", func() bool { return len(lines(t, file)) == 1 })
	begun := time.Now()
	require.NoError(t, client.Del(t.Context(), "guard:{k}").Err())
	proxy.Thaw()
	p.gone(t)
	assert.Less(t, time.Since(begun), 5*time.Second, "it was left its grace of 8 s")
	assert.Equal(t, 70, c.code(t))
}

// A stopped process gets TERM when it goes on, and not before.
func TestRun_AStoppedCommandCanHeedTERM(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	file := filepath.Join(t.TempDir(), "signals")
	c := start(t, s.Addr(), "run", "stopped", "--", "sh", "-c",
		`trap 'echo TERM >>"$0"; exit' TERM; echo $$ >>"$0"; kill -STOP $$; while :; do sleep 0.02; done`, file)
	eventually(t, "it is stopped", func() bool {
		pid := lines(t, file)
		if len(pid) == 0 {
			return false
		}
		state, _ := exec.Command("ps", "-o", "stat=", "-p", pid[0]).Output()
		return strings.HasPrefix(string(state), "T")
	})
	require.Zero(t, do(t, s.Addr(), "revoke", "stopped").code)
	assert.Equal(t, 70, c.code(t))
	assert.Contains(t, lines(t, file), "TERM")
	assert.Equal(t, "redlatch: the lock of stopped was lost and the command ended: it was revoked\n", c.stderr.String())
}

func TestRun_MaxHoldGivesTheCommandTimeToEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	file := filepath.Join(t.TempDir(), "signals")
	c := start(t, s.Addr(), "run", "--max-hold", "500ms", "capped", "--", "sh", "-c", family, file, "TERM")
	assert.Equal(t, 70, c.code(t))
	assert.ElementsMatch(t, []string{"ready", "child-TERM", "grandchild-TERM"}, lines(t, file))
	assert.Contains(t, c.stderr.String(), "--max-hold 500ms is over")
	free(t, s.Client(t), "capped")
}

func TestRun_MaxHoldKillsWhoDoesNotEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	client, p := s.Client(t), newPipe(t)
	c := start(t, s.Addr(), "run", "--max-hold", "200ms", "-k", "0.3", "capped twice", "--", "sh", "-c", stubborn, p.path)
	held(t, client, "capped twice")
	p.gone(t)
	assert.Equal(t, 70, c.code(t))
	free(t, client, "capped twice")
}

// Each enters the queue before the next is started, and works in its turn.
func TestRun_InAQueueGoesInOrder(t *testing.T) {
	t.Parallel()
	const n = 20
	s := redistest.Shared(t)
	client := s.Client(t)
	file := filepath.Join(t.TempDir(), "order")
	holder := start(t, s.Addr(), "run", "in order", "--", "sh", "-c", `until [ -e "$0.go" ]; do sleep 0.02; done`, file)
	held(t, client, "in order")
	var calls []*call
	var want []string
	for i := range n {
		calls = append(calls, start(t, s.Addr(), "run", "in order", "--",
			"sh", "-c", `echo in$1 >>"$0"; sleep 0.01; echo out$1 >>"$0"`, file, strconv.Itoa(i)))
		eventually(t, "it waits", func() bool { return waiting(t, client, "in order") == int64(i+1) })
		want = append(want, fmt.Sprint("in", i), fmt.Sprint("out", i))
	}
	require.NoError(t, os.WriteFile(file+".go", nil, 0o644))
	assert.Zero(t, holder.code(t))
	for _, c := range calls {
		assert.Zero(t, c.code(t), c.stderr.String())
	}
	assert.Equal(t, want, lines(t, file))
}

func TestRun_WritesMessagesAsJSON(t *testing.T) {
	t.Parallel()
	got := do(t, "127.0.0.1:1", "run", "--json", "-E", "300", "k", "--", "true")
	assert.Equal(t, 64, got.code)
	assert.JSONEq(t, `{"message": "-E 300 is outside 0 to 255; see redlatch run --help", "code": 64}`, got.stderr)
}

//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestRun_EndsWithTheCodeOfItsCommand(t *testing.T) {
	r := shared(t)
	script, lost := r.file(), r.file()
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600))
	require.NoError(t, os.WriteFile(lost, []byte("#!/nowhere/interpreter\n"), 0o700))
	for _, c := range []struct {
		code int
		says string
		argv []string
	}{
		{0, "", []string{"true"}},
		{7, "", []string{"sh", "-c", "exit 7"}},
		{137, "", []string{"sh", "-c", "kill -KILL $$"}},
		{126, script, []string{script}},
		{127, "redlatch: no-such-program: executable file not found in $PATH\n", []string{"no-such-program"}},
		{127, "redlatch: ./missing: no such file or directory\n", []string{"./missing"}},
		{127, "redlatch: " + lost + ": no such file or directory\n", []string{lost}},
	} {
		got := r.do(c.code, append([]string{"run", "code", "--"}, c.argv...)...)
		assert.Contains(t, got.stderr, c.says)
		assert.Equal(t, c.says == "", got.stderr == "")
		r.free("code")
	}
	r.fails(127, "no such file", "run", "--once", "1h", "never begun", "--", lost)
	r.do(0, "run", "--once", "1h", "never begun", "--", "true")
	r.do(0, "forget", "--yes", "never begun")
}

func TestRun_GivesItsCommandInputAndEnvironment(t *testing.T) {
	r := shared(t)
	c := r.prepare("run", "env", "--", "sh", "-c", "cat; echo $REDLATCH_KEY $REDLATCH_FENCE; ps -o pgid= -p $$; echo $$ ${REDIS_URL-none} $REDLATCH_TEST_PROGRAM")
	c.cmd.Stdin = strings.NewReader("from the input\n")
	words := strings.Fields(c.start().ends(0).stdout)
	require.Len(t, words, 9)
	assert.Equal(t, []string{"from", "the", "input", "env"}, words[:4])
	assert.Regexp(t, `^\d{16}$`, words[4])
	assert.Equal(t, words[6], words[5], "a process group of its own")
	assert.Equal(t, "none", words[7], "the URL is not for it, unless it is asked")
	assert.Equal(t, "1", words[8], "other variables are")
	got := r.do(0, "run", "--keep-redis-url", "with URL", "--", "sh", "-c", `echo "$REDIS_URL"`)
	assert.Equal(t, "redis://"+r.addr+"\n", got.stdout)
}

// A command may run for longer than the ttl: the lock is renewed.
func TestRun_RenewalsKeepTheCommand(t *testing.T) {
	shared(t).do(0, "run", "--ttl", "1s", "renewed", "--", "sleep", "2")
}

// A job runs each minute, and the second host is a little late.
func TestRun_MinHoldKeepsTheKeyAfterTheCommand(t *testing.T) {
	r := own(t)
	r.do(0, "run", "-n", "--min-hold", "50s", "each minute", "--", "true")
	r.do(75, "run", "-n", "--min-hold", "50s", "each minute", "--", "true")
}

func TestRun_WithABusyLock(t *testing.T) {
	r := shared(t)
	holder, file := r.start("run", "--name", "the holder", "busy", "--", "sleep", "1000"), r.file()
	r.held("busy")
	for flags, code := range map[string]int{"-n": 75, "-w 0.2": 75, "--wait 200ms": 75, "-n -E 9": 9, "-n -E 255": 255, "-n --ok-if-busy": 0} {
		got := r.do(code, append(append([]string{"run"}, strings.Fields(flags)...), "busy", "--", "touch", file)...)
		if code == 0 {
			assert.Empty(t, got.stdout+got.stderr, "cron would mail it")
		} else {
			assert.Contains(t, got.stderr, `busy is busy, held by "the holder"`)
		}
	}
	waited := r.do(75, "run", "-w", "1.2", "busy", "--", "touch", file).stderr
	assert.Regexp(t, `^redlatch: busy is busy, held by "the holder"; waited 1\.2\d{0,2}s\n$`, waited, "there is no terminal")
	r.fails(0, "busy is busy", "run", "-n", "-E", "0", "busy", "--", "touch", file)
	assert.NoFileExists(t, file)
	holder.signal(syscall.SIGTERM).ends(128 + 15)

	unnamed := r.start("run", "unnamed", "--", "sleep", "1000")
	r.held("unnamed")
	assert.Equal(t, "redlatch: unnamed is busy, held by \"sleep\"\n", r.do(75, "run", "-n", "unnamed", "--", "true").stderr)
	unnamed.signal(syscall.SIGTERM).ends(128 + 15)
	r.holds("bare")
	assert.Equal(t, "redlatch: bare is busy\n", r.do(75, "run", "-n", "bare", "--", "true").stderr)
}

// family is a command and its child. Both write their signals into a file.
const family = `
	trap 'echo child-$1 >>"$0"; exit 3' "$1"
	sh -c 'trap "echo grandchild-$1 >>\"$0\"; exit" "$1"; echo ready >>"$0"; while :; do sleep 0.02; done' "$0" "$1" &
	while :; do sleep 0.02; done`

func TestRun_ForwardsSignals(t *testing.T) {
	r := shared(t)
	for name, sig := range map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
	} { // in a shell, background commands ignore INT and QUIT
		file := r.file()
		c := r.start("run", "signal "+name, "--", "sh", "-c", family, file, name)
		r.awaits(file, 1)
		c.signal(sig).ends(3)
		r.awaits(file, 3)
		assert.ElementsMatch(t, []string{"ready", "child-" + name, "grandchild-" + name}, lines(file))
	}
}

func TestRun_SignalEndsTheWait(t *testing.T) {
	r := shared(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1} {
		key, file := sig.String(), r.file()
		holder := r.start("run", key, "--", "sleep", "1000")
		r.held(key)
		c := r.start("run", key, "--", "touch", file)
		r.waits(key, 1)
		assert.Empty(t, c.signal(syscall.SIGWINCH).signal(sig).ends(128+int(sig)).stderr)
		// The program waits half a second for Redis. After that, its place in the queue lapses.
		r.eventually("it has left", func() bool { return r.rdb.ZCount(t.Context(), "redlatch:{"+key+"}:queue", "-inf", "+inf").Val() == 0 })
		holder.signal(syscall.SIGTERM).ends(143)
		assert.NoFileExists(t, file)
	}
}

// A command under nohup does not end with the terminal.
func TestRun_LeavesIgnoredSignalsAlone(t *testing.T) {
	r := shared(t)
	c, file := r.prepare(), r.file()
	c.cmd.Path, c.cmd.Args = "/bin/sh", []string{
		"sh", "-c", `trap "" HUP; exec "$0" run nohup -- sh -c 'echo ready >"$0"; until [ -e "$0.end" ]; do sleep 0.02; done' "$1"`,
		binary, file,
	}
	c.start()
	r.awaits(file, 1)
	c.signal(syscall.SIGHUP)
	r.touch(file + ".end")
	c.ends(0)
}

// stubborn holds the named pipe open, as does its child, and both ignore TERM. The pipe ends
// when both are gone. Of leader, only the child ignores TERM.
const (
	stubborn = `
	trap "" TERM
	exec 3>"$0"
	sh -c 'while :; do echo child >&3; sleep 0.02; done' &
	while :; do echo command >&3; sleep 0.02; done`
	leader = `
	exec 3>"$0"
	sh -c 'trap "" TERM; while :; do echo child >&3; sleep 0.02; done' &
	trap 'exit 3' TERM
	while :; do echo command >&3; sleep 0.02; done`
)

// pipe is a named pipe to which a family writes while it works.
type pipe struct {
	*testing.T

	path  string
	words chan string // closed when no process has the pipe open any more
}

func newPipe(t *testing.T) *pipe {
	t.Helper()
	p := &pipe{t, filepath.Join(t.TempDir(), "pipe"), make(chan string, 1)}
	require.NoError(t, syscall.Mkfifo(p.path, 0o600))
	go func() {
		defer close(p.words)
		file, err := os.Open(p.path)
		if !assert.NoError(t, err) {
			return
		}
		defer file.Close()
		for words := bufio.NewScanner(file); words.Scan(); {
			select {
			case p.words <- words.Text():
			default:
			}
		}
	}()
	return p
}

// reads reads words until is returns true.
func (p *pipe) reads(what string, is func(word string, open bool) bool) {
	p.Helper()
	for late := time.After(patience); ; {
		select {
		case word, open := <-p.words:
			if is(word, open) {
				return
			}
		case <-late:
			require.FailNow(p, what)
		}
	}
}

func (p *pipe) works() {
	p.Helper()
	seen := map[string]bool{}
	p.reads("the command does not work", func(word string, _ bool) bool { seen[word] = true; return len(seen) == 2 })
}

func (p *pipe) gone() {
	p.Helper()
	p.reads("the command still runs", func(_ string, open bool) bool { return !open })
}

// The whole process group has ended before the key expires.
func TestRun_LossKillsTheCommandBeforeTheKeyCanExpire(t *testing.T) {
	for name, script := range map[string]string{"stubborn": stubborn, "left a child": leader, "renewed before": leader} {
		t.Run(name, func(t *testing.T) {
			r := own(t)
			proxy, p := redistest.NewProxy(t, r.addr), newPipe(t)
			c := r.at(proxy.Addr()).start("run", "--ttl", "6s", "k", "--", "sh", "-c", script, p.path)
			p.works()
			if name == "renewed before" {
				for range 3 { // the last time after the first warning would be due
					before := r.rdb.HGetAll(t.Context(), "redlatch:{k}").Val()
					r.eventually("it is renewed", func() bool { return !maps.Equal(before, r.rdb.HGetAll(t.Context(), "redlatch:{k}").Val()) })
				}
			}
			proxy.Freeze()
			p.gone()
			require.NoError(t, r.rdb.Exists(t.Context(), "redlatch:{k}").Err()) // so that Redis counts a key that expired; it may be released by now
			assert.Contains(t, r.rdb.Info(t.Context(), "stats").Val(), "\nexpired_keys:0\r", "the key expired before the command was gone")
			assert.Contains(t, c.ends(70).stderr, "redlatch: the lock of k was lost and the command ended: Redis has not confirmed it for too long\n")
		})
	}
}

// Another caller can have the lock by then: the command has no time to end.
func TestRun_LossOfTheKeyUnderTheCommand(t *testing.T) {
	r, p := shared(t), newPipe(t)
	c := r.start("run", "--ttl", "600ms", "-k", "200ms", "deleted", "--", "sh", "-c", stubborn, p.path)
	p.works()
	require.NoError(t, r.rdb.Del(t.Context(), "redlatch:{deleted}").Err())
	p.gone()
	assert.Equal(t, "redlatch: the lock of deleted was lost and the command ended: no longer held in the store\n", c.ends(70).stderr)
}

// untilFile is a command that runs until a file exists.
const untilFile = `echo "in" >>"$0"; until [ -e "$0.go" ]; do sleep 0.02; done; echo out >>"$0"`

// A command that succeeded may have run at the same time as another command.
func TestRun_LossThatTheReleaseFindsIsALoss(t *testing.T) {
	r := shared(t)
	file := r.file()
	c := r.start("run", "lost at the end", "--", "sh", "-c", untilFile, file)
	r.awaits(file, 1)
	require.NoError(t, r.rdb.Del(t.Context(), "redlatch:{lost at the end}").Err())
	r.touch(file + ".go")
	got := c.ends(70).stderr
	assert.Equal(t, []string{"in", "out"}, lines(file), "the next renewal is 10 s away")
	assert.Contains(t, got, "the lock of lost at the end was lost before the command ended: ")
	assert.Equal(t, 1, strings.Count(got, "was lost"), got)
}

// The command has time to end until another caller can have the lock.
func TestRun_LossDuringTheGraceEndsIt(t *testing.T) {
	r, p := own(t), newPipe(t)
	proxy, file := redistest.NewProxy(t, r.addr), r.file()
	c := r.at(proxy.Addr()).start("run", "--ttl", "15s", "-k", "5s", "k", "--", "sh", "-c", `
		trap 'echo TERM >>"$1"' TERM
		exec 3>"$0"
		while :; do echo command >&3; echo child >&3; sleep 0.02; done`, p.path, file)
	p.works()
	proxy.Freeze()
	r.awaits(file, 1)
	begun := time.Now()
	require.NoError(t, r.rdb.Del(t.Context(), "redlatch:{k}").Err())
	proxy.Thaw()
	p.gone()
	assert.Less(t, time.Since(begun), 4*time.Second, "it was left its grace of 5 s")
	c.ends(70)
}

func TestRun_MaxHoldEndsTheCommand(t *testing.T) {
	r, p := shared(t), newPipe(t)
	file := r.file()
	got := r.do(70, "run", "--max-hold", "500ms", "capped", "--", "sh", "-c", family, file, "TERM")
	assert.ElementsMatch(t, []string{"ready", "child-TERM", "grandchild-TERM"}, lines(file), "there is time for a good end")
	assert.Contains(t, got.stderr, "--max-hold 500ms has passed")
	r.free("capped")
	r.do(70, "run", "--max-hold", "200ms", "-k", "0.3", "capped", "--", "sh", "-c", stubborn, p.path)
	p.gone()
	r.free("capped")
}

// Signals reach a command that has its grace to end.
func TestRun_ForwardsSignalsDuringTheGrace(t *testing.T) {
	r := shared(t)
	file := r.file()
	c := r.start("run", "--max-hold", "300ms", "-k", "5s", "graceful", "--", "sh", "-c",
		`trap 'echo TERM >>"$0"' TERM; trap 'echo USR1 >>"$0"; exit' USR1; while :; do sleep 0.02; done`, file)
	r.awaits(file, 1)
	c.signal(syscall.SIGUSR1).ends(70)
	assert.Equal(t, []string{"TERM", "USR1"}, lines(file))
}

// The command succeeded, whatever Redis says then.
func TestRun_ReleaseThatIsNotConfirmed(t *testing.T) {
	for says, flags := range map[string][]string{
		"the release of k was not confirmed, its ttl ends it: ":          nil,
		"the record of k was not confirmed, the command may run again: ": {"--once", "1h"},
	} {
		t.Run(says, func(t *testing.T) {
			r := own(t)
			proxy, file := redistest.NewProxy(t, r.addr), r.file()
			c := r.at(proxy.Addr()).start(slices.Concat([]string{"run"}, flags, []string{"k", "--", "sh", "-c", untilFile, file})...)
			r.awaits(file, 1)
			proxy.Freeze()
			r.touch(file + ".go")
			assert.Contains(t, c.ends(0).stderr, "redlatch: "+says)
		})
	}
}

func TestRun_SharedAndLimit(t *testing.T) {
	r := own(t)
	r.holds("rates", guard.Shared())
	r.holds("export", guard.Limit(2))
	for args, code := range map[string]int{
		"-n -s rates": 0, "-n --limit 2 rates": 0, "-n rates": 75, "-n --limit 1 rates": 75, "-n --limit 2 export": 0, "-n -s export": 0, "-n export": 75,
	} {
		r.do(code, append(append([]string{"run"}, strings.Fields(args)...), "--", "true")...)
	}
	assert.Contains(t, r.do(0, "ls").stdout, " (shared)\n")
}

func TestRunOnce_RunsOnce(t *testing.T) {
	r := own(t)
	file := r.file()
	argv := []string{"run", "--once", "20h", "nightly", "--", "sh", "-c", `echo "$REDLATCH_FENCE" >> "$0"`, file}
	assert.Empty(t, r.do(0, argv...).stderr)
	host, err := os.Hostname()
	require.NoError(t, err)
	for range 2 {
		assert.Regexp(t, `^redlatch: nightly: done \S+ ago by `+regexp.QuoteMeta(host)+`\n$`, r.do(0, argv...).stderr)
	}
	assert.Len(t, lines(file), 1)
	r.free("nightly")
	assert.Contains(t, r.do(0, "show", "nightly").stdout, "record: done ")
	r.do(0, "forget", "-y", "nightly")
	r.do(0, argv...)
	assert.Len(t, lines(file), 2)
}

func TestRunOnce_KeepsNothingOfACommandThatFailed(t *testing.T) {
	r := own(t)
	assert.Empty(t, r.do(7, "run", "--once", "1h", "k", "--", "sh", "-c", "exit 7").stderr)
	assert.Zero(t, r.rdb.Exists(t.Context(), "redlatch:{k}:once").Val())
	assert.Equal(t, "it ran\n", r.do(0, "run", "--once", "1h", "k", "--", "echo", "it ran").stdout)
}

// The loss is worse than the failure.
func TestRunOnce_LossThatTheReleaseFinds(t *testing.T) {
	r := own(t)
	for _, code := range []string{"0", "7"} {
		key, file := "exits "+code, r.file()
		c := r.start("run", "--once", "1h", key, "--", "sh", "-c", untilFile+`; exit "$1"`, file, code)
		r.awaits(file, 1)
		require.NoError(t, r.rdb.Del(t.Context(), "redlatch:{"+key+"}").Err())
		r.touch(file + ".go")
		assert.Contains(t, c.ends(70).stderr, "the lock of "+key+" was lost before the command ended: ")
	}
}

// A program may have done the work. Its result may not be kept, and this user may not be allowed to read the record.
func TestRunOnce_WorkOfAProgram(t *testing.T) {
	r := own(t)
	_, _, err := guard.Once(t.Context(), r.guard(), guard.Key("k"), time.Hour,
		func(context.Context) (string, error) { return "too long", nil }, guard.MaxResult(1))
	require.NoError(t, err)
	argv := []string{"run", "--once", "1h", "k", "--", "false"}
	assert.Regexp(t, `^redlatch: k: done \S+ ago by \S+:\d+\n$`, r.do(0, argv...).stderr)
	require.NoError(t, r.rdb.Do(t.Context(), "acl", "setuser", "blind", "on", ">secret", "~*", "&*", "+@all", "-evalsha_ro").Err())
	assert.Equal(t, "redlatch: k: done\n", r.at("blind:secret@"+r.addr).do(0, argv...).stderr)
}

func TestRun_RefusesWrongArguments(t *testing.T) {
	r := nowhere(t)
	for says, flags := range map[string]string{
		"unknown flag: --fast": "--fast", "exclude each other": "-n -w 1", "--ok-if-busy and -E": "--ok-if-busy -E 1",
		"-E 256 is outside 0 to 255": "-E 256", "-E -1 is outside": "-E -1", "want a duration": "-w soon", "--wait -1s is negative": "-w -1",
		"--ttl 10ms is outside 100ms": "--ttl 10ms", "10s, a third of the ttl": "-k 11", "--kill-after -1s is outside": "-k -1", "--min-hold -1s is outside 0s": "--min-hold -1s",
		"--max-hold -1s is negative": "--max-hold -1s", "--limit 0 is outside 1 to": "--limit 0", "--limit 10001 is outside": "--limit 10001",
		"-s and --limit exclude": "-s --limit 3", "with -s or --limit": "-s --min-hold 1s", "--min-hold keeps the whole key": "--limit 2 --min-hold 1s", `--prefix "{" must be`: "--prefix {",
		"--redis: the scheme is none": "--redis http://user:hunter2@host", "--name has 257 bytes": "--name " + strings.Repeat("n", 257),
		"--once 0s is outside": "--once 0", "does not go with -s or": "--once 1h -s", "it does not go with -s or --limit": "--once 1h --limit 2",
	} {
		got := r.do(64, append(append([]string{"run"}, strings.Fields(flags)...), "k", "--", "true")...)
		assert.Contains(t, got.stderr, says)
		assert.NotContains(t, got.stderr, "hunter2")
		assert.Empty(t, got.stdout)
	}
	for says, args := range map[string][]string{
		"a command is missing": {}, `unknown command "walk"; see redlatch --help`: {"walk"}, "KEY is missing; see redlatch run --help": {"run", "-n"},
		"COMMAND is missing": {"run", "k"}, "COMMAND is missing after KEY": {"run", "-n", "k", "--"}, "unknown flag: --all": {"run", "./report.sh", "--all"},
		"COMMAND is missing after KEY;":     {"run", "--", "k", "--"},
		"KEY is missing; see redlatch show": {"show"}, "KEY is missing; see redlatch revoke": {"revoke"}, "KEY is missing; see redlatch break": {"break"}, `unexpected argument "b" after KEY;`: {"show", "k", "b"}, `unexpected argument "b" after MATCH;`: {"ls", "a", "b"},
		"invalid argument \"ten\"": {"revoke", "--fence", "ten", "k"}, `unexpected argument "x" after KEY;`: {"forget", "k", "x"},
		`--prefix "" must be`: {"show", "--prefix", "", "k"}, "invalid lock key: ": {"revoke", ""}, "invalid lock key": {"run", "", "--", "true"}, "--redis is empty": {"run", "--redis", "", "k", "--", "true"},
		"--redis is empty; see redlatch doctor": {"doctor", "--redis", ""}, "--redis is empty; see redlatch ls": {"ls", "--redis", ""},
	} {
		r.fails(64, says, args...)
	}
	r.at("").fails(64, "which Redis? give --redis URL, or set REDIS_URL;", "run", "k", "--", "true")
	assert.JSONEq(t, `{"message": "-E 300 is outside 0 to 255; see redlatch run --help", "code": 64}`,
		r.do(64, "run", "--json", "-E", "300", "k", "--", "true").stderr)
}

// A key comes from a job's name, or from a request. It must not add lines to a log.
func TestRun_KeyCannotForgeALogLine(t *testing.T) {
	r := own(t)
	key := "k\nredlatch: all is well \x1b[2J"
	r.holds(key)
	for _, args := range [][]string{
		{"run", "-n", key, "--", "true"},
		{"run", key, "--", "/nowhere/" + key},
		{"run", "-n", "--" + key, "--", "true"},
		{"run", "-w", key, "k", "--", "true"},
		{"show", "a", key},
		{key},
		{"revoke", "--fence", "1", key},
		{"forget", "--yes", key},
	} {
		c := r.start(args...)
		<-c.ended
		assert.NotZero(t, c.cmd.ProcessState.ExitCode())
		assert.Equal(t, 1, strings.Count(c.stderr.String(), "\n"), "%q", c.stderr.String())
		assert.NotContains(t, c.stderr.String(), "\x1b")
	}
	assert.NotContains(t, r.at("127.0.0.1:1").do(69, "run", key, "--", "true").stderr, "\x1b")
}

func (r *env) passwordFile(text string) string {
	r.Helper()
	file := r.file()
	require.NoError(r, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestRun_ThePasswordFromAFile(t *testing.T) {
	r := own(t)
	require.NoError(t, r.rdb.ConfigSet(t.Context(), "requirepass", "a/?#b").Err())
	file := r.passwordFile("a/?#b\n")
	assert.Equal(t, says{0, "nothing is held\n", ""}, r.do(0, "ls", "--redis-password-file", file))
	c := r.prepare("run", "k", "--", "sh", "-c", `echo "url $REDIS_URL file $REDIS_PASSWORD_FILE"`)
	c.cmd.Env = append(c.cmd.Env, "REDIS_PASSWORD_FILE="+file)
	assert.Equal(t, "url  file \n", c.start().ends(0).stdout, "the command does not get them")
}

func TestRun_BadPasswordFileIsRefused(t *testing.T) {
	r := nowhere(t)
	const secret = "hunter2"
	for says, file := range map[string]string{
		"no such file": filepath.Join(t.TempDir(), secret), "is empty": r.passwordFile("\n"), "more than one line": r.passwordFile(secret + "\n" + secret),
		"longer than 4096 bytes": r.passwordFile(secret + strings.Repeat("x", 4096)), "a directory": t.TempDir(), "--redis-password-file is e": "",
	} {
		got := r.do(64, "ls", "--redis-password-file", file)
		assert.Contains(t, got.stderr, says)
		assert.NotContains(t, got.stderr, secret)
	}
	r.do(69, "ls", "--redis-password-file", r.passwordFile(strings.Repeat("x", 4096)+"\r\n"))
	c := r.prepare("ls", "--redis-password-file", "/dev/stdin")
	input, err := c.cmd.StdinPipe() // it stays open
	require.NoError(t, err)
	c.start()
	_, err = io.WriteString(input, strings.Repeat("x", 5000))
	require.NoError(t, err)
	assert.Contains(t, c.ends(64).stderr, "longer than 4096 bytes")
}

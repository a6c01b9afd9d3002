//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/guard"
)

func TestUsage_FlagsStandAnywhere(t *testing.T) {
	r := shared(t)
	r.holds("anywhere")
	off, url := r.at("127.0.0.1:1"), "redis://"+r.addr
	for _, args := range [][]string{
		{"--redis", url, "ls", "any*", "--json"},
		{"ls", "any*", "--json", "--redis=" + url},
		{"--json", "ls", "--redis", url, "any*"},
		{"--redis", url, "show", "anywhere", "--json"},
		{"show", "--json", "anywhere", "--redis", url},
	} {
		assert.Equal(t, "anywhere", decoded[lockJSON](t, off.do(0, args...).stdout).Key, args)
	}
	for _, args := range []string{
		"run -n -E 9 anywhere true", "run anywhere -n -E 9 true", "run -n anywhere -E 9 -- true", "run --busy-code=9 anywhere -w 0.1 true",
	} {
		off.fails(9, "anywhere is busy", append([]string{"--redis", url}, strings.Fields(args)...)...)
	}
}

// Words after the first word of the command belong to the command.
func TestUsage_TheCommandKeepsItsFlags(t *testing.T) {
	r := shared(t)
	for args, says := range map[string]string{
		"run own echo x -n --json --help --": "x -n --json --help --\n", "run own -n echo --prefix x": "--prefix x\n", "run own -- echo -w": "-w\n",
		"run -n -- own echo --json": "--json\n", "run -- own -- echo -w 1": "-w 1\n", "run own echo -- --yes": "-- --yes\n",
	} {
		assert.Equal(t, says, r.do(0, strings.Fields(args)...).stdout, args)
	}
	assert.Regexp(t, `^redlatch version \S+\n$`, r.do(0, "version").stdout)
	assert.Equal(t, r.do(0, "version"), r.do(0, "--version"))
	for _, args := range []string{"--help", "help", "run --help", "run -h", "help run", "run key --help", "run key -n -h echo"} {
		got := r.at("").do(0, strings.Fields(args)...)
		assert.Contains(t, got.stdout, "Usage:\n", args)
		assert.Contains(t, got.stdout, "\nExit codes:\n", args)
		assert.Empty(t, got.stderr)
	}
	assert.Regexp(t, `(?s)--redis or REDIS_URL is the URL.*  run +Run .*  ls +List .*  show +Show .*  revoke +Ask `, r.do(0, "--help").stdout)
	help := r.do(0, "run", "--help").stdout
	assert.Regexp(t, `(?s) --no-wait .* --wait .* --shared .* --limit n .* --ttl `, help)
	assert.Contains(t, help, "--max-hold duration ")
	assert.NotContains(t, help, "(default 0s)")
}

func TestUsage_DidYouMean(t *testing.T) {
	r := nowhere(t)
	for word, says := range map[string]string{
		"rn": "run", "shwo": "show", "watch": "ls", "doctr": "doctor", "lss": "ls", "forgot": "forget", "list": "ls", "exec": "run", "unlock": "revoke or break",
		"ping": "doctor", "reset": "forget", "describe": "show", "force": "break or forget",
	} {
		r.fails(64, fmt.Sprintf("redlatch: unknown command %q: did you mean %s?; see redlatch --help\n", word, says), word, "-n", "k", "--yes")
	}
	r.fails(64, `unknown command "forgive"; see`, "forgive")
	got := r.do(64)
	assert.Empty(t, got.stdout)
	assert.Contains(t, got.stderr, "\nUsage:\n")
}

// The help and the documentation have the exit codes of the code.
func TestUsage_ExitCodes(t *testing.T) {
	assert.Contains(t, nowhere(t).do(0, "--help").stdout, "\nExit codes:\n"+exitTable())
	text, err := os.ReadFile("../../docs/reference/command.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "\n| exit code | |\n|---|---|\n")
	require.True(t, found)
	table, _, _ := strings.Cut(rest, "\n\n")
	var inCode, inDocs []string
	for _, e := range exits {
		inCode = append(inCode, strconv.Itoa(e.code))
	}
	for _, row := range regexp.MustCompile(`(?m)^\| ([\d, ]+) \|`).FindAllStringSubmatch(table, -1) {
		inDocs = append(inDocs, strings.Split(row[1], ", ")...)
	}
	assert.Equal(t, inCode, inDocs)
}

func TestUsage_Completion(t *testing.T) {
	r := nowhere(t)
	assert.Contains(t, r.do(0, "completion", "bash").stdout, "redlatch")
	for typed, want := range map[string]string{ // :0 adds names of files
		"re": "revoke :4", "run --m": "--max-hold --min-hold :4", "--redi": "--redis --redis-password-file :4", "show k --js": "--json :4",
		"show ": ":4", "ls ": ":4", "revoke ": ":4", "break ": ":4", "forget ": ":4", "doctor ": ":4", "version ": ":4", "run ": ":4", "run k ": ":0", "run k -n ./x ": ":0",
	} {
		var got []string
		for _, line := range rows(r.do(0, append([]string{"__complete"}, strings.Split(typed, " ")...)...)) {
			name, _, _ := strings.Cut(line, "\t")
			got = append(got, name)
		}
		assert.Equal(t, want, strings.Join(got, " "), typed)
	}
}

func TestUsage_ManualPages(t *testing.T) {
	r, dir := nowhere(t), t.TempDir()
	c := r.prepare("man", dir)
	c.cmd.Env = append(c.cmd.Env, "SOURCE_DATE_EPOCH=1700000000")
	c.start().ends(0)
	for _, name := range []string{"redlatch.1", "redlatch-run.1", "redlatch-revoke.1"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Contains(t, string(text), `"Nov 2023" "redlatch `+version()+`"`)
		assert.Equal(t, name == "redlatch.1", strings.Contains(string(text), "\n  75   the lock is busy"), name)
	}
	r.fails(64, "DIRECTORY is missing", "man")
}

// A message begins with the program's name, and without the name of a package.
func TestUsage_MessagesHaveOnePrefix(t *testing.T) {
	r := own(t)
	require.NoError(t, r.rdb.Do(t.Context(), "acl", "setuser", "blind", "on", ">secret", "~*", "&*", "+@all", "-evalsha_ro", "-hset").Err())
	require.NoError(t, r.rdb.HSet(t.Context(), "redlatch:{by-hand}", "a", "b").Err())
	off, blind := r.at("127.0.0.1:1"), r.at("blind:secret@"+r.addr)
	for says, got := range map[string]struct {
		code int
		env  *env
		args string
	}{
		"Redis is unavailable: dial tcp 127.0.0.1:1: ":    {69, off, "ls"},
		"Redis is unavailable: dial tcp 127.0.0.1:1":      {69, off, "doctor"},
		"k: Redis is unavailable: dial tcp 127.0.0.1:1: ": {69, off, "run k true"},
		"Redis refuses: NOPERM ":                          {69, blind, "show k"},
		"k: Redis refuses: ERR ":                          {69, blind, "run k true"},
		"not a lock: ":                                    {65, r, "show by-hand"},
	} {
		assert.Regexp(t, `^redlatch: `+regexp.QuoteMeta(says), got.env.do(got.code, strings.Fields(got.args)...).stderr)
	}
}

// The page of the command has each command and each flag.
func TestUsage_ThePageHasEachFlag(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/command.md")
	require.NoError(t, err)
	n := 0
	has := func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != "version" {
			assert.Regexp(t, "`(?:-\\w`, `)?--"+f.Name+"[ `]", string(text))
			n++
		}
	}
	root := (&program{}).root()
	root.PersistentFlags().VisitAll(has)
	for _, cmd := range root.Commands() {
		name, _, _ := strings.Cut(cmd.Use, " ")
		assert.Contains(t, string(text), "`"+name)
		cmd.LocalNonPersistentFlags().VisitAll(has)
	}
	assert.Greater(t, n, 15)
}

func TestUsage_WordsAndNumbers(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `it's "a\b"`, oneLine(`it's "a\b"`))
	assert.Equal(t, `a\nb`, oneLine("a\nb"))
	now := time.Now()
	assert.Equal(t, []string{"0s", "1s", "?"}, []string{age(now, now.Add(time.Second)), age(now, now.Add(-time.Second)), age(now, time.Time{})})
	assert.Equal(t, []string{"9.9s", "12s", "no end"}, []string{left(9940 * time.Millisecond), left(12300 * time.Millisecond), left(0)})
	assert.Equal(t, []string{"a b", `" a"`, `"a\nb"`}, []string{visible("a b"), visible(" a"), visible("a\nb")})
	for ttl, want := range map[time.Duration][2]time.Duration{
		100 * time.Millisecond: {5 * time.Millisecond, 100 * time.Millisecond / 6}, time.Second: {20 * time.Millisecond, time.Second / 6},
		time.Hour: {200 * time.Millisecond, 5 * time.Second},
	} {
		r := &run{}
		require.NoError(t, r.times(ttl, false))
		assert.Equal(t, want, [2]time.Duration{r.reserve, r.grace})
	}
	r := &run{}
	require.NoError(t, r.times(time.Second, true))
	assert.Zero(t, r.grace)
	const wide = "é"
	assert.Equal(t, []string{"", "abc", strings.Repeat("x", 256), "x" + strings.Repeat(wide, 127)},
		[]string{short(""), short("abc"), short(strings.Repeat("x", 257)), short("x" + strings.Repeat(wide, 130))})
	assert.Equal(t, "ok    version: Redis 8\n", spell(doctor.Finding{Level: doctor.OK, Check: "version", Says: "Redis 8"}))
	assert.Equal(t, "Observe is nil", plain(&guard.OptionError{Option: "Observe", Reason: "is nil"}), "no flag")
	gone := func(context.Context, string, uint64) (bool, error) { return false, nil }
	assert.EqualError(t, end(t.Context(), "k", 7, gone), "k has no hold with the fence 7 any more: nothing was done")
}

func TestUsage_Durations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"250ms": 250 * time.Millisecond, "1m30s": 90 * time.Second, "0.2": 200 * time.Millisecond, "30": 30 * time.Second, "-1": -time.Second, "0": 0,
	} {
		d := duration(time.Hour)
		require.NoError(t, d.Set(text), text)
		assert.Equal(t, duration(want), d, text)
	}
	for _, text := range []string{"", "soon", "NaN", "Inf", "1e3", "1e300", "99999999999"} {
		d := duration(time.Hour)
		require.ErrorContains(t, d.Set(text), "want a duration such as", text)
		assert.Equal(t, duration(time.Hour), d)
	}
}

//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

// secured is a Redis that wants the password.
func secured(t *testing.T, password string) *redistest.Server {
	t.Helper()
	s := redistest.Start(t)
	client := s.Client(t)
	require.NoError(t, client.ConfigSet(t.Context(), "requirepass", password).Err())
	return s
}

func passwordFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestRedis_ThePasswordFromAFile(t *testing.T) {
	t.Parallel()
	s := secured(t, "a/?#b")
	file := passwordFile(t, "a/?#b\n")
	assert.Equal(t, says{0, "nothing is held\n", ""}, do(t, s.Addr(), "ls", "--redis-password-file", file))

	c := prepare(t, s.Addr(), "run", "k", "--", "sh", "-c", `echo "url $REDIS_URL file $REDIS_PASSWORD_FILE"`)
	c.cmd.Env = append(c.cmd.Env, "REDIS_PASSWORD_FILE="+file)
	c.start(t)
	assert.Zero(t, c.code(t), c.stderr.String())
	assert.Equal(t, "url  file \n", c.stdout.String(), "the command does not get them")
}

func TestRedis_APasswordFileThatCannotBe(t *testing.T) {
	t.Parallel()
	secret := "hunter2"
	for says, file := range map[string]string{
		"no such file":               filepath.Join(t.TempDir(), secret),
		"is empty":                   passwordFile(t, "\n"),
		"more than one line":         passwordFile(t, secret+"\n"+secret),
		"longer than 4096 bytes":     passwordFile(t, secret+strings.Repeat("x", 4096)),
		"a directory":                t.TempDir(),
		"--redis-password-file is e": "",
	} {
		got := do(t, "127.0.0.1:1", "ls", "--redis-password-file", file)
		assert.Equal(t, 64, got.code, says)
		assert.Contains(t, got.stderr, says)
		assert.NotContains(t, got.stderr, secret)
	}
	got := do(t, "", "ls", "--redis", "redis://:"+secret+"@127.0.0.1:1", "--redis-password-file", passwordFile(t, "another"))
	assert.Equal(t, 64, got.code)
	assert.Contains(t, got.stderr, "the URL has a password, too")
	assert.NotContains(t, got.stderr, secret)
}

// A script with an unset variable must not lock on another Redis than it means.
func TestRedis_AnEmptyRedisFlagIsNoRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	got := do(t, s.Addr(), "run", "--redis", "", "no redis", "--", "true")
	assert.Equal(t, 64, got.code)
	assert.Contains(t, got.stderr, "--redis is empty")
}

func TestRedis_TheCommandGetsTheURLOnlyIfItIsAsked(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	got := do(t, s.Addr(), "run", "without url", "--", "sh", "-c", `echo "${REDIS_URL-none}"`)
	assert.Equal(t, says{0, "none\n", ""}, got)
	got = do(t, s.Addr(), "run", "--keep-redis-url", "with url", "--", "sh", "-c", `echo "${REDIS_URL-none}"`)
	assert.Equal(t, says{0, "redis://" + s.Addr() + "\n", ""}, got)
}

func TestRedis_HelpSaysThatOthersSeeArguments(t *testing.T) {
	t.Parallel()
	assert.Contains(t, do(t, "", "ls", "--help").stdout, "ps shows it to others")
}

func TestRedis_DoctorTellsAWrongPasswordFromMissingRights(t *testing.T) {
	t.Parallel()
	s := secured(t, "right")
	for url, text := range map[string]string{
		"redis://:wrong@" + s.Addr():  "the user name or the password is wrong",
		"redis://u:wrong@" + s.Addr(): "the user name or the password is wrong",
		"redis://" + s.Addr():         "Redis wants a password",
	} {
		got := do(t, "", "doctor", "--redis", url)
		assert.Equal(t, 1, got.code)
		assert.Contains(t, got.stdout, "bad   login ("+s.Addr()+"): "+text)
		assert.Contains(t, got.stdout, "\n      fix: ")
		assert.NotContains(t, got.stdout, "allow ")
	}
}

func TestRedis_DoctorSaysThatThereIsNoTLS(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	got := do(t, "", "doctor", "--redis", "rediss://"+s.Addr()+"?dial_timeout=300ms")
	assert.Equal(t, 69, got.code)
	assert.Contains(t, got.stderr, "no TLS with "+s.Addr())
}

// A key comes from a job's name, or from a request: it must not write lines of its own.
func TestRedis_AKeyCannotForgeALogLine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	key := "k\nredlatch: all is well \x1b[2J"
	hold(t, s, key)
	for _, args := range [][]string{
		{"run", "-n", key, "--", "true"},
		{"run", key, "--", "/nowhere/" + key},
		{"run", "-n", "--" + key, "--", "true"},
		{"run", "-w", key, "k", "--", "true"},
		{"show", "a", key},
		{key},
		{"revoke", "--fence", "1", key},
		{"break", "--yes", "--fence", "1", key},
		{"forget", "--yes", key},
	} {
		for _, addr := range []string{s.Addr(), "127.0.0.1:1"} {
			got := do(t, addr, args...)
			assert.NotZero(t, got.code)
			assert.Equal(t, 1, strings.Count(got.stderr, "\n"), "%q", got.stderr)
			assert.NotContains(t, got.stderr, "\x1b")
		}
	}
}

package chaos

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

const (
	serverEnv = "REDLATCH_REDIS_SERVER" // of redistest
	clockFile = "clock"                 // in the directory of each server
)

// A sentinel keeps the machine's clock: these tests are not about Sentinel.
const clockWrapper = `#!/bin/sh
for word; do
  [ "$word" = --sentinel ] && exec '%[1]s' "$@"
done
[ -f %[3]s ] || printf '\0\0\0\0\0\0\0\0' > %[3]s
REDLATCH_CHAOS_CLOCK="$PWD/%[3]s" LD_PRELOAD='%[2]s' exec '%[1]s' "$@"
`

// ownClocks has the servers that are started from now on go by clocks of their own. It says
// why, if that cannot be.
func ownClocks(t *testing.T) (why string) {
	t.Helper()
	server, missing := exec.LookPath(cmp.Or(os.Getenv(serverEnv), "redis-server"))
	if missing != nil {
		return missing.Error()
	}
	dir := t.TempDir()
	library, wrapper := filepath.Join(dir, "clock.so"), filepath.Join(dir, "redis-server")
	out, err := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-O2", "-o", library, "testdata/clock.c").CombinedOutput()
	if err != nil {
		return fmt.Sprintf("no C compiler: cc: %v: %s", err, out)
	}
	text := fmt.Sprintf(clockWrapper, server, library, clockFile)
	require.NoError(t, os.WriteFile(wrapper, []byte(text), 0o700))
	t.Setenv(serverEnv, wrapper)
	return ""
}

// openClock finds the clock of the server that has its data in dir. It is nil if the server
// goes by the machine's.
func openClock(t *testing.T, dir string) *serverClock {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, clockFile), os.O_RDWR, 0)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return &serverClock{file: f, eras: []era{{}}}
}

// The clock is set back while a release runs whose MinHold is shorter than the step. Redis goes by the time at which the
// script began for what has expired, and by the present time for a ttl. The lock must not stay for ever.
func TestClock_SetBackDuringAReleaseLeavesATTL(t *testing.T) {
	if why := ownClocks(t); why != "" || runtime.GOOS != "linux" {
		t.Skip("LD_PRELOAD is for Linux", why)
	}
	rdb, ctx := redistest.Start(t).Client(t), t.Context()
	c := openClock(t, rdb.ConfigGet(ctx, "dir").Val()["dir"])
	require.NotNil(t, c)
	const lock, owner, slowly = "redlatch:{k}", "a-1", "for _ = 1, 1e7 do end\n"
	keys := []string{lock, lock + ":queue", lock + ":ended", lock + ":seen", lock + ":holders"}
	fence := strconv.FormatInt(time.Now().UnixMicro(), 10)
	require.NoError(t, rdb.HSet(ctx, lock, owner, "1 "+fence+" 60000 - meta").Err())
	require.NoError(t, rdb.PExpire(ctx, lock, time.Minute).Err())
	time.AfterFunc(20*time.Millisecond, func() { assert.NoError(t, c.set(-2*time.Minute)) })
	reply, err := rdb.Eval(ctx, slowly+testenv.ScriptSource("release"), keys, "1c:", owner, fence+" 500 -").Result()
	require.NoError(t, err)
	assert.Equal(t, []any{"kept"}, reply)
	assert.Positive(t, rdb.PTTL(ctx, lock).Val())
}

package chaos_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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

// serverClock is the wall clock of a server, which may differ from the machine's.
type serverClock struct {
	file *os.File

	mu   sync.Mutex // protects what follows
	now  time.Duration
	eras []era
}

// era is a time in which a clock was ahead of the machine's by something between two
// bounds. It lasts until the next one begins.
type era struct {
	from      int64
	low, high time.Duration
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

// set moves the clock. While it is slewed, one move cannot be distinguished from another.
func (c *serverClock) set(ahead time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := era{stamp(), min(c.now, ahead), max(c.now, ahead)}
	if last := &c.eras[len(c.eras)-1]; e.from-last.from < int64(lookPulse) {
		last.low, last.high = min(last.low, e.low), max(last.high, e.high)
	} else {
		c.eras = append(c.eras, e)
	}
	c.now = ahead
	_, err := c.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead)), 0)
	return err
}

// settled notes that the clock is no longer slewed.
func (c *serverClock) settled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.eras = append(c.eras, era{stamp(), c.now, c.now})
}

func (c *serverClock) ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// clocks are those of all servers. It is nil if they go by the machine's.
type clocks []*serverClock

// highest is the highest clock of any server until an instant, as unix ns.
func (cs clocks) highest(until int64) (most int64) {
	for e, end := range cs.all() {
		if e.from <= until {
			most = max(most, min(end, until)+int64(e.high))
		}
	}
	return most
}

// bounds is by how much, at least, a clock was ahead between two instants, and by how much any clock was at most until then.
func (cs clocks) bounds(from, to int64) (low, high time.Duration) {
	low, high = math.MaxInt64, math.MinInt64
	for e, end := range cs.all() {
		if e.from <= to {
			high = max(high, e.high)
			if end >= from {
				low = min(low, e.low)
			}
		}
	}
	return low, high
}

// differ reports whether another server may have another time.
func (cs clocks) differ() bool {
	return slices.ContainsFunc(cs, func(c *serverClock) bool { return c.ahead() != cs[0].ahead() })
}

// all yields the eras of all servers, and when each ends. Without clocks of their own, they have the machine's.
func (cs clocks) all() iter.Seq2[era, int64] {
	return func(yield func(era, int64) bool) {
		if len(cs) == 0 {
			yield(era{}, math.MaxInt64)
		}
		for _, c := range cs {
			c.mu.Lock()
			eras := append(slices.Clone(c.eras), era{from: math.MaxInt64})
			c.mu.Unlock()
			for i, e := range eras[:len(eras)-1] {
				if !yield(e, eras[i+1].from) {
					return
				}
			}
		}
	}
}

// rememberedFor returns the keys that a server remembers for too long: an owner
// for a minute, and a fence for as long as it may be ahead of its clock.
func (cs clocks) rememberedFor(server int, admin *redis.Client) (wrong []string) {
	ctx := context.Background()
	bound := time.Minute + time.Second
	if cs != nil {
		bound += time.Duration(cs.highest(stamp())-stamp()) - cs[server].ahead()
	}
	for _, name := range admin.Keys(ctx, "*}:ended").Val() {
		if left := admin.PTTL(ctx, name).Val(); left > bound {
			wrong = append(wrong, fmt.Sprintf("%q stays for %v, longer than %v", name, left, bound))
		}
	}
	return wrong
}

// The shim moves what TIME says and what a ttl goes by, and nothing but the wall clock.
func TestClock_ServersHaveClocksOfTheirOwn(t *testing.T) {
	if why := ownClocks(t); why != "" || runtime.GOOS != "linux" {
		t.Skip("LD_PRELOAD is for Linux", why)
	}
	rdb, ctx := redistest.Start(t).Client(t), t.Context()
	c := openClock(t, rdb.ConfigGet(ctx, "dir").Val()["dir"])
	require.NotNil(t, c)
	for _, ahead := range []time.Duration{0, 50 * time.Millisecond, -2 * time.Second, time.Hour, 0} {
		require.NoError(t, c.set(ahead))
		at, err := rdb.Time(ctx).Result()
		require.NoError(t, err)
		assert.InDelta(t, ahead.Seconds(), time.Until(at).Seconds(), 0.04)
	}
	require.NoError(t, rdb.Set(ctx, "k", "v", time.Minute).Err())
	require.NoError(t, c.set(time.Hour))
	require.Zero(t, rdb.Exists(ctx, "k").Val())
	require.NoError(t, rdb.Set(ctx, "k", "v", time.Minute).Err())
	require.NoError(t, c.set(0))
	assert.Greater(t, rdb.PTTL(ctx, "k").Val(), 59*time.Minute)
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

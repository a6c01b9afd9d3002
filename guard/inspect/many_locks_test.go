package inspect_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/redistest"
)

// All is asked for all of many locks among ten times as many keys, while others hold theirs.
// REDLATCH_MANY_LOCKS asks for so many locks, and prints what that cost Redis.
func TestManyLocks_LookingAtManyLocksHoldsUpNobody(t *testing.T) {
	t.Parallel()
	locks, holds := 2000, 50
	if n, _ := strconv.Atoi(os.Getenv("REDLATCH_MANY_LOCKS")); n > 0 {
		locks, holds = n, 500
	}
	s := redistest.Start(t)
	admin := s.Client(t, func(o *redis.Options) { o.ReadTimeout = time.Minute })
	fill(t, admin, locks-holds, 9*locks)

	g := guardOn(t, s.Client(t), guard.TTL(2*time.Second))
	leases := make([]*guard.Lease, holds)
	for n := range leases {
		lease, err := g.Acquire(t.Context(), guard.Keyf("held:%s", strconv.Itoa(n)))
		require.NoError(t, err)
		leases[n] = lease
	}
	require.NoError(t, admin.ConfigSet(t.Context(), "slowlog-max-len", "100000").Err())
	require.NoError(t, admin.ConfigSet(t.Context(), "slowlog-log-slower-than", "300").Err())
	require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
	longest, stop := ping(t, s.Client(t))

	begun, shown := time.Now(), 0
	for info, err := range inspect.New(s.Client(t)).All(t.Context(), "") {
		require.NoError(t, err)
		require.Len(t, info.Holders, 1)
		shown++
	}
	took := time.Since(begun)
	assert.Equal(t, locks, shown)
	stop()

	for _, lease := range leases {
		require.NoError(t, lease.Err(), "lost while somebody looked")
	}
	require.Eventually(t, func() bool { // also the renewals that were due meanwhile
		for _, lease := range leases {
			if time.Until(lease.Deadline()) < time.Second {
				return false
			}
		}
		return true
	}, patience, 10*time.Millisecond)
	slowest := slowest(t, admin)
	stats, err := admin.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	for _, command := range []string{"scan", "evalsha_ro"} {
		if line := regexp.MustCompile(`cmdstat_` + command + `:\S+`).FindString(stats); line != "" {
			t.Log(line)
		}
	}
	t.Logf("%d locks among %d keys: %v; the slowest SCAN %v, the slowest look %v; others waited for %v at most",
		locks, 10*locks, took.Round(time.Millisecond), slowest["scan"], slowest["evalsha_ro"], time.Duration(longest.Load()))
}

// fill makes locks as Guards leave them, and other keys.
func fill(t *testing.T, c *redis.Client, locks, others int) {
	t.Helper()
	const batch = 1000
	at := time.Now().UnixMicro()
	for from := 0; from < locks; from += batch {
		pipe := c.Pipeline()
		for n := from; n < min(from+batch, locks); n++ {
			key := fmt.Sprintf("guard:{order:%d}", n)
			pipe.HSet(t.Context(), key, fmt.Sprintf("%032x-1", n%100), fmt.Sprint("1 ", at-int64(n), " 0 - request 7"))
			pipe.Expire(t.Context(), key, 10*time.Minute)
		}
		_, err := pipe.Exec(t.Context())
		require.NoError(t, err)
	}
	for from := 0; from < others; from += batch {
		pairs := make([]any, 0, 2*batch)
		for n := from; n < min(from+batch, others); n++ {
			pairs = append(pairs, "session:"+strconv.Itoa(n), "x")
		}
		require.NoError(t, c.MSet(t.Context(), pairs...).Err())
	}
}

// ping notes the longest that another client waits for an answer.
func ping(t *testing.T, c *redis.Client) (longest *atomic.Int64, stop func()) {
	t.Helper()
	longest = new(atomic.Int64)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(time.Millisecond):
			}
			begun := time.Now()
			if c.Ping(t.Context()).Err() == nil {
				longest.Store(max(longest.Load(), int64(time.Since(begun))))
			}
		}
	}()
	return longest, func() {
		close(end)
		<-ended
	}
}

// slowest is the longest that Redis took for each command, if more than 0.3 ms.
func slowest(t *testing.T, c *redis.Client) map[string]time.Duration {
	t.Helper()
	all := map[string]time.Duration{}
	entries, err := c.SlowLogGet(t.Context(), -1).Result()
	require.NoError(t, err)
	for _, entry := range entries {
		name := strings.ToLower(entry.Args[0])
		all[name] = max(all[name], entry.Duration)
	}
	return all
}

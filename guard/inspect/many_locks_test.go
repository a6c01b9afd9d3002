package inspect_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
)

// All is asked for all of many locks among ten times as many keys, while others hold theirs.
// REDLATCH_MANY_LOCKS asks for so many locks, and prints what that cost Redis.
func TestManyLocks_LookingAtManyLocksHoldsUpNobody(t *testing.T) {
	r := newEnv(t)
	locks, holds := 2000, 50
	if n, _ := strconv.Atoi(os.Getenv("REDLATCH_MANY_LOCKS")); n > 0 {
		locks, holds = n, 500
	}
	admin, at := r.server.Client(t, func(o *redis.Options) { o.ReadTimeout = time.Minute }), time.Now().UnixMicro()
	inBatches(t, admin, locks-holds, func(p redis.Pipeliner, n int) {
		key := fmt.Sprintf("redlatch:{order:%d}", n)
		p.HSet(t.Context(), key, fmt.Sprintf("%032x-1", n%100), fmt.Sprint("1 ", at-int64(n), " 0 - request 7"))
		p.Expire(t.Context(), key, 10*time.Minute)
	})
	inBatches(t, admin, 9*locks, func(p redis.Pipeliner, n int) { p.Set(t.Context(), fmt.Sprint("session:", n), "x", 0) })
	g := r.guard(guard.TTL(2 * time.Second))
	leases := make([]*guard.Lease, holds)
	for n := range leases {
		lease, err := g.Acquire(t.Context(), guard.Keyf("held:%d", n))
		require.NoError(t, err)
		leases[n] = lease
	}
	require.NoError(t, admin.ConfigSet(t.Context(), "slowlog-max-len", "100000").Err())
	require.NoError(t, admin.ConfigSet(t.Context(), "slowlog-log-slower-than", "300").Err())
	longest := ping(t, r.server.Client(t))
	begun := time.Now()
	assert.Len(t, r.all(""), locks)
	took, waited := time.Since(begun), longest()
	for _, lease := range leases {
		require.NoError(t, lease.Check(t.Context()), "lost while All looked")
	}
	slowest := map[string]time.Duration{}
	entries, err := admin.SlowLogGet(t.Context(), -1).Result()
	require.NoError(t, err)
	for _, entry := range entries {
		name := strings.ToLower(entry.Args[0])
		slowest[name] = max(slowest[name], entry.Duration)
	}
	t.Logf("%d locks among %d keys: %v; the slowest SCAN %v, the slowest look %v; others waited for %v at most",
		locks, 10*locks, took.Round(time.Millisecond), slowest["scan"], slowest["evalsha_ro"], waited)
}

func inBatches(t *testing.T, c *redis.Client, n int, each func(p redis.Pipeliner, n int)) {
	t.Helper()
	const batch = 1000
	for from := 0; from < n; from += batch {
		p := c.Pipeline()
		for i := from; i < min(from+batch, n); i++ {
			each(p, i)
		}
		_, err := p.Exec(t.Context())
		require.NoError(t, err)
	}
}

// ping notes the longest that another client waits for an answer, until it is asked.
func ping(t *testing.T, c *redis.Client) func() time.Duration {
	t.Helper()
	end, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		most := time.Duration(0)
		for {
			select {
			case <-end:
				longest <- most
				return
			case <-time.After(time.Millisecond):
			}
			begun := time.Now()
			if c.Ping(t.Context()).Err() == nil {
				most = max(most, time.Since(begun))
			}
		}
	}()
	return func() time.Duration { close(end); return <-longest }
}

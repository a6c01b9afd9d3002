package embedded_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/guard/embedded"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// gone returns when a key has expired.
func gone(t *testing.T, rdb *redis.Client, key string) {
	t.Helper()
	require.Eventually(t, func() bool { return rdb.Exists(t.Context(), key).Val() == 0 }, 10*time.Second, time.Millisecond)
}

// Connections come and go while others run scripts: each of them moves the clock. A key goes earlier than by its ttl
// by the clock's resolution at most.
func TestServer_KeysAgeInRealTime(t *testing.T) {
	t.Parallel()
	rdb, ctx := guardtest.NewRedis(t), t.Context()
	renew := redis.NewScript(`return redis.call("PEXPIRE", KEYS[1], ARGV[1])`)
	const ttl, resolution = 10 * time.Second, 2 * time.Millisecond
	begun := time.Now()
	require.NoError(t, rdb.Set(ctx, "ends", "v", 300*time.Millisecond).Err())
	require.NoError(t, rdb.Set(ctx, "stays", "v", ttl).Err())
	set := time.Now()
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for time.Since(begun) < 700*time.Millisecond {
				c := redis.NewClient(&redis.Options{Addr: rdb.Options().Addr, PoolSize: 1})
				assert.NoError(t, errors.Join(renew.Run(ctx, c, []string{"other"}, ttl.Milliseconds()).Err(), c.Close()))
			}
		})
	}
	gone(t, rdb, "ends")
	assert.GreaterOrEqual(t, time.Since(begun), 300*time.Millisecond-resolution)
	load.Wait()
	asked := time.Now()
	left := rdb.PTTL(ctx, "stays").Val()
	assert.LessOrEqual(t, left, ttl-asked.Sub(set)+resolution)
	assert.GreaterOrEqual(t, left, ttl-time.Since(begun)-resolution)
}

// A key that is there at the start of a script is there until its end.
func TestServer_TimeStandsStillInAScript(t *testing.T) {
	t.Parallel()
	rdb := guardtest.NewRedis(t)
	n, err := redis.NewScript(`
		local function ms()
			local t = redis.call("TIME")
			return t[1] * 1000 + t[2] / 1000
		end
		redis.call("SET", KEYS[1], "v", "PX", 2)
		local start = ms()
		while ms() < start + 10 do
			if redis.call("EXISTS", KEYS[1]) == 0 then return 0 end
		end
		return 1`).Run(t.Context(), rdb, []string{"k"}).Int()
	require.NoError(t, err)
	assert.Equal(t, 1, n, "the key expired under the script")
	gone(t, rdb, "k")
}

func TestServer_Closes(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s, err := embedded.Start()
	require.NoError(t, err)
	addr, closedByUser, open := s.Addr(), s.Client(), s.Client()
	require.NoError(t, open.Ping(t.Context()).Err())
	require.NoError(t, closedByUser.Close())
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "a second Close")
	assert.ErrorIs(t, open.Ping(t.Context()).Err(), redis.ErrClosed)
	assert.Equal(t, addr, s.Addr())
	goleak.VerifyNone(t, before)
}

func TestServer_RefusesABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := embedded.Start()
		assert.ErrorContains(t, err, "use guardtest.NewMemoryGuard")
	})
}

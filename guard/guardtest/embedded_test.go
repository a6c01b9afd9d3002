package guardtest_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/guard/guardtest"
)

// gone returns when key has expired, and how long that took from start.
func gone(t *testing.T, rdb *redis.Client, key string, start time.Time) time.Duration {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		n, err := rdb.Exists(t.Context(), key).Result()
		require.NoError(t, err)
		if n == 0 {
			break
		}
		require.Less(t, time.Since(start), 10*time.Second, "the key does not expire")
	}
	return time.Since(start)
}

func TestEmbedded_KeysExpireInRealTime(t *testing.T) {
	t.Parallel()
	rdb := guardtest.NewRedis(t)

	start := time.Now()
	require.NoError(t, rdb.Set(t.Context(), "k", "v", 200*time.Millisecond).Err())
	// Earlier than the ttl by the clock's resolution at most, and never late as far as
	// a client can see: it expires what is due before it answers.
	assert.GreaterOrEqual(t, gone(t, rdb, "k", start), 199*time.Millisecond)
}

func TestEmbedded_PTTLFollowsTheClock(t *testing.T) {
	t.Parallel()
	rdb := guardtest.NewRedis(t)

	require.NoError(t, rdb.Set(t.Context(), "other", "v", 50*time.Millisecond).Err())
	sent := time.Now()
	require.NoError(t, rdb.Set(t.Context(), "k", "v", 10*time.Second).Err())
	set := time.Now()
	for range 3 {
		gone(t, rdb, "other", set)
		asked := time.Now()
		left, err := rdb.PTTL(t.Context(), "k").Result()
		require.NoError(t, err)
		assert.LessOrEqual(t, left, 10*time.Second-asked.Sub(set)+2*time.Millisecond)
		assert.GreaterOrEqual(t, left, 10*time.Second-time.Since(sent)-2*time.Millisecond)
		require.NoError(t, rdb.Set(t.Context(), "other", "v", 50*time.Millisecond).Err())
	}
}

// A key that is there at the start of a script is there until its end.
func TestEmbedded_TimeStandsStillInAScript(t *testing.T) {
	t.Parallel()
	rdb := guardtest.NewRedis(t)

	script := redis.NewScript(`
		local function ms()
			local t = redis.call("TIME")
			return t[1] * 1000 + t[2] / 1000
		end
		redis.call("SET", KEYS[1], "v", "PX", 2)
		local start = ms()
		while ms() < start + 10 do
			if redis.call("EXISTS", KEYS[1]) == 0 then return 0 end
		end
		return 1`)
	start := time.Now()
	n, err := script.Run(t.Context(), rdb, []string{"k"}).Int()
	require.NoError(t, err)
	assert.Equal(t, 1, n, "the key expired under the script")
	gone(t, rdb, "k", start)
}

// Connections come and go while others run scripts; each of them moves the clock.
func TestEmbedded_ClockUnderLoad(t *testing.T) {
	t.Parallel()
	rdb := guardtest.NewRedis(t)
	renew := redis.NewScript(`return redis.call("PEXPIRE", KEYS[1], ARGV[1])`)
	const ttl = 10 * time.Second
	require.NoError(t, rdb.Set(t.Context(), "k", "v", ttl).Err())

	end := time.Now().Add(700 * time.Millisecond)
	renewUntilEnd := func() error {
		for time.Now().Before(end) {
			c := redis.NewClient(&redis.Options{Addr: rdb.Options().Addr, PoolSize: 1})
			for range 20 {
				if n, err := renew.Run(t.Context(), c, []string{"k"}, ttl.Milliseconds()).Int(); n != 1 {
					return errors.Join(fmt.Errorf("the key is gone: %d", n), err, c.Close())
				}
			}
			if err := c.Close(); err != nil {
				return err
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { assert.NoError(t, renewUntilEnd()) })
	}
	wg.Wait()
	sent := time.Now()
	require.NoError(t, renew.Run(t.Context(), rdb, []string{"k"}, ttl.Milliseconds()).Err())
	left, err := rdb.PTTL(t.Context(), "k").Result()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, left, ttl-time.Since(sent)-2*time.Millisecond)
}

func TestEmbedded_SubscribersGetMessages(t *testing.T) {
	t.Parallel()
	rdb := guardtest.NewRedis(t)

	sub := rdb.Subscribe(t.Context(), "news")
	defer func() { _ = sub.Close() }()
	_, err := sub.Receive(t.Context())
	require.NoError(t, err)
	n, err := rdb.Eval(t.Context(), `return redis.call("PUBLISH", "news", "hello")`, nil).Int()
	require.NoError(t, err)
	assert.Equal(t, 1, n, "receivers")
	assert.Equal(t, "hello", (<-sub.Channel()).Payload)
}

func TestEmbedded_ServerCloses(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s, err := guardtest.Start()
	require.NoError(t, err)
	addr := s.Addr()
	closedByUser, open := s.Client(), s.Client()
	require.NoError(t, closedByUser.Ping(t.Context()).Err())
	require.NoError(t, open.Ping(t.Context()).Err())
	require.NoError(t, closedByUser.Close())

	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "a second Close")
	assert.ErrorIs(t, open.Ping(t.Context()).Err(), redis.ErrClosed)
	assert.Equal(t, addr, s.Addr())
	goleak.VerifyNone(t, before)
}

// Package redlatch_test has programs contend for the same keys on a real Redis. What adapters are in
// the tests is in internal/stack.
package redlatch_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
)

// holdOnEnv tells a re-executed test binary to lock a key on the Redis it names.
const (
	holdOnEnv = "REDLATCH_TEST_HOLD_ON"
	holdTTL   = time.Second
	holdKey   = "order:killed"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(holdOnEnv); addr != "" {
		if err := holdUntilKilled(addr); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(redistest.Run(m))
}

func newGuard(t *testing.T, server *redistest.Server, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.New(server.Client(t), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	return g
}

// requireNoLocksLeft finds nothing of a lock but what is kept for the next one: the last
// fence, and the tombstones of claims. The name of an instance is of no lock, and has a ttl.
func requireNoLocksLeft(t *testing.T, rdb *redis.Client) {
	t.Helper()
	lockKeys := func() []string {
		keys, err := rdb.Keys(t.Context(), "guard:*").Result()
		require.NoError(t, err)
		return slices.DeleteFunc(keys, func(key string) bool {
			if strings.HasSuffix(key, ":queue") {
				waiting, err := rdb.ZCount(t.Context(), key, "0", "+inf").Result()
				return err == nil && waiting == 0
			}
			return strings.HasSuffix(key, ":last") || strings.HasPrefix(key, "guard:instance:")
		})
	}
	require.Eventually(t, func() bool { return len(lockKeys()) == 0 }, 15*time.Second, 10*time.Millisecond)
}

// An operator sees in the lock's hash who holds it, and how deep.
func TestGuard_HashShowsOwnerAndDepth(t *testing.T) {
	server := redistest.Start(t)
	rdb, g := server.Client(t), newGuard(t, server)
	depth := func(ctx context.Context) string {
		lease, ok := guard.Held(ctx, "order:42")
		require.True(t, ok)
		hash, err := rdb.HGetAll(t.Context(), "guard:{order:42}").Result()
		require.NoError(t, err)
		words := strings.Fields(hash[lease.Owner()])
		require.Greater(t, len(words), 1)
		assert.Equal(t, strconv.FormatUint(lease.Fence(), 10), words[1])
		return words[0]
	}

	key := guard.Key("order:42")
	err := g.WithLock(t.Context(), key, func(ctx context.Context) error {
		assert.Equal(t, "1", depth(ctx))
		err := g.WithLock(ctx, key, func(ctx context.Context) error {
			assert.Equal(t, "2", depth(ctx))
			return nil
		})
		assert.Equal(t, "1", depth(ctx))
		return err
	})
	require.NoError(t, err)
	exists, err := rdb.Exists(t.Context(), "guard:{order:42}").Result()
	require.NoError(t, err)
	assert.Zero(t, exists, "the key is there after the lock")
}

// holdUntilKilled is what the re-executed test binary does. Its standard input ends with
// the test, should nobody kill it.
func holdUntilKilled(addr string) error {
	g, err := guard.New(redis.NewClient(&redis.Options{Addr: addr}), guard.TTL(holdTTL))
	if err != nil {
		return err
	}
	lease, err := g.Acquire(context.Background(), guard.Key(holdKey))
	if err != nil {
		return err
	}
	fmt.Println(lease.Fence())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// startHolder starts a process that holds the key, and returns its fence.
func startHolder(t *testing.T, server *redistest.Server) (holder *exec.Cmd, fence uint64) {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	holder = exec.CommandContext(t.Context(), binary)
	holder.Env = append(os.Environ(), holdOnEnv+"="+server.Addr())
	_, err = holder.StdinPipe()
	require.NoError(t, err)
	stdout, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	fence, err = strconv.ParseUint(strings.TrimSpace(line), 10, 64)
	require.NoErrorf(t, err, "the holder says %q", line)
	return holder, fence
}

func TestGuard_KilledHolderIsSucceeded(t *testing.T) {
	server := redistest.Start(t)
	g := newGuard(t, server, guard.TTL(holdTTL))
	holder, victimsFence := startHolder(t, server)
	nothing := func(context.Context) error { return nil }
	err := g.WithLock(t.Context(), guard.Key(holdKey), nothing, guard.NoWait())
	require.ErrorIs(t, err, guard.ErrBusy)

	killed := time.Now()
	require.NoError(t, holder.Process.Kill())
	err = g.WithLock(t.Context(), guard.Key(holdKey), func(ctx context.Context) error {
		assert.Less(t, time.Since(killed), holdTTL+time.Second)
		fence, ok := guard.Fence(ctx)
		assert.True(t, ok)
		assert.Greater(t, fence, victimsFence)
		return nil
	})
	require.NoError(t, err)
	assert.Error(t, holder.Wait(), "the holder was not killed")
	requireNoLocksLeft(t, server.Client(t))
}

package inspect_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

// patience is how long a test waits for what must happen.
const patience = 15 * time.Second

func guardOn(t *testing.T, rdb redis.UniversalClient, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.New(rdb, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// deaf is a client of somebody who may not listen to messages.
func deaf(t *testing.T, s *redistest.Server) *redis.Client {
	t.Helper()
	err := s.Client(t).Do(t.Context(), "acl", "setuser", "deaf", "on", ">PASSWORD", "~*", "+@all", "resetchannels").Err()
	require.NoError(t, err)
	return s.Client(t, func(o *redis.Options) { o.Username, o.Password = "deaf", "PASSWORD" })
}

// held is a hold whose work goes on until finish is closed, whatever its context says.
type held struct {
	ctx    context.Context
	finish chan struct{}
	result <-chan error
}

func hold(t *testing.T, g *guard.Guard, key string, opts ...guard.LockOption) held {
	t.Helper()
	begun, result := start(t, g, key, opts...)
	select {
	case h := <-begun:
		h.result = result
		return h
	case err := <-result:
		require.NoError(t, err)
	case <-time.After(patience):
	}
	require.FailNow(t, "not held")
	return held{}
}

func start(t *testing.T, g *guard.Guard, key string, opts ...guard.LockOption) (<-chan held, <-chan error) {
	t.Helper()
	begun, result := make(chan held, 1), make(chan error, 1)
	go func() {
		result <- g.WithLock(context.WithoutCancel(t.Context()), guard.Key(key), func(ctx context.Context) error {
			h := held{ctx: ctx, finish: make(chan struct{})}
			begun <- h
			select {
			case <-h.finish:
			case <-t.Context().Done(): // the test failed
			}
			return nil
		}, opts...)
	}()
	return begun, result
}

// holdBehind has a second caller wait behind a hold of the same Guard, and ends that.
func holdBehind(t *testing.T, g *guard.Guard, key string, first held) held {
	t.Helper()
	begun, result := start(t, g, key)
	require.Eventually(t, func() bool {
		all := g.Leases()
		return len(all) == 1 && all[0].Waiting == 1
	}, patience, time.Millisecond)
	close(first.finish)
	require.NoError(t, <-first.result)
	h := <-begun
	h.result = result
	return h
}

// enters says when a caller that waits got in.
func enters(t *testing.T, g *guard.Guard, key string) <-chan time.Time {
	t.Helper()
	in := make(chan time.Time, 1)
	go func() {
		_ = g.WithLock(t.Context(), guard.Key(key), func(context.Context) error { in <- time.Now(); return nil })
	}()
	return in
}

func awaitWaiting(t *testing.T, i *inspect.Inspector, key string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		info, err := i.Get(t.Context(), key)
		return err == nil && len(info.Waiting) == n
	}, patience, time.Millisecond)
}

func awaitHeld(t *testing.T, i *inspect.Inspector, key string) {
	t.Helper()
	require.Eventually(t, func() bool {
		info, err := i.Get(t.Context(), key)
		return err == nil && len(info.Holders) == 1
	}, patience, time.Millisecond)
}

func fenceOf(t *testing.T, i *inspect.Inspector, key string) uint64 {
	t.Helper()
	info, err := i.Get(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, info.Holders, 1)
	return info.Holders[0].Fence
}

func revoked(t *testing.T, i *inspect.Inspector, key string, fence uint64) {
	t.Helper()
	there, err := i.Revoke(t.Context(), key, fence)
	require.NoError(t, err)
	require.True(t, there)
}

// ended waits for the end of a context.
func ended(t *testing.T, ctx context.Context) {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(patience):
		require.FailNow(t, "the work was not told")
	}
}

func publish(t *testing.T, rdb *redis.Client, owner, message string) {
	t.Helper()
	instance, _, _ := strings.Cut(owner, "-")
	require.NoError(t, rdb.Publish(t.Context(), "guard:grant:"+instance, message).Err())
}

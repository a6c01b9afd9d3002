package guard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
)

type valueKey struct{}

// ending waits until ctx ends, for a minute at most, and returns the cause.
func ending(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
	}
	return context.Cause(ctx)
}

// The caller that leaves, or runs out of time, leaves its work to be done and recorded.
func TestDetached_WorkEndsWithItsLockOnly(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		ctx, leave := context.WithTimeout(context.WithValue(t.Context(), valueKey{}, "kept"), time.Minute)
		v, _, err := guard.Once(ctx, g.Guard, k, time.Hour, func(work context.Context) (int, error) {
			leave()
			_, ends := work.Deadline()
			assert.False(t, ends)
			assert.Equal(t, "kept", work.Value(valueKey{}))
			return 1, work.Err()
		}, guard.Detached())
		require.NoError(t, err)
		assert.Equal(t, 1, v)
		g.replays(1)

		_, _, err = guard.Once(t.Context(), g.Guard, guard.Key("lost"), time.Hour, func(work context.Context) (int, error) {
			g.s.Drop("lost")
			return 0, ending(work)
		}, guard.Detached())
		assert.ErrorIs(t, err, guard.ErrLost)
	})
}

// A failure belongs to the work, also when the caller has left: it is known, and leaves no record.
func TestDetached_FailureAfterTheCallerLeftIsKnown(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		ctx, leave := context.WithCancel(t.Context())
		_, _, err := guard.Once(ctx, g.Guard, k, time.Hour, func(context.Context) (int, error) {
			leave()
			return 0, errBoom
		}, guard.Detached())
		assert.ErrorIs(t, err, errBoom)
		assert.Zero(t, g.runs(1, guard.AtMostOnce()))
	})
}

func TestDetached_TheWaitEndsWithTheCaller(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		lease, err := g.Acquire(t.Context(), k)
		require.NoError(t, err)
		defer func() { assert.NoError(t, lease.Release(t.Context())) }()
		gone := errors.New("gone")
		ctx, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { leave(gone) })
		_, _, err = guard.Once(ctx, g.Guard, k, time.Hour, noRun[int](t), guard.Detached())
		assert.ErrorIs(t, err, gone)
	})
}

// Work under another lock ends with that lock.
func TestDetached_UnderAnotherLock(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		err := g.WithLock(t.Context(), guard.Key("outer"), func(outer context.Context) error {
			_, _, err := guard.Once(outer, g.Guard, k, time.Hour, func(work context.Context) (int, error) {
				g.s.Drop("outer")
				assert.ErrorIs(t, ending(work), guard.ErrLost)
				return 0, nil
			}, guard.Detached())
			return err
		})
		assert.ErrorIs(t, err, guard.ErrLost)
	})
}

// Without Redis, work that FailOpen lets run ends with nothing.
func TestDetached_FailOpen(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		g.s.Fail(errBoom)
		ctx, leave := context.WithCancel(t.Context())
		_, _, err := guard.Once(ctx, g.Guard, k, time.Hour, func(work context.Context) (int, error) {
			leave()
			return 0, work.Err()
		}, guard.Detached(), guard.FailOpen())
		assert.NoError(t, err)
		g.s.Fail(nil)
	})
}

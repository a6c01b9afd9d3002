package task_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// A caller leaves at the end of its context; its call keeps running until the deadline.
func TestDo_LetsItsCallerLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := task.NewGroup()
		parent, cancel := context.WithCancel(t.Context())
		ctx := clock.WithDeadline(parent, time.Now().Add(time.Second))
		defer ctx.Cancel()
		var ended error
		time.AfterFunc(time.Millisecond, cancel)
		begun := time.Now()
		_, err := task.Do(ctx, g, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			ended = ctx.Err()
			return 0, ctx.Err()
		})
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, time.Millisecond, time.Since(begun))
		<-g.Close()
		assert.Equal(t, time.Second, time.Since(begun))
		assert.Equal(t, context.DeadlineExceeded, ended)
	})
}

// An answer that is there counts; a closed group leaves the caller to do it itself.
func TestDo_Answers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := errors.New("failed")
		open, closed := task.NewGroup(), task.NewGroup()
		closed.Close()
		for _, ctx := range []context.Context{t.Context(), context.Background()} {
			for _, g := range []*task.Group{open, closed} {
				got, err := task.Do(ctx, g, func(context.Context) (int, error) { return 7, fail })
				assert.Equal(t, 7, got)
				assert.Equal(t, fail, err)
			}
		}
		<-open.Close()

		left, leave := context.WithCancel(t.Context())
		leave()
		for range 50 { // select chooses at random
			got, err := task.Do(left, closed, func(context.Context) (int, error) { return 7, fail })
			require.Equal(t, 7, got)
			require.Equal(t, fail, err)
		}
	})
}

// A caller that cannot leave needs no goroutine.
func TestDo_ACallerThatCannotLeave(t *testing.T) {
	g := task.NewGroup()
	ctx := clock.WithDeadline(context.Background(), time.Now().Add(time.Minute))
	defer ctx.Cancel()
	idle, err := task.Do(ctx, g, func(context.Context) (bool, error) { return task.IsClosed(g.Close()), nil })
	require.NoError(t, err)
	assert.True(t, idle)
}

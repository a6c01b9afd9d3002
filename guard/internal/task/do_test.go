package task_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/task"
)

// A caller leaves when it is canceled; its call keeps running until the deadline. At the deadline the call has an answer
// of its own, which counts.
func TestDo_LetsItsCallerLeave(t *testing.T) {
	inTime := errors.New("in time")
	for leaves, want := range map[time.Duration]error{time.Millisecond: context.Canceled, time.Hour: inTime} {
		synctest.Test(t, func(t *testing.T) {
			g := task.NewGroup()
			parent, cancel := context.WithCancel(t.Context())
			ctx, end := context.WithTimeout(parent, time.Second)
			defer end()
			time.AfterFunc(leaves, cancel)
			begun := time.Now()
			_, err := task.Do(ctx, g, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				assert.Equal(t, context.DeadlineExceeded, ctx.Err())
				time.Sleep(time.Nanosecond)
				return 0, inTime
			})
			assert.Equal(t, want, err)
			assert.Equal(t, min(leaves, time.Second+1), time.Since(begun))
			<-g.Close()
			assert.Equal(t, time.Second+1, time.Since(begun))
		})
	}
}

// An answer that is there counts; a closed group leaves the caller to do it itself.
func TestDo_Answers(t *testing.T) {
	fail := errors.New("failed")
	open, closed := task.NewGroup(), task.NewGroup()
	closed.Close()
	left, leave := context.WithCancel(t.Context())
	leave()
	answers := func(ctx context.Context, g *task.Group) {
		got, err := task.Do(ctx, g, func(context.Context) (int, error) { return 7, fail })
		require.Equal(t, 7, got)
		require.Equal(t, fail, err)
	}
	answers(t.Context(), open)
	late, end := context.WithTimeout(t.Context(), time.Hour)
	defer end()
	var inner context.Context
	_, err := task.Do(late, open, func(ctx context.Context) (int, error) { inner = ctx; return 0, nil })
	require.NoError(t, err)
	answers(context.Background(), closed)
	for range 50 { // select chooses at random
		answers(left, closed)
	}
	<-open.Close()
	require.Error(t, inner.Err(), "its timer is stopped")
}

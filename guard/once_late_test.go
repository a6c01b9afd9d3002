package guard_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// slowStart takes a second of each caller between the grant and the work.
type slowStart struct{ guard.NopObserver }

func (slowStart) HoldStart(ctx context.Context, _ guard.Lock, _ guard.Hold) context.Context {
	time.Sleep(time.Second)
	return ctx
}

// Work whose context ended before it began does not run, and so nothing is unknown of it.
func TestOnce_WhatCameTooLateNeverBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := guard.NewWithStore(guardtest.NewStore(), guard.Observe(slowStart{}))
		require.NoError(t, err)
		defer func() { _ = g.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, replayed, err := guard.Once(ctx, g, testenv.Order, time.Hour, never[int](t), guard.AtMostOnce())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.False(t, replayed)
		var c charger
		got, replayed, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, c.charge, guard.AtMostOnce())
		require.NoError(t, err)
		assert.False(t, replayed)
		assert.Equal(t, 1, got.ID)
		assert.Zero(t, c.earlier.Load())
	})
}

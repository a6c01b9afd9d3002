package tracing_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// What a record answers in place of the work is counted, by name and error.type.
func TestOnce_WhatARecordAnswersIsCounted(t *testing.T) {
	t.Parallel()
	r := newEnv()
	g := guardtest.NewGuard(t, guard.Observe(r), guard.Name("order"))
	pay := func(input string) error {
		_, _, err := guard.Once(t.Context(), g, guard.Key("order:42"), time.Hour, func(context.Context) (string, error) {
			return "receipt", nil
		}, guard.Fingerprint([]byte(input)), guard.MaxResult(100))
		return err
	}
	for range 3 {
		require.NoError(t, pay("10 EUR"))
	}
	require.ErrorIs(t, pay("99 EUR"), guard.ErrOtherInput)
	points := r.points(t)
	assert.ElementsMatch(t, []point{
		{attributes{"guard.lock.name": "order"}, 2},
		{attributes{"guard.lock.name": "order", "error.type": "once_other_input"}, 1},
	}, points["guard.once.recorded"])
	outcomes := map[any]bool{}
	for _, p := range points["guard.lock.wait.duration"] {
		outcomes[p.Attributes["guard.lock.outcome"]] = true
	}
	assert.Equal(t, map[any]bool{"acquired": true, "recorded": true}, outcomes)
}

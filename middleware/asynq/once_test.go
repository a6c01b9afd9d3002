package guardasynq_test

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

func TestOnce_MisuseIsRefusedAtConstruction(t *testing.T) {
	t.Parallel()
	for want, rule := range map[string]guardasynq.Rule{
		"guard: keep 0s is outside 1ms to 8784h0m0s":                                    orders().Once(0),
		"guard: Wait -1ns is negative":                                                  orders().Once(time.Hour, guard.Wait(-1)),
		"guard: MaxResult 0 bytes is outside 1 to 1048576":                              orders().Once(time.Hour, guard.MaxResult(0)),
		"Once needs one key, And adds others":                                           orders().Once(time.Hour).And("stock"),
		"guard: Limit does not go with Once: one call runs, the others get its result":  orders(guard.Limit(2)).Once(time.Hour),
		"guard: Shared does not go with Once: one call runs, the others get its result": orders().Once(time.Hour, guard.Shared()),
		"no KeyFunc": guardasynq.Rule{}.Once(time.Hour),
	} {
		assert.PanicsWithValue(t, "guardasynq: "+want, func() { guardasynq.Middleware(nil, rule) })
		assert.PanicsWithValue(t, `guardasynq: row "order:": `+want, func() { guardasynq.Annotate(nil, guardasynq.Tasks{"order:": rule}) })
	}
	assert.NotPanics(t, func() { guardasynq.Middleware(nil, orders().Once(0).Once(time.Hour, nil)) })
}

// One key must not acknowledge the work of another type of task.
func TestOnce_AnotherTypeOfTheSamePayloadIsArchived(t *testing.T) {
	t.Parallel()
	mw := guardasynq.Middleware(guardtest.NewGuard(t), orders().Once(time.Hour))
	runs := 0
	work := mw(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { runs++; return nil }))
	for range 2 {
		require.NoError(t, work.ProcessTask(t.Context(), asynq.NewTask("order:charge", []byte(`{"order_id":7}`))))
	}
	err := work.ProcessTask(t.Context(), asynq.NewTask("order:refund", []byte(`{"order_id":7}`)))
	assert.ErrorIs(t, err, guard.ErrOtherInput)
	assert.ErrorIs(t, err, asynq.SkipRetry)
	assert.NotContains(t, err.Error(), "order:7")
	assert.Equal(t, 1, runs)
}

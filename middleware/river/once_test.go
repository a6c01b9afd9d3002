package guardriver_test

import (
	"context"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardriver "github.com/redlatch/redlatch/middleware/river"
)

func TestOnce_AJobThatWasDoneCompletesAndOneOfAnotherKindIsCancelled(t *testing.T) {
	t.Parallel()
	mw := guardriver.Middleware(guardtest.NewGuard(t), orders().Once(time.Hour))
	assert.NoError(t, mw.Work(t.Context(), order7(), func(context.Context) error { return nil }))
	assert.NoError(t, mw.Work(t.Context(), order7(), never))
	other := order7()
	other.Kind = "refund_order"
	err := mw.Work(t.Context(), other, never)
	assert.ErrorIs(t, err, &river.JobCancelError{})
	assert.ErrorIs(t, err, guard.ErrOtherInput)
}

// A job that snoozes itself is not done.
func TestOnce_ASnoozeIsNoSuccess(t *testing.T) {
	t.Parallel()
	mw := guardriver.Middleware(guardtest.NewGuard(t), orders().Once(time.Hour))
	runs := 0
	for range 2 {
		assert.ErrorIs(t, mw.Work(t.Context(), order7(), func(context.Context) error {
			runs++
			return river.JobSnooze(time.Second)
		}), &river.JobSnoozeError{})
	}
	assert.Equal(t, 2, runs)
}

func TestOnce_MisuseIsRefused(t *testing.T) {
	t.Parallel()
	for want, rule := range map[string]guardriver.Rule{
		"guard: keep 8785h0m0s is outside 1ms to 8784h0m0s": orders().Once(8785 * time.Hour),
		"Once needs one key, And adds others":               orders().Once(time.Hour).And("stock"),
	} {
		assert.PanicsWithValue(t, "guardriver: "+want, func() { guardriver.Middleware(nil, rule) })
	}
}

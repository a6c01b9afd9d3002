package tracing

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/redlatch/redlatch/guard"
)

// Neither many keys nor many names make memory grow for ever.
func TestMemory_IsBounded(t *testing.T) {
	o, _ := New(WithTracerProvider(sdktrace.NewTracerProvider())).(*observer)
	ctx, most := t.Context(), 0
	hold := guard.Hold{Fence: 1, Depth: 1}
	for i := range 3 * mostNames {
		l := guard.Lock{Name: fmt.Sprintf("order-%d", i), Key: fmt.Sprintf("order:%d", i)}
		waiting := o.WaitStart(ctx, l)
		most = max(most, len(o.blockers.byKey))
		o.WaitEnd(waiting, l, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1})
		holding := o.HoldStart(ctx, l, hold)
		most = max(most, len(o.blockers.byKey))
		o.HoldEnd(holding, l, guard.HoldResult{Hold: hold, Outcome: guard.OutcomeReleased})
		l.Key = fmt.Sprintf("held by another process:%d", i)
		o.WaitEnd(o.WaitStart(ctx, l), l, guard.WaitResult{Outcome: guard.OutcomeTimeout, Queued: true, Err: guard.ErrBusy})
	}
	assert.Equal(t, 1, most)
	assert.Empty(t, o.blockers.byKey)
	assert.Len(t, o.labels.all(), mostNames+1)
	assert.Equal(t, "order-0", o.labels.of(guard.Lock{Name: "order-0"}).name)
	assert.Equal(t, otherName, o.labels.of(guard.Lock{Name: "new"}).name)
}

func TestMemory_ObstaclesOfManyAtATime(t *testing.T) {
	o, _ := New(WithTracerProvider(sdktrace.NewTracerProvider())).(*observer)
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for j := range 500 {
				l := guard.Lock{Name: fmt.Sprint(i % 3), Key: fmt.Sprint(j % 3)}
				waiting := o.WaitStart(context.Background(), l)
				holding := o.HoldStart(context.Background(), l, guard.Hold{Depth: 1})
				o.WaitEnd(waiting, l, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1, Queued: true})
				o.HoldEnd(holding, l, guard.HoldResult{Hold: guard.Hold{Depth: 1}, Outcome: guard.OutcomeReleased})
			}
		})
	}
	callers.Wait()
	assert.Empty(t, o.blockers.byKey)
}

package tracing_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
)

// The end of a hold is told late: after that of the one behind it, and when somebody waits for the
// key anew. What is in the way of that wait is linked to all the same.
func TestBlockerLate_AnEndThatIsToldLate(t *testing.T) {
	r := newEnv()
	lock := guard.Lock{Name: "order", Key: "order"}
	begin := guard.Hold{Depth: 1}
	over := guard.HoldResult{Hold: begin, Outcome: guard.OutcomeReleased}

	first := r.HoldStart(t.Context(), lock, begin)
	second := r.HoldStart(t.Context(), lock, begin)
	r.HoldEnd(second, lock, over)
	waits := r.WaitStart(t.Context(), lock)
	r.HoldEnd(first, lock, over)
	third := r.HoldStart(t.Context(), lock, begin)
	r.WaitEnd(waits, lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1, Queued: true})
	r.HoldEnd(third, lock, over)

	links := r.the(t, "acquire order").Links()
	require.Len(t, links, 1)
	assert.Equal(t, trace.SpanContextFromContext(third), links[0].SpanContext)
}

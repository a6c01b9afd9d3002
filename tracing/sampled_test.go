package tracing_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/tracing"
)

// unsampledHolds records the spans of holds, and samples those of waits only.
type unsampledHolds struct{ sdktrace.Sampler }

func (unsampledHolds) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	decision := sdktrace.RecordAndSample
	if strings.HasPrefix(p.Name, "hold ") {
		decision = sdktrace.RecordOnly
	}
	return sdktrace.SamplingResult{Decision: decision, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
}

// A span that is recorded and not sampled is exported by nobody: a link to it would lead nowhere.
func TestSampled_NoLinkToAHoldThatIsNotSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(
			sdktrace.WithSampler(unsampledHolds{sdktrace.AlwaysSample()}), sdktrace.WithSpanProcessor(spans))
		observer := tracing.New(tracing.WithTracerProvider(provider))
		g, err := guard.NewWithStore(guardtest.NewStore(), guard.Observe(observer), guard.Name("order"))
		require.NoError(t, err)
		defer g.Close()
		hold := waitBehind(t, g, t.Context(), t.Context())
		require.True(t, hold.IsValid())
		require.False(t, hold.IsSampled())
		waits := 0
		for _, span := range spans.Ended() {
			if span.Name() == "acquire order" {
				waits++
				assert.Empty(t, span.Links())
			}
		}
		assert.Equal(t, 2, waits)
	})
}

package tracing_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/tracing"
)

// Two Guards on one Redis, as in two processes: however a lock gets from one caller to
// the next, every wait and every hold is told of, and who knows what it waited for links
// to that.
func TestRedis_ContentionOnRedis(t *testing.T) {
	t.Parallel()
	const guards, callers, rounds = 2, 4, 10
	server := redistest.Shared(t)
	key := guard.Keyf("tracing:%s", t.Name())
	envs := make([]*env, guards)
	var all sync.WaitGroup
	for i := range envs {
		envs[i] = newEnv()
		g, err := guard.New(server.Client(t), guard.Observe(envs[i]), guard.Name("order"))
		require.NoError(t, err)
		defer g.Close()
		for range callers {
			all.Go(func() {
				for range rounds {
					ctx, caller := envs[i].caller(t.Context())
					assert.NoError(t, g.WithLock(ctx, key, func(ctx context.Context) error {
						_, own := envs[i].tracers.Tracer("test").Start(ctx, "charge")
						own.End()
						return nil
					}, tracing.Metadata(ctx, fmt.Sprintf("guard-%d", i))))
					caller.End()
				}
			})
		}
	}
	all.Wait()

	known := map[trace.TraceID]bool{} // the traces of holders
	for _, r := range envs {
		for _, hold := range r.named("hold order") {
			known[hold.SpanContext().TraceID()] = true
		}
	}
	queued, named, linked := 0, 0, 0
	for _, r := range envs {
		waits, holds := r.named("acquire order"), r.named("hold order")
		require.Len(t, waits, callers*rounds)
		require.Len(t, holds, callers*rounds)
		for _, wait := range waits {
			if attributesOf(wait.Attributes())["guard.lock.queued"] != true {
				assert.Empty(t, wait.Links())
				continue
			}
			queued++
			linked += len(wait.Links())
			for _, link := range wait.Links() {
				assert.True(t, known[link.SpanContext.TraceID()])
				assert.NotEqual(t, wait.SpanContext().TraceID(), link.SpanContext.TraceID())
			}
			// Who queued up without asking Redis may never learn who held the lock.
			if holder, ok := attributesOf(wait.Attributes())[holderText]; ok {
				named++
				assert.Regexp(t, `^guard-\d$`, holder)
			}
		}
		points := r.points(t)
		assert.Equal(t, []point{{onceAcquired[0].Attributes, callers * rounds}}, points["guard.lock.wait.duration"])
		assert.Equal(t, []point{{onceReleased[0].Attributes, callers * rounds}}, points["guard.lock.hold.duration"])
		assert.Equal(t, none, points["guard.lock.active"])
		assert.Equal(t, none, points["guard.lock.waiting"])
	}
	assert.Positive(t, queued, "nobody contended")
	assert.Positive(t, named, "nobody learned who was in the way")
	assert.Positive(t, linked, "nobody saw what was in the way")
}

package guardasynq_test

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// A task has a deadline, as asynq's servers set one for each.
func BenchmarkMiddleware(b *testing.B) {
	g := guardtest.NewMemoryGuard(b)
	byHand := asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		return g.WithLock(ctx, guard.Key("order:7"), func(ctx context.Context) error { return succeed(ctx, t) })
	})
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	for name, handler := range map[string]asynq.Handler{"by hand": byHand, "Middleware": lockOrders(g)(asynq.HandlerFunc(succeed))} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			t := task()
			for b.Loop() {
				if err := handler.ProcessTask(ctx, t); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package guardasynq_test

import (
	"context"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

// The difference between the two is what the middleware costs.
func BenchmarkMiddleware(b *testing.B) {
	g := guardtest.NewGuard(b)
	task := task()
	handlers := map[string]asynq.Handler{
		"by hand": asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
			return g.WithLock(ctx, guard.Key("order:7"), func(context.Context) error { return nil })
		}),
		"middleware": guardasynq.Middleware(g, guardasynq.Key("order:{order_id}"))(asynq.HandlerFunc(succeed)),
	}
	for name, h := range handlers {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := h.ProcessTask(b.Context(), task); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

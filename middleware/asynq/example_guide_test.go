package guardasynq_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

// handlers stands for the handlers of a program.
func handlers(g *guard.Guard) *asynq.ServeMux {
	tasks := asynq.NewServeMux()
	tasks.Use(guardasynq.Middleware(g, guardasynq.Lock("order:{order_id}")))
	tasks.HandleFunc("order:charge", func(context.Context, *asynq.Task) error { return nil })
	return tasks
}

// The test in docs/guides/asynq.md.
func TestGuide_ABusyTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.NewMemoryGuard(t)
		lease, err := g.Acquire(t.Context(), guard.Key("order:42")) // another task has it
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release(t.Context())
		err = handlers(g).ProcessTask(t.Context(), asynq.NewTask("order:charge", []byte(`{"order_id":42}`)))
		if !errors.Is(err, guard.ErrBusy) {
			t.Errorf("got %v, want a busy lock", err)
		}
	})
}

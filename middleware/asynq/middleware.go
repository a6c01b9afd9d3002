package guardasynq

import (
	"context"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
)

// Middleware runs handlers under the lock that key names. With a nil g, the Guard in
// the task's context (see asynq.Config.BaseContext) locks, or else the one given to
// guard.SetDefault. The lock's Name is the type of the task if With sets none, and its
// Wait is 1 second if neither With nor the Guard set one. What it returns when the
// handler did not run is in the package comment.
//
// It panics if key is nil or an option is out of its bounds. What it returns may be used
// with ServeMux.Use or around any number of handlers.
func Middleware(g *guard.Guard, key KeyFunc, opts ...Option) asynq.MiddlewareFunc {
	c, err := newConfig(g, key, opts)
	if err != nil {
		panic("guardasynq: " + err.Error())
	}
	// Asynq calls this for every task: it must be nothing but a closure.
	return func(next asynq.Handler) asynq.Handler {
		refuseNil(next)
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
			return c.process(ctx, t, t.Type(), next)
		})
	}
}

func refuseNil(next asynq.Handler) {
	if f, ok := next.(asynq.HandlerFunc); next == nil || ok && f == nil {
		panic("guardasynq: no handler")
	}
}

func (c *config) process(ctx context.Context, t *asynq.Task, name string, next asynq.Handler) error {
	ctx = c.policy.Context(ctx)
	for _, skip := range c.skip {
		if skip(ctx, t) {
			return next.ProcessTask(ctx, t)
		}
	}
	r := run{config: c, name: name, task: t, next: next}
	own, err := r.do(ctx)
	if err != nil {
		return c.onError(ctx, t, c.strategy.decide(err))
	}
	return own
}

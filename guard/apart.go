package guard

import (
	"context"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// carrier sends a Guard's commands, for callers that may leave: a call returns at the end
// of leave at the latest, and done is called when the command is answered, or failed. A
// Guard's callers have a leave, whether it ends or not; with a nil one done is called before
// the call returns. The end of ctx is its deadline alone.
// done must not block. Its error is task.ErrLeft if the caller's leaving ended the command.
type carrier interface {
	StartAcquire(ctx, leave context.Context, c guardstore.Claim, done func(guardstore.ClaimReply, error))
	StartSetDepth(ctx, leave context.Context, t guardstore.Grant, done func(bool, error))
	StartRelease(ctx, leave context.Context, r guardstore.Release, done func(guardstore.ReleaseReply, error))
}

// spawner is the carrier of a Store that knows nothing of that: each command that is to
// go apart has a goroutine.
type spawner struct {
	store guardstore.Store
	tasks *task.Group
}

func (s spawner) StartAcquire(ctx, leave context.Context, c guardstore.Claim, done func(guardstore.ClaimReply, error)) {
	spawn(ctx, s.tasks, leave != nil, done, func(ctx context.Context) (guardstore.ClaimReply, error) { return s.store.Acquire(ctx, c) })
}

func (s spawner) StartSetDepth(ctx, leave context.Context, t guardstore.Grant, done func(bool, error)) {
	spawn(ctx, s.tasks, leave != nil, done, func(ctx context.Context) (bool, error) { return s.store.SetDepth(ctx, t) })
}

func (s spawner) StartRelease(ctx, leave context.Context, r guardstore.Release, done func(guardstore.ReleaseReply, error)) {
	spawn(ctx, s.tasks, leave != nil, done, func(ctx context.Context) (guardstore.ReleaseReply, error) { return s.store.Release(ctx, r) })
}

func spawn[T any](ctx context.Context, b *task.Group, apart bool, done func(T, error), call func(context.Context) (T, error)) {
	deadline, _ := ctx.Deadline()
	run := func() {
		ctx, cancel := context.WithDeadline(ctx, deadline) // a Store may wait for its end
		defer cancel()
		done(call(ctx))
	}
	// A closed Guard joins nobody any more: then, too, the caller carries it.
	if !apart || !b.Go(run) {
		run()
	}
}

// newCall makes a call of a Guard.
func newCall[T any](g *Guard, op string, lock Lock, slots *retry.Slots[T], send retry.Sender[T]) *retry.Call[T] {
	return retry.NewCall(&g.calls, op, retry.Label(lock), slots, send)
}

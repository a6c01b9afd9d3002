package guard

import "context"

// carrier sends a Guard's commands, for callers that may leave: a call returns at the end
// of leave at the latest, and done is called when the command is answered, or failed. A
// Guard's callers have a leave, whether it ends or not; with a nil one done is called before
// the call returns. The end of ctx is its deadline alone.
// done must not block. Its error is errLeft if the caller's leaving ended the command.
type carrier interface {
	acquire(ctx, leave context.Context, c Claim, done func(ClaimReply, error))
	setDepth(ctx, leave context.Context, t Tenure, done func(bool, error))
	release(ctx, leave context.Context, r Release, done func(ReleaseReply, error))
}

// spawner is the carrier of a Store that knows nothing of that: each command that is to
// go apart has a goroutine.
type spawner struct {
	store      Store
	background *background
}

func (s spawner) acquire(ctx, leave context.Context, c Claim, done func(ClaimReply, error)) {
	spawn(ctx, s.background, leave != nil, done, func(ctx context.Context) (ClaimReply, error) { return s.store.Acquire(ctx, c) })
}

func (s spawner) setDepth(ctx, leave context.Context, t Tenure, done func(bool, error)) {
	spawn(ctx, s.background, leave != nil, done, func(ctx context.Context) (bool, error) { return s.store.SetDepth(ctx, t) })
}

func (s spawner) release(ctx, leave context.Context, r Release, done func(ReleaseReply, error)) {
	spawn(ctx, s.background, leave != nil, done, func(ctx context.Context) (ReleaseReply, error) { return s.store.Release(ctx, r) })
}

func spawn[T any](ctx context.Context, b *background, apart bool, done func(T, error), call func(context.Context) (T, error)) {
	deadline, _ := ctx.Deadline()
	run := func() {
		ctx, cancel := context.WithDeadline(ctx, deadline) // a Store may wait for its end
		defer cancel()
		done(call(ctx))
	}
	// A closed Guard joins nobody any more: then, too, the caller carries it.
	if !apart || !b.spawn(run) {
		run()
	}
}

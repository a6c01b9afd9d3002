package guard

import "context"

// carrier sends a Guard's commands. With apart, a call returns at once and done is called
// later; without, before the call returns. The end of ctx is its deadline alone. done
// must not block.
type carrier interface {
	acquire(ctx context.Context, apart bool, c Claim, done func(ClaimReply, error))
	setDepth(ctx context.Context, apart bool, t Tenure, done func(bool, error))
	release(ctx context.Context, apart bool, r Release, done func(ReleaseReply, error))
}

// spawner is the carrier of a Store that knows nothing of that: each command that is to
// go apart has a goroutine.
type spawner struct {
	store      Store
	background *background
}

func (s spawner) acquire(ctx context.Context, apart bool, c Claim, done func(ClaimReply, error)) {
	spawn(ctx, s.background, apart, done, func(ctx context.Context) (ClaimReply, error) { return s.store.Acquire(ctx, c) })
}

func (s spawner) setDepth(ctx context.Context, apart bool, t Tenure, done func(bool, error)) {
	spawn(ctx, s.background, apart, done, func(ctx context.Context) (bool, error) { return s.store.SetDepth(ctx, t) })
}

func (s spawner) release(ctx context.Context, apart bool, r Release, done func(ReleaseReply, error)) {
	spawn(ctx, s.background, apart, done, func(ctx context.Context) (ReleaseReply, error) { return s.store.Release(ctx, r) })
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

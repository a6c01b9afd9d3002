package guard

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/retry"
)

// Ping says whether locks can be taken: a probe of readiness. It sends the store a command
// that changes nothing, by the same way as those of locks: Redis, its scripts, the right to write,
// on a cluster one of the nodes, of a quorum a majority. It returns nil, ErrNoGuard,
// ErrClosed, a StoreError when there is no answer within StoreTimeout or it is a refusal,
// or the error of ctx. A nil ctx does not end.
func (g *Guard) Ping(ctx context.Context) error { //nolint:contextcheck // a nil ctx has no parent
	if !g.made() {
		return ErrNoGuard
	}
	if err := g.checkSide(clock.Now()); err != nil {
		return err
	}
	if ctx == nil {
		ctx = context.Background()
	}
	stop, open := g.inside.Enter(false)
	if !open {
		return ErrClosed
	}
	defer g.inside.Leave()
	lock := Lock{Name: g.lock.nameFor(nil), Key: "ping:" + g.instance}
	err := g.probe(ctx, retry.Call{Op: "ping", Label: retry.Label(lock), For: g.storeTimeout, Stop: stop}, 0)
	var failure *retry.Error
	switch {
	case errors.Is(err, retry.ErrStopped):
		return ErrClosed
	case err != nil && ctx.Err() != nil:
		return ended(ctx)
	case errors.As(err, &failure):
		return storeError(failure, "")
	}
	return nil
}

// probe sends a command that changes nothing, in the same way as those of locks: it releases a claim that never was.
func (g *Guard) probe(ctx context.Context, c retry.Call, ttl time.Duration) error {
	r := guardstore.Release{Key: c.Label.Key, Owner: g.cohorts.NewOwner(guardstore.Exclusive), TTL: ttl}
	_, err := retry.Do(ctx, g.cohorts.Calls, c, g.store.Release, r)
	return err
}

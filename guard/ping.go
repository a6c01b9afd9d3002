package guard

import (
	"context"
	"errors"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/retry"
)

// Ping says whether locks can be had: a probe of readiness. It asks the store for something
// that changes nothing, by the way that locks take: Redis, its scripts, the right to write,
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
	stop, open := g.gate.Enter(false)
	if !open {
		return ErrClosed
	}
	defer g.gate.Leave()
	// A claim that never was is given up.
	r := guardstore.Release{Key: "ping:" + g.instance, Owner: g.cohorts.NewOwner(guardstore.Exclusive)}
	call := retry.NewCall(&g.calls, "ping", retry.Label{Name: g.lock.nameFor(nil), Key: r.Key}, g.store.Release, r)
	_, err := call.Run(ctx, stop, call.Begun.Add(g.storeTimeout))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, retry.ErrStopped):
		return ErrClosed
	case ctx.Err() != nil:
		return ended(ctx)
	}
	return storeError(call.Failure(err), "")
}

package guard

import (
	"context"
	"errors"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/cohort"
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
	err := g.cohorts.Probe(ctx, "ping", retry.Label(lock), 0, stop, g.storeTimeout)
	var failure *retry.Error
	switch {
	case errors.Is(err, cohort.ErrClosed):
		return ErrClosed
	case err != nil && ctx.Err() != nil:
		return ended(ctx)
	case errors.As(err, &failure):
		return storeError(failure, "")
	}
	return nil
}

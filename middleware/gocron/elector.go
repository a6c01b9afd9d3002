package guardgocron

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/go-co-op/gocron/v2"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/guardhook"
)

// ErrNotLeader is the error of an Elector's IsLeader while another instance leads, or no
// instance does.
var ErrNotLeader = errors.New("guardgocron: this instance does not lead")

// Elector is a gocron.Elector for gocron.WithDistributedElector: of all instances with the
// same key, one runs the jobs. It stands for election in the background (see
// guard.Guard.Lead) until ctx ends; then it gives the lead to the next instance. After a
// crash, another instance leads within the ttl.
//
// IsLeader answers from memory, and says no before another instance can lead. If Lead
// ended, because of a bad key or a closed Guard, the error of IsLeader also matches the
// error of Lead.
//
// Gocron asks when a job is due. It does not tell a running job that its instance has lost
// the lead: if the job can run for longer than a tick, make it with Task, too. Ticks without
// a leader are lost.
//
// A nil g stands for the Guard in ctx, or else that of guard.SetDefault. Elector panics if
// key is nil or one of opts is out of its bounds. End ctx before you shut down the Guard.
func Elector(ctx context.Context, g *guard.Guard, key guard.KeyFunc, opts ...guard.LockOption) gocron.Elector {
	if key == nil {
		panic("guardgocron: no KeyFunc")
	}
	mustCheck(opts)
	opts = slices.Clone(opts)
	if g == nil {
		g = guardhook.GuardFor(ctx).(*guard.Guard) //nolint:forcetypeassert // it returns nothing else
	}
	e := new(elector)
	go func() {
		err := g.Lead(ctx, key, e.serve, opts...)
		err = fmt.Errorf("%w: %w", ErrNotLeader, err)
		e.ended.Store(&err)
	}()
	return e
}

type elector struct {
	term  atomic.Pointer[term]
	ended atomic.Pointer[error] // set when Lead has ended
}

type term struct {
	ctx   context.Context //nolint:containedctx // IsLeader is called from elsewhere
	lease *guard.Lease
}

// serve is one term. It returns when the term has ended.
func (e *elector) serve(ctx context.Context) error {
	lease, _ := guard.FromContext(ctx)
	e.term.Store(&term{ctx, lease})
	<-ctx.Done()
	return nil
}

// IsLeader implements gocron.Elector.
func (e *elector) IsLeader(context.Context) error {
	if t := e.term.Load(); t != nil && t.ctx.Err() == nil && t.lease.Err() == nil {
		return nil
	}
	if ended := e.ended.Load(); ended != nil {
		return *ended
	}
	return ErrNotLeader
}

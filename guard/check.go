package guard

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/cohort"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// revoked is for the message that somebody stepped in on a hold of this Guard, see package
// inspect. The store is asked at once: the message alone ends nothing.
func (g *Guard) revoked(t *watchdog.Grant) {
	c := g.newCheck(g.lockOf(t), t)
	// Nothing else tells a FixedLease: it insists.
	reply, err := c.Run(context.Background(), g.abort, g.watchdog.Deadline(t))
	if err == nil && !reply.Held {
		g.watchdog.End(t, ErrRevoked)
	}
}

// newCheck asks the store whether a grant is held. It moves no expiry.
func (g *Guard) newCheck(lock Lock, t *watchdog.Grant) *retry.Call[guardstore.Grant, guardstore.RenewReply] {
	request := g.watchdog.Request(t)
	request.TTL = time.Millisecond
	return retry.NewCall(&g.calls, "check", retry.Label(lock), g.renew, request)
}

func (g *Guard) renew(ctx context.Context, one guardstore.Grant) (guardstore.RenewReply, error) {
	reply := g.store.Renew(ctx, []guardstore.Grant{one})[0]
	return reply, reply.Err
}

// Check asks the store now whether the hold is still there, and so finds out sooner than
// the next renewal would: before a step that cannot be taken back, say. It returns nil, or
// the LostError of the hold, whose context is over then. A lease that was released is a
// LostError with ErrReleased. When the store does not answer within StoreTimeout it is a
// StoreError, and the hold goes on; when ctx ends first, its error. A nil ctx does not end.
func (l *Lease) Check(ctx context.Context) error { //nolint:contextcheck // a nil ctx has no parent
	if err := l.Err(); err != nil {
		return err
	}
	if ctx == nil {
		ctx = context.Background()
	}
	h := l.hold
	c := h.g.newCheck(h.lock, h.Grant)
	reply, err := c.Run(ctx, h.g.gate.Closed(), c.Begun.Add(h.g.storeTimeout))
	switch {
	case err == nil && !reply.Held:
		h.g.watchdog.End(h.Grant, watchdog.NotHeld(reply))
	case err == nil:
	case l.Err() != nil: // it is over, whatever kept the answer away
	case ctx.Err() != nil:
		return ended(ctx)
	default:
		return storeError(c.Failure(err), h.lock.Name)
	}
	return l.Err()
}

// lockOf is what a grant's holder calls it.
func (g *Guard) lockOf(t *watchdog.Grant) Lock {
	for _, one := range cohort.Holders(g.watchdog.HolderOf(t)) {
		if h, ok := one.(*hold); ok {
			return h.lock
		}
	}
	return Lock{Name: DefaultName, Key: t.Claim.Key}
}

package cohort

import (
	"context"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

const checkOp = "check"

// CheckCall asks the store whether a grant is held.
type CheckCall = retry.Call[guardstore.Grant, guardstore.RenewReply]

// NewCheck makes a call that asks whether a grant is held, now. It moves no expiry.
func (t *Table) NewCheck(label retry.Label, g *watchdog.Grant) *CheckCall {
	request := t.Watchdog.Request(g)
	request.TTL = 0
	return retry.NewCall(t.Calls, checkOp, label, t.renew, request)
}

// renew asks for one grant.
func (t *Table) renew(ctx context.Context, one guardstore.Grant) (guardstore.RenewReply, error) {
	reply := t.Store.Renew(ctx, []guardstore.Grant{one})[0]
	return reply, reply.Err
}

// checkRevoked is for a grant on which somebody is said to have stepped in. The store is asked
// at once: the message alone ends nothing.
func (t *Table) checkRevoked(g *watchdog.Grant) {
	c := t.NewCheck(t.labelOf(g), g)
	// Nothing else tells a FixedLease: it insists.
	reply, err := c.Run(context.Background(), t.Abort, t.Watchdog.Deadline(g))
	if err == nil && !reply.Held {
		t.Watchdog.End(g, watchdog.ErrRevoked)
	}
}

// labelOf is what a grant's holder calls it. It has no name while nobody holds it.
func (t *Table) labelOf(g *watchdog.Grant) retry.Label {
	for _, one := range Holders(t.Watchdog.HolderOf(g)) {
		if h, ok := one.(Holder); ok {
			return h.Label()
		}
	}
	return retry.Label{Key: g.Claim.Key}
}

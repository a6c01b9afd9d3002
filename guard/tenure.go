package guard

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
)

var (
	errNotHeld    = errors.New("no longer held in the store")
	errNotRenewed = errors.New("not renewed in time")
)

// tenure is a claim that holds its key, as the watchdog sees it.
type tenure struct {
	claim guardstore.Claim
	fence uint64
	ahead bool          // of the clock of the store, which would mint the next one, too
	bury  bool          // an acquire of this owner may still be on its way
	fixed bool          // never renewed
	begun clock.Instant // when the store's word arrived
	depth atomic.Int64  // the hash counter as it should be

	denied atomic.Pointer[error] // why the store does not know it any more, found out between two holders

	// Guarded by watchdog.mu while it is watched; else they belong to whoever has it.
	holder    holder
	metadata  string        // of whoever works under it
	deadline  clock.Instant // until when the tenure is certain
	holdUntil clock.Instant // MaxHold; 0 = none
	renewAt   clock.Instant
	renewing  bool
	lastErr   error
	cause     error         // why it is over, unless it was dropped
	ended     clock.Instant // when the latest work under it had; 0 = none has
	index     int           // in the heap; -1 = not watched
}

// holder is told what becomes of a tenure.
type holder interface {
	lost(cause error) // at most once, and not after the tenure was dropped
	event(e Event)
}

// newTenure makes a tenure of a claim and its answer, ClaimHeld.
func newTenure(c guardstore.Claim, r guardstore.ClaimReply, sent clock.Instant, bury, fixed bool) *tenure {
	if r.Owner != "" {
		c.Owner = r.Owner
	}
	return &tenure{
		claim: c, fence: r.Fence, ahead: r.FenceAhead, bury: bury, fixed: fixed, begun: clock.Now(),
		deadline: trustedUntil(sent, c.TTL), renewAt: sent.Add(c.TTL / 3), index: -1,
	}
}

// trustedUntil gives the end of what a command that was sent at sent can promise: a tenth
// less than the ttl, for clocks that do not run alike. chrony slews one by 83,333 ppm at most.
func trustedUntil(sent clock.Instant, ttl time.Duration) clock.Instant {
	return sent.Add(ttl - ttl/10 - 2*time.Millisecond)
}

// next is when the watchdog has to look at the tenure.
func (t *tenure) next() clock.Instant {
	next := t.deadline
	if t.holdUntil > 0 {
		next = min(next, t.holdUntil)
	}
	if !t.fixed && !t.renewing {
		next = min(next, t.renewAt)
	}
	return next
}

func (t *tenure) renewalDue(at clock.Instant) bool {
	return !t.fixed && !t.renewing && t.renewAt <= at
}

// slack lets renewals that are due soon go out with those that are due now.
func (t *tenure) slack() time.Duration {
	return min(t.claim.TTL/60, watchdogPulse)
}

// verdict gives the reason for which a tenure is over, if it is: the one it was ended
// with, or what the clock says. It needs watchdog.mu.
func (t *tenure) verdict(at clock.Instant) error {
	if t.index < 0 {
		return t.cause
	}
	return t.overBy(at)
}

// overBy gives the reason for which a tenure is over at an instant, if it is. It needs
// watchdog.mu.
func (t *tenure) overBy(at clock.Instant) error {
	switch {
	case t.holdUntil > 0 && at >= t.holdUntil, t.fixed && at >= t.deadline:
		return ErrMaxHold
	case at >= t.deadline && t.lastErr != nil:
		// As text only: a lost lease must not match the errors of a call that failed.
		return fmt.Errorf("%w: %s", errNotRenewed, t.lastErr.Error())
	case at >= t.deadline:
		return errNotRenewed
	}
	return nil
}

func (t *tenure) release(fence uint64) guardstore.Release {
	return guardstore.Release{Key: t.claim.Key, Owner: t.claim.Owner, Fence: fence, TTL: t.claim.TTL, Tombstone: t.bury}
}

func (t *tenure) request() guardstore.Grant {
	return guardstore.Grant{
		Key: t.claim.Key, Owner: t.claim.Owner, Fence: t.fence,
		TTL: t.claim.TTL, Depth: int(t.depth.Load()), Metadata: t.metadata,
	}
}

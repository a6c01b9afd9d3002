package watchdog

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
)

// Why a grant ended, besides the cause that End was given.
var (
	ErrNotHeld = errors.New("no longer held in the store")
	ErrRevoked = errors.New("revoked in the store")
	ErrMaxHold = errors.New("held for as long as it may be")

	errNotRenewed = errors.New("not renewed in time")
)

// Grant is a claim that holds its key, as the watchdog sees it.
type Grant struct {
	Claim      guardstore.Claim
	Fence      uint64
	FenceAhead bool          // of the clock of the store, which would mint the next one, too
	Tombstone  bool          // an acquire of this owner may still be on its way
	Earlier    uint64        // see guardstore.ClaimReply
	Begun      clock.Instant // when the store's reply arrived

	depth atomic.Int64 // the hash counter as it should be

	// Guarded by Watchdog.mu while it is watched; else they belong to the goroutine that has the grant.
	holders   []Holder      // of the work under it
	one       [1]Holder     // memory for them: nearly always there is one
	metadata  string        // of the first work under it
	deadline  clock.Instant // until when the grant is certain
	holdUntil clock.Instant // MaxHold; 0 = none
	renewAt   clock.Instant // when it is due
	renewing  bool
	lastErr   error
	cause     error         // why it ended, for good; nil = it is not, as far as is known
	ended     clock.Instant // when the latest work under it ended; 0 = there was none
	index     int           // in the heap; -1 = not watched
}

// Holder is the work under a grant. It is notified of what becomes of the grant.
type Holder interface {
	// Cut ends the work under the grant, and does not block. It is not called after Drop. The first
	// call that ends the work returns true: then ReportLoss is called, which may block.
	Cut(cause error) (first bool)
	ReportLoss()
	Renewed(err error) // after each renewal; an error says that its outcome is not known
}

// NewGrant makes a grant of a claim and its reply, ClaimHeld.
func NewGrant(c guardstore.Claim, r guardstore.ClaimReply, sent clock.Instant, tombstone bool) Grant {
	if r.Owner != "" {
		c.Owner = r.Owner
	}
	return Grant{
		Claim: c, Fence: r.Fence, FenceAhead: r.FenceAhead, Earlier: r.Earlier, Tombstone: tombstone, Begun: clock.Now(),
		deadline: trustedUntil(sent, c.TTL), renewAt: sent.Add(c.TTL / 3), index: -1,
	}
}

// trustedUntil is the deadline that a command gives which was sent at sent: a tenth
// less than the ttl, as two clocks differ. chrony slews a clock by 83,333 ppm at most.
func trustedUntil(sent clock.Instant, ttl time.Duration) clock.Instant {
	return sent.Add(ttl - ttl/10 - 2*time.Millisecond)
}

// Depth is the hash counter as it should be.
func (t *Grant) Depth() int { return int(t.depth.Load()) }

// SetDepth is for the holder of the grant. The next renewal writes it to the store.
func (t *Grant) SetDepth(depth int) { t.depth.Store(int64(depth)) }

// Deadline is the deadline of a grant that is not watched. For a watched grant ask the
// Watchdog.
func (t *Grant) Deadline() clock.Instant { return t.deadline }

// Ended is when the latest work under a grant ended that is not watched; 0 = there was none.
func (t *Grant) Ended() clock.Instant { return t.ended }

// next is when the watchdog has to look at the grant.
func (t *Grant) next() clock.Instant {
	next := t.deadline
	if t.holdUntil > 0 {
		next = min(next, t.holdUntil)
	}
	if !t.renewing {
		next = min(next, t.renewAt)
	}
	return next
}

func (t *Grant) renewalDue(at clock.Instant) bool {
	return !t.renewing && t.renewAt <= at
}

// slack lets renewals that are due soon go out with those that are due now.
func (t *Grant) slack() time.Duration {
	return min(t.Claim.TTL/60, pulse)
}

// endedBy gives the reason why a grant ended, if it did: the cause that ended it,
// or the clock. It needs Watchdog.mu.
func (t *Grant) endedBy(at clock.Instant) error {
	if t.index < 0 {
		return t.cause
	}
	return t.expiredBy(at)
}

// expiredBy gives the reason why a grant is expired at an instant, if it is. It needs
// Watchdog.mu.
func (t *Grant) expiredBy(at clock.Instant) error {
	switch {
	case t.holdUntil > 0 && at >= t.holdUntil:
		return ErrMaxHold
	case at >= t.deadline && t.lastErr != nil:
		// As text only: a lost lease must not match the errors of a call that failed.
		return fmt.Errorf("%w: %s", errNotRenewed, t.lastErr.Error())
	case at >= t.deadline:
		return errNotRenewed
	}
	return nil
}

// Release is the command that releases the grant, with the highest fence that a holder got.
func (t *Grant) Release(fence uint64) guardstore.Release {
	return guardstore.Release{
		Key: t.Claim.Key, Owner: t.Claim.Owner, Fence: fence, TTL: t.Claim.TTL, Tombstone: t.Tombstone, Limit: t.Claim.Limit,
	}
}

// Request is the grant as commands to the store name it. The grant is not watched, or the caller holds it.
// Its depth is 1 at least, also before and after its work: a hold of depth 0 is one that was released, and is
// kept for its MinHold.
func (t *Grant) Request() guardstore.Grant {
	request := guardstore.Grant{
		Key: t.Claim.Key, Owner: t.Claim.Owner, Fence: t.Fence,
		TTL: t.Claim.TTL, Depth: max(1, t.Depth()), Metadata: t.metadata, Limit: t.Claim.Limit,
	}
	if t.Claim.Once != nil {
		request.Keep = t.Claim.Once.Keep
	}
	return request
}

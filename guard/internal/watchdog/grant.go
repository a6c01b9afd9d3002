package watchdog

import (
	"errors"
	"fmt"
	"slices"
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

	watchdog *Watchdog
	depth    atomic.Int64 // the hash counter as it should be

	// Guarded by Watchdog.mu.
	holders   []Holder      // of the work under it
	one       [1]Holder     // memory for them: nearly always there is one
	metadata  string        // of the first work under it
	deadline  clock.Instant // until when the grant is certain
	holdUntil clock.Instant // MaxHold of the present holder; 0 = none
	renewAt   clock.Instant // when it is due
	renewing  bool
	lastErr   error
	cause     error         // why it ended, for good; nil if that is not known
	ended     clock.Instant // when the latest work under it ended; 0 = there was none
}

// Holder is the work under a grant. It is notified of what becomes of the grant.
type Holder interface {
	// Cancel ends the work under the grant, and does not block. It is not called after Drop. The first
	// call that ends the work returns true: then ReportLoss is called, which may block.
	Cancel(cause error) (first bool)
	ReportLoss()
	Renewed(err error) // after each renewal; an error says that its outcome is not known
}

// NewGrant makes a grant of a claim and its reply, ClaimHeld.
func (w *Watchdog) NewGrant(c guardstore.Claim, r guardstore.ClaimReply, sent clock.Instant, tombstone bool) Grant {
	if r.Owner != "" {
		c.Owner = r.Owner
	}
	return Grant{
		Claim: c, Fence: r.Fence, FenceAhead: r.FenceAhead, Earlier: r.Earlier, Tombstone: tombstone, Begun: clock.Now(),
		watchdog: w, deadline: trustedUntil(sent, c.TTL), renewAt: sent.Add(c.TTL / 3),
	}
}

// trustedUntil returns the deadline that a command sent at sent gives: a tenth
// less than the ttl, as two clocks differ. chrony slews a clock by 83,333 ppm at most.
func trustedUntil(sent clock.Instant, ttl time.Duration) clock.Instant {
	return sent.Add(ttl - ttl/10 - 2*time.Millisecond)
}

// SetDepth sets how many calls are open under the grant. The next renewal writes it to the store.
func (t *Grant) SetDepth(depth int) { t.depth.Store(int64(depth)) }

// Watch renews a grant for a holder, which may be one of several. If the grant has ended, Watch notifies
// the holder at once. maxHold and metadata are those of the first holder.
func (t *Grant) Watch(h Holder, maxHold time.Duration, metadata string) {
	w := t.watchdog
	w.mu.Lock()
	cause := t.cause
	if cause == nil {
		if !w.grants[t] {
			t.metadata, t.renewing, t.holders = metadata, false, t.one[:0]
			if maxHold > 0 {
				t.holdUntil = clock.Now().Add(maxHold) // negative, as none, if it is for centuries
			}
			w.grants[t] = true
			w.poke(t)
		}
		t.holders = append(t.holders, h)
	}
	w.mu.Unlock()
	if cause != nil && h.Cancel(cause) {
		h.ReportLoss()
	}
}

// EndAt sets MaxHold for a grant that is watched already. A grant that has ended stays so.
func (t *Grant) EndAt(until clock.Instant) {
	w := t.watchdog
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.grants[t] {
		t.holdUntil = until
		w.poke(t)
	}
}

// Drop ends the watch for a holder. After the last holder, nothing renews the grant, and the watchdog ignores
// replies that are on their way. Drop returns the reason if the grant had ended before.
func (t *Grant) Drop(h Holder) (cause error) {
	w := t.watchdog
	w.mu.Lock()
	defer w.mu.Unlock()
	at := clock.Now()
	cause = t.endedBy(at)
	if i := slices.Index(t.holders, h); i >= 0 {
		t.holders = slices.Delete(t.holders, i, i+1)
	}
	if len(t.holders) == 0 {
		t.ended, t.holdUntil, t.cause = at, 0, cause
		delete(w.grants, t)
	}
	return cause
}

// Err returns the reason if the grant has ended. It looks at the clock.
func (t *Grant) Err() error {
	t.watchdog.mu.Lock()
	defer t.watchdog.mu.Unlock()
	return t.endedBy(clock.Now())
}

// Deadline returns the instant until which the grant is certain.
func (t *Grant) Deadline() clock.Instant {
	t.watchdog.mu.Lock()
	defer t.watchdog.mu.Unlock()
	return t.deadline
}

// Ended returns when the latest work under a grant ended that is not watched, or 0.
func (t *Grant) Ended() clock.Instant {
	t.watchdog.mu.Lock()
	defer t.watchdog.mu.Unlock()
	return t.ended
}

// End ends the work of the grant's holders, present and next.
func (t *Grant) End(cause error) {
	var lost losses
	w := t.watchdog
	w.mu.Lock()
	if w.grants[t] {
		w.end(t, cause, &lost)
	} else if t.cause == nil {
		t.cause = cause
	}
	w.mu.Unlock()
	for _, h := range lost.cancel() {
		h.ReportLoss()
	}
}

// Request returns the grant as commands to the store name it.
func (t *Grant) Request() guardstore.Grant {
	t.watchdog.mu.Lock()
	defer t.watchdog.mu.Unlock()
	return t.request()
}

// request needs Watchdog.mu. The depth is 1 at least, also before and after the work: the store has a hold of depth 0
// for a MinHold. Readers that have one grant count as one.
func (t *Grant) request() guardstore.Grant {
	request := guardstore.Grant{
		Key: t.Claim.Key, Owner: t.Claim.Owner, Fence: t.Fence,
		TTL: t.Claim.TTL, Depth: 1, Metadata: t.metadata, Limit: t.Claim.Limit,
	}
	if t.Claim.Limit != guardstore.Unlimited {
		request.Depth = max(1, int(t.depth.Load()))
	}
	if t.Claim.Once != nil {
		request.Keep = t.Claim.Once.Keep
	}
	return request
}

// next returns when the watchdog has to look at the grant.
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

// slack lets renewals that are due soon go out with those that are due now.
func (t *Grant) slack() time.Duration { return min(t.Claim.TTL/60, pulse) }

// endedBy returns why a grant has ended, or nil: the cause that ended it, or the clock. It needs Watchdog.mu.
func (t *Grant) endedBy(at clock.Instant) error {
	switch {
	case t.cause != nil:
		return t.cause
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

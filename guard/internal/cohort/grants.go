package cohort

import (
	"context"
	"slices"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// grant is a claim that the store granted, and the callers of this process that hold it: one after
// another, or any number of readers at the same time. The last of them hands it over, or releases it.
type grant struct {
	watchdog.Grant

	// Guarded by Table.mu.
	label   retry.Label  // of the caller that got it last
	callers int          // that hold it, or got it
	check   *sharedCheck // the latest, see Hold.confirm; may be nil
}

func (c *cohort) newGrant(request guardstore.Claim, r guardstore.ClaimReply, sent clock.Instant, tombstone bool) *grant {
	return &grant{Grant: watchdog.NewGrant(request, r, sent, tombstone)}
}

// admitFirst is for a caller whose own claim was granted. It takes Table.mu.
func (c *cohort) admitFirst(ctx context.Context, w *waiter, g *grant) result {
	c.table.mu.Lock()
	c.reserved--
	got := c.give(g, w, g.Fence, granted)
	added := c.addGrant(g)
	c.table.mu.Unlock()
	c.startClaims(ctx, added)
	return got
}

// admit gives a claim's grant to the first caller in the queue. It returns false if the queue is empty.
// It takes Table.mu.
func (c *cohort) admit(ctx context.Context, cl *claim, g *grant) bool {
	c.table.mu.Lock()
	if c.queue.Len() == 0 {
		c.table.mu.Unlock()
		return false
	}
	c.forget(cl)
	c.setLeaving(cl, false)
	c.giveNext(g, g.Fence, granted)
	added := c.addGrant(g)
	c.table.mu.Unlock()
	c.startClaims(ctx, added)
	return true
}

// What follows needs Table.mu, unless it takes it.

// addGrant begins to use a grant that a caller was given, and gives it to as many more callers as it
// serves at the same time. Start the claims that it returns.
func (c *cohort) addGrant(g *grant) (added []*claim) {
	c.grants = append(c.grants, g)
	c.lockState, c.stateAt = lockState{}, clock.Now()
	for g.callers < c.room.callers && c.queue.Len() > 0 {
		c.giveNext(g, g.Fence, handedOver)
	}
	c.noteFull()
	c.cancelSurplusClaims()
	return c.makeMissingClaims()
}

// give makes the hold of a caller.
func (c *cohort) give(g *grant, w *waiter, fence uint64, how how) result {
	g.callers++
	g.label, c.metadata = w.Label, w.Metadata
	return result{hold: Hold{Label: w.Label, Metadata: w.Metadata, Fence: fence, Grant: g, cohort: c}, how: how}
}

// giveNext gives a grant to the first in the queue.
func (c *cohort) giveNext(g *grant, fence uint64, how how) {
	w := c.queue.Front().Value.(*waiter)
	c.remove(w)
	w.results <- c.give(g, w, fence, how) // from here on, w is its caller's
}

// joinGrant gives a reader the grant that other readers have, while that grant is new. So a writer that
// waits in the store waits no longer than the window and the longest read.
func (c *cohort) joinGrant(w *waiter) bool {
	if c.room.callers == 1 || len(c.grants) == 0 {
		return false
	}
	g := c.grants[len(c.grants)-1]
	if clock.Now().Sub(g.Begun) >= c.window() || c.table.watchdog.Check(&g.Grant) != nil {
		return false
	}
	w.results <- c.give(g, w, g.Fence, joined)
	return true
}

// noteFull notes that the lock is busy, if all grants are in use.
func (c *cohort) noteFull() {
	if c.full() {
		c.setState(lockState{busy: true, holder: c.metadata, limit: c.id.limit})
	}
}

// window is for how long a grant passes from caller to caller.
func (c *cohort) window() time.Duration {
	return min(c.table.Handover, c.id.ttl/2) // the servers of a quorum may be as far apart
}

// recipient is the next holder of a grant when a caller has ended.
type recipient int

const (
	toOthers recipient = iota // its other holders keep it
	toNext                    // in the queue
	toStore
)

// passOn decides which caller gets a grant next when a caller has ended. If the grant goes to the store and
// mustGoOn is true, call goOn once the release was sent. It takes Table.mu.
func (c *cohort) passOn(h *Hold) (to recipient, mustGoOn bool) {
	g := h.Grant
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	async := h.aboutToRelease
	if async {
		h.aboutToRelease = false
		c.aboutToRelease--
	}
	if g.callers--; g.callers > 0 {
		return toOthers, false
	}
	if !slices.Contains(c.grants, g) {
		return toStore, false // abandoned before
	}
	if c.queue.Len() > 0 {
		if next, ok := c.mayHandOver(h); ok {
			c.giveNext(g, next, handedOver)
			c.cancelSurplusClaims()
			c.noteFull()
			return toNext, false
		}
		c.stateAt = clock.Now()
	}
	if c.queue.Len() == 0 || c.room.grants > 1 { // else those in the queue are in front
		c.lockState = lockState{}
	}
	if mustGoOn = async || c.queue.Len() > 0; mustGoOn {
		c.releasing++ // a claim of this process must not overtake it
	}
	c.removeGrant(g, h.Fence)
	c.drop()
	return toStore, mustGoOn
}

// mayHandOver says whether a grant whose work has ended may serve one more caller, and under which
// fence. An exclusive lock gets a larger fence for each caller. It stays below the clock of the server that
// minted the grant's fence, so that the server mints a larger one next, even if it lost its data. A fence
// that is ahead of the server's clock cannot be followed here. With several grants (Limit), the fence only
// names the grant, and stays. A hold with a MinHold gets a grant of its own: the server keeps the key
// after it.
func (c *cohort) mayHandOver(h *Hold) (next uint64, ok bool) {
	g, at := h.Grant, h.Grant.Ended()
	if at == 0 {
		at = clock.Now()
	}
	age := at.Sub(g.Begun)
	if c.room.callers > 1 || c.id.once.Keep > 0 || age >= c.window() || at >= g.Deadline() ||
		h.MinHold > 0 || c.queue.Front().Value.(*waiter).MinHold > 0 || c.table.watchdog.Check(&g.Grant) != nil {
		return 0, false
	}
	if c.room.grants > 1 {
		return h.Fence, true
	}
	next = h.Fence + 1
	return next, !g.FenceAhead && next <= g.Fence+uint64(max(age.Microseconds(), 0))
}

// removeGrant ends the use of a grant, which was handed out under a fence at last.
func (c *cohort) removeGrant(g *grant, fence uint64) {
	c.grants = slices.DeleteFunc(c.grants, func(one *grant) bool { return one == g })
	if c.room.grants == 1 {
		c.floor = max(c.floor, fence)
	}
}

// goOn claims for the callers in the queue once the release of a grant was sent, so that claims of other
// processes are in front. It takes Table.mu.
func (c *cohort) goOn(ctx context.Context) {
	c.table.mu.Lock()
	c.releasing--
	added := c.makeMissingClaims()
	c.drop()
	c.table.mu.Unlock()
	c.startClaims(ctx, added)
}

// abandon ends the use of a grant that was lost, or whose release is not answered, and claims anew for
// the callers in the queue. It takes Table.mu.
func (c *cohort) abandon(ctx context.Context, g *grant, fence uint64) {
	c.table.mu.Lock()
	if !slices.Contains(c.grants, g) {
		c.table.mu.Unlock()
		return
	}
	c.removeGrant(g, fence)
	added := c.makeMissingClaims()
	c.drop()
	c.table.mu.Unlock()
	c.startClaims(ctx, added)
}

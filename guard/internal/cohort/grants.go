package cohort

import (
	"cmp"
	"context"
	"slices"
	"time"

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

// admitFirst is for a caller whose own claim was granted: the grant takes the room that join kept. It takes Table.mu.
func (c *cohort) admitFirst(w *waiter, g *grant) result {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.reserved--
	got := c.give(g, w, g.Fence, false)
	c.addGrant(g)
	return got
}

// admit gives a claim's grant to the first caller in the queue. It returns false if the queue is empty.
// It takes Table.mu.
func (c *cohort) admit(ctx context.Context, cl *claim, g *grant) (admitted bool) {
	c.change(ctx, func() {
		if admitted = c.queue.Len() > 0; admitted {
			c.forget(cl)
			c.countLeft(cl) // a caller came after cancelSurplusClaims had given the claim up
			c.giveNext(g, g.Fence, false)
			c.addGrant(g)
		}
	})
	return admitted
}

// What follows needs Table.mu, unless it takes it.

// addGrant begins to use a grant that a caller was given, and gives it to as many more callers as it
// serves at the same time.
func (c *cohort) addGrant(g *grant) {
	c.grants = append(c.grants, g)
	c.state, c.stateAt = State{}, clock.Now()
	for g.callers < c.room.callers && c.queue.Len() > 0 {
		c.giveNext(g, g.Fence, true)
	}
	c.noteFull()
	c.cancelSurplusClaims()
}

// give makes the hold of a caller.
func (c *cohort) give(g *grant, w *waiter, fence uint64, local bool) result {
	g.callers++
	g.label, c.metadata = w.Label, w.Claim.Metadata
	return result{hold: Hold{Label: w.Label, Metadata: w.Claim.Metadata, Fence: fence, grant: g, cohort: c}, local: local}
}

// giveNext gives a grant to the first in the queue.
func (c *cohort) giveNext(g *grant, fence uint64, local bool) {
	w := c.queue.Front().Value.(*waiter)
	c.remove(w)
	w.results <- c.give(g, w, fence, local) // w must not be used after this send
}

// joinGrant gives a reader the grant that other readers have, while that grant is new. So a writer that
// waits in the store waits no longer than the window and the longest read.
func (c *cohort) joinGrant(w *waiter) bool {
	if len(c.grants) == 0 {
		return false
	}
	g := c.grants[len(c.grants)-1]
	if clock.Now().Sub(g.Begun) >= c.window() || g.Err() != nil {
		return false
	}
	w.results <- c.give(g, w, g.Fence, true)
	return true
}

// noteFull notes that the lock is busy, if all grants are in use.
func (c *cohort) noteFull() {
	if c.full() {
		c.setState(State{Busy: true, Holder: c.metadata, Limit: c.id.limit})
	}
}

// window returns for how long a grant passes from caller to caller.
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

// transfer decides which caller gets a grant next when a caller has ended. If the grant goes to the store and
// waits is true, the next claim of this process waits for the release. With async, it waits
// always. It takes Table.mu.
func (c *cohort) transfer(h *Hold, async bool) (to recipient, waits bool) {
	g := h.grant
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if g.callers--; g.callers > 0 {
		return toOthers, false
	}
	if !slices.Contains(c.grants, g) {
		return toStore, false // abandoned before
	}
	queued := c.queue.Len() > 0
	if queued {
		if next, ok := c.mayHandOver(h); ok {
			c.giveNext(g, next, true)
			c.cancelSurplusClaims()
			c.noteFull()
			return toNext, false
		}
		c.stateAt = clock.Now()
	}
	if !queued || c.room.grants > 1 { // else those in the queue are in front
		c.state = State{}
	}
	if waits = async || queued; waits {
		c.releasing++ // a claim of this process must not overtake it
	}
	c.removeGrant(g, h.Fence)
	c.drop()
	return toStore, waits
}

// mayHandOver returns whether a grant whose work has ended may serve one more caller, and under which
// fence. An exclusive lock gets a larger fence for each caller. It stays below the clock of the server that
// minted the grant's fence, so that the server mints a larger one next, even if it lost its data. A fence
// that is ahead of the server's clock cannot be followed here. With several grants (Limit), the fence only
// names the grant, and stays. A hold with a MinHold gets a grant of its own: the server keeps the key
// after it.
func (c *cohort) mayHandOver(h *Hold) (next uint64, ok bool) {
	g := h.grant
	age := cmp.Or(g.Ended(), clock.Now()).Sub(g.Begun)
	if c.room.callers > 1 || c.id.once.Keep > 0 || age >= c.window() || h.MinHold > 0 ||
		c.queue.Front().Value.(*waiter).MinHold > 0 || g.Err() != nil {
		return 0, false
	}
	if c.room.grants > 1 {
		return h.Fence, true
	}
	next = h.Fence + 1
	return next, !g.FenceAhead && int64(next-g.Fence) <= age.Microseconds()
}

// removeGrant ends the use of a grant, which was handed out under a fence at last.
func (c *cohort) removeGrant(g *grant, fence uint64) {
	c.grants = slices.DeleteFunc(c.grants, func(one *grant) bool { return one == g })
	if c.room.grants == 1 {
		c.floor = max(c.floor, fence)
	}
}

package cohort

import (
	"context"
	"slices"
	"time"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// This file is about what was granted to a cohort: who is given it, and what becomes of it
// then.

// admitFirst is for a caller whose own claim was granted. It takes Table.mu.
func (c *cohort) admitFirst(ctx context.Context, w *waiter, g *watchdog.Grant) result {
	c.table.mu.Lock()
	c.reserved--
	got := c.addGrant(g)
	c.noteGiven(w, got)
	c.serve(got)
	begun := c.makeMissingClaims()
	c.table.mu.Unlock()
	c.startClaims(ctx, begun)
	return got
}

// admit gives what a claim was granted to the first in the queue, or to as many there as it
// serves, whoever the claim stood for. It returns false if nobody is there. It takes Table.mu.
func (c *cohort) admit(ctx context.Context, cl *claim, g *watchdog.Grant) bool {
	c.table.mu.Lock()
	if c.queue.Len() == 0 {
		c.table.mu.Unlock()
		return false
	}
	c.forget(cl)
	got := c.addGrant(g)
	c.giveNext(got)
	c.serve(got)
	c.cancelSurplusClaims()
	begun := c.makeMissingClaims()
	c.table.mu.Unlock()
	c.startClaims(ctx, begun)
	return true
}

// What follows needs Table.mu, unless it takes it.

// addGrant begins to use a grant.
func (c *cohort) addGrant(g *watchdog.Grant) result {
	c.grants = append(c.grants, g)
	if c.room.callers > 1 {
		c.joinable = newShare(c, g)
	}
	c.lockState, c.stateAt = lockState{}, clock.Now()
	return c.resultOf(g, g.Fence)
}

// resultOf is what a caller gets that is given a grant.
func (c *cohort) resultOf(g *watchdog.Grant, fence uint64) result {
	return result{Hold: Hold{Fence: fence, Grant: g, cohort: c, share: c.joinable}}
}

// serve gives a new grant to all in the queue if it serves any number. Where all there is is in
// use by now, it tells those who ask.
func (c *cohort) serve(got result) {
	got.local = true
	for got.share != nil && c.queue.Len() > 0 {
		c.giveNext(got)
	}
	c.noteFull()
}

// noteFull notes that all there is is in use, if it is.
func (c *cohort) noteFull() {
	if c.full() {
		c.setState(lockState{busy: true, holder: c.metadata, limit: c.id.limit})
	}
}

// giveNext gives a grant to the first in the queue.
func (c *cohort) giveNext(got result) {
	w := c.queue.Front().Value.(*waiter)
	c.remove(w)
	c.noteGiven(w, got)
	w.results <- got // from here on, w is its caller's
}

func (c *cohort) noteGiven(w *waiter, got result) {
	c.metadata = w.Metadata
	if got.share != nil {
		got.share.callers++
	}
}

// window is for how long a grant passes from caller to caller.
func (c *cohort) window() time.Duration {
	return min(c.table.Handover, c.id.ttl/2) // the servers of a quorum may be as far apart
}

// handOver decides what becomes of a grant whose work ended in good order under a fence: it is
// handed to the next in the queue, or is to be released. If anybody waits then, goOn is to be
// called once the release was sent. It takes Table.mu.
func (c *cohort) handOver(h *Hold) (done, waited bool) {
	g := h.Grant
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	async := h.leaving
	if async {
		h.leaving = false
		c.leaving--
	}
	if !slices.Contains(c.grants, g) {
		return false, false // abandoned before
	}
	if c.queue.Len() > 0 {
		if next, ok := c.mayHandOver(g, h.Fence); ok {
			passed := c.resultOf(g, next)
			passed.local = true
			c.giveNext(passed)
			c.cancelSurplusClaims()
			c.noteFull()
			return true, false
		}
		c.stateAt = clock.Now()
	} else {
		c.lockState = lockState{}
	}
	if waited = async || c.queue.Len() > 0; waited {
		c.releasing++ // a claim of this process must not overtake it
	}
	c.removeGrant(g, h.Fence)
	c.drop()
	return false, waited
}

// mayHandOver says whether a grant whose work has ended may serve one caller more, and under which
// fence. Where there is one grant at a time, fences grow with each caller. They stay behind the clock
// of the server that minted the grant's, so that the server mints a larger one next, even if it
// forgot everything. One that is ahead of that clock is followed by the server's own only. Of several
// grants, a fence names one, and refuses nobody: it stays. A hold with a MinHold has a grant of its own:
// the server keeps it from then on.
func (c *cohort) mayHandOver(g *watchdog.Grant, fence uint64) (next uint64, ok bool) {
	at := g.Ended()
	if at == 0 {
		at = clock.Now()
	}
	age := at.Sub(g.Begun)
	if c.room.callers > 1 || c.id.fixed || c.id.once.Keep > 0 || age >= c.window() || at >= g.Deadline() || g.Denied() ||
		g.MinHold > 0 || c.queue.Front().Value.(*waiter).MinHold > 0 {
		return 0, false
	}
	if c.room.grants > 1 {
		return fence, true
	}
	fence++
	return fence, !g.FenceAhead && fence <= g.Fence+uint64(max(age.Microseconds(), 0)) //nolint:gosec // not negative
}

// removeGrant ends the use of a grant, which was handed out under a fence at last.
func (c *cohort) removeGrant(g *watchdog.Grant, fence uint64) {
	c.grants = slices.DeleteFunc(c.grants, func(one *watchdog.Grant) bool { return one == g })
	if c.joinable != nil && c.joinable.grant == g {
		c.joinable = nil
	}
	if c.room.grants == 1 {
		c.floor = max(c.floor, fence)
	}
}

// goOn claims for those in the queue when the release of a grant was sent, so that those who wait
// elsewhere are in front. It takes Table.mu.
func (c *cohort) goOn(ctx context.Context) {
	c.table.mu.Lock()
	c.releasing--
	begun := c.makeMissingClaims()
	c.drop()
	c.table.mu.Unlock()
	c.startClaims(ctx, begun)
}

// abandon gives up a grant that was lost, or whose release is not answered: those in the queue
// do not wait for it. It takes Table.mu.
func (c *cohort) abandon(ctx context.Context, g *watchdog.Grant, fence uint64) {
	c.table.mu.Lock()
	if !slices.Contains(c.grants, g) {
		c.table.mu.Unlock()
		return
	}
	c.removeGrant(g, fence)
	begun := c.makeMissingClaims()
	c.drop()
	c.table.mu.Unlock()
	c.startClaims(ctx, begun)
}

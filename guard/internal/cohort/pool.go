package cohort

import (
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// pool is the grants of a cohort whose callers tolerate others, and its claims for more.
// Table.mu guards it.
//
// Callers with a limit of n have up to n grants, and each passes from caller to caller as an
// exclusive one does. Their claims and grants together are never more than n: what is more
// could not be granted. Readers have one claim at a time, and one grant serves all who wait
// when it comes, and who come while it is new, see share.
//
// A caller that nobody waits in front of sends its own claim. Once that waits in the store, it
// goes on by itself, as any grant may serve any caller in the queue.
type pool struct {
	limit    guardstore.Limit // of each claim
	metadata string           // of whoever got a grant last

	maxGrants int
	grants    []*watchdog.Grant // in use
	claims    []*claim          // for those in the queue; no more than there are
	reserved  int               // for callers whose own claim is on its way
	joinable  *share            // by readers, while it is new; may be nil

	shares map[*watchdog.Grant]*share // of readers, while anybody has the grant
}

// newPool begins with the caller that sends the first claim.
func newPool(r *Request) *pool {
	p := &pool{limit: r.Limit, metadata: r.Metadata, maxGrants: int(r.Limit), reserved: 1}
	if r.Limit == guardstore.Unlimited {
		p.maxGrants, p.shares = math.MaxInt, make(map[*watchdog.Grant]*share)
	}
	return p
}

// unlimited says whether any number of callers may have the lock at once.
func (p *pool) unlimited() bool { return p.maxGrants == math.MaxInt }

// idOf is the cohort of a caller. Callers share their claims whatever they say of themselves:
// what a store shows is what the latest of them said. With FixedLease, or a window of 0, nothing
// passes from caller to caller: such a call has a cohort to itself.
func (t *Table) idOf(r *Request) (id id, pooled bool) {
	id.key, id.ttl, id.fixed = r.Label.Key, r.TTL, r.Fixed
	switch {
	case r.Limit == guardstore.Exclusive:
		return id, false
	case r.Alone || r.Fixed || t.Handover == 0:
		id.kind = "alone " + strconv.FormatUint(t.alone.Add(1), 10)
		return id, false
	}
	id.kind = r.Limit.String()
	return id, true
}

// What follows needs Table.mu, unless it takes it.

// reserve says whether a caller sends its own claim, and keeps room for what that may bring.
func (c *cohort) reserve() bool {
	p := c.pool
	if c.queue.Len() > 0 || len(p.grants)+p.reserved >= p.maxGrants || p.unlimited() && p.reserved > 0 {
		return false
	}
	p.reserved++
	return true
}

// poolKnownBusy is knownBusy for a pool: all grants are in use here, or a claim waits in front.
func (c *cohort) poolKnownBusy() bool {
	return len(c.pool.grants) >= c.pool.maxGrants || len(c.pool.claims) > 0 && c.busy && clock.Now().Sub(c.stateAt) < stateMaxAge
}

// inUse says whether anybody has or wants the key.
func (c *cohort) inUse() bool {
	p := c.pool
	return c.queue.Len() > 0 || len(p.grants) > 0 || len(p.claims) > 0 || p.reserved > 0
}

// missingClaims is how many claims there should be for those in the queue.
func (c *cohort) missingClaims() int {
	p := c.pool
	wanted := min(c.queue.Len(), p.maxGrants-len(p.grants)-p.reserved)
	if p.unlimited() {
		wanted = min(wanted, 1-p.reserved)
	}
	return wanted - len(p.claims)
}

// makeMissingClaims makes the claims that are missing. They are to be started once Table.mu
// is free.
func (c *cohort) makeMissingClaims() (begun []*claim) {
	for range c.missingClaims() {
		begun = append(begun, c.newClaim(0))
	}
	c.pool.claims = append(c.pool.claims, begun...)
	return begun
}

// startClaims starts claims. It must be called without Table.mu.
func (c *cohort) startClaims(ctx context.Context, begun []*claim) {
	for _, cl := range begun {
		c.table.notifier.register(cl)
		cl.start(ctx, true)
	}
}

// cancelSurplusClaims gives up claims that nobody wants, those that wait for the shortest time first.
func (c *cohort) cancelSurplusClaims() {
	p := c.pool
	for last := len(p.claims) - 1; last >= c.queue.Len(); last-- {
		close(p.claims[last].unwanted)
		p.claims = slices.Delete(p.claims, last, last+1)
	}
	if c.queue.Len() == 0 && len(p.grants) < p.maxGrants {
		c.lockState = lockState{} // nobody asks any more
	}
}

// insert puts a caller into the queue whose own claim has to wait: before those who came later.
func (c *cohort) insert(w *waiter) {
	if w.Wait == 0 {
		w.asks = true
		c.asking++
	}
	for e := c.queue.Front(); e != nil; e = e.Next() {
		if e.Value.(*waiter).begun > w.begun {
			w.place = c.queue.InsertBefore(w, e)
			return
		}
	}
	w.place = c.queue.PushBack(w)
}

// addClaim makes a caller's own claim one of those for the queue, in which it waits on if it
// is not nil. If nobody wants the claim, it is given up.
func (c *cohort) addClaim(ctx context.Context, cl *claim, w *waiter) {
	c.table.mu.Lock()
	c.pool.reserved--
	if w != nil {
		c.insert(w)
	}
	wanted := c.missingClaims() > 0
	if wanted {
		c.pool.claims = append(c.pool.claims, cl)
	}
	begun := c.makeMissingClaims()
	c.drop()
	c.table.mu.Unlock()
	if wanted {
		c.table.notifier.register(cl)
		cl.start(ctx, w == nil)
	} else {
		cl.abandon(ctx)
	}
	c.startClaims(ctx, begun)
}

// admitFirst is for a caller whose own claim was granted.
func (c *cohort) admitFirst(ctx context.Context, g *watchdog.Grant) result {
	c.table.mu.Lock()
	c.pool.reserved--
	got := c.addGrant(g)
	if got.share != nil {
		got.share.callers++
	}
	c.serve(got)
	begun := c.makeMissingClaims()
	c.table.mu.Unlock()
	c.startClaims(ctx, begun)
	return got
}

// admit gives what a claim was granted to the first in the queue, or to all readers there. It
// returns false if nobody is there any more.
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

// addGrant begins to use a grant.
func (c *cohort) addGrant(g *watchdog.Grant) result {
	p := c.pool
	p.grants = append(p.grants, g)
	got := result{grant: g, fence: g.Fence}
	if p.unlimited() {
		got.share = newShare(c, g)
		p.joinable, p.shares[g] = got.share, got.share
	}
	c.lockState, c.stateAt = lockState{}, clock.Now()
	return got
}

// serve gives a new grant to all readers in the queue. Where all there is is in use by now, it
// tells those who ask.
func (c *cohort) serve(got result) {
	got.local = true
	for got.share != nil && c.queue.Len() > 0 {
		c.giveNext(got)
	}
	if len(c.pool.grants) >= c.pool.maxGrants {
		c.setState(lockState{busy: true, holder: c.pool.metadata, limit: c.pool.limit})
	}
}

// giveNext gives a grant to the first in the queue.
func (c *cohort) giveNext(got result) {
	w := c.queue.Front().Value.(*waiter)
	c.remove(w)
	c.pool.metadata = w.Metadata
	if got.share != nil {
		got.share.callers++
	}
	w.results <- got // from here on, w is its caller's
}

// handOverPermit hands a grant whose work ended in good order to the next in the queue, as
// handOver does. Its fence stays: it names the grant, and refuses nobody. It takes Table.mu.
func (c *cohort) handOverPermit(g *watchdog.Grant) (done bool) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if !slices.Contains(c.pool.grants, g) {
		return false // abandoned before
	}
	if c.queue.Len() > 0 && !c.pool.unlimited() && c.mayHandOverPermit(g) {
		c.giveNext(result{grant: g, fence: g.Fence, local: true})
		c.cancelSurplusClaims()
		return true
	}
	c.removeGrant(g)
	return false
}

// mayHandOverPermit says whether a grant may serve one caller more.
func (c *cohort) mayHandOverPermit(g *watchdog.Grant) bool {
	at := g.Ended()
	if at == 0 {
		at = clock.Now()
	}
	return at.Sub(g.Begun) < c.window() && at < g.Deadline() && !g.Denied()
}

// removeGrant ends the use of a grant.
func (c *cohort) removeGrant(g *watchdog.Grant) {
	p := c.pool
	p.grants = slices.DeleteFunc(p.grants, func(one *watchdog.Grant) bool { return one == g })
	if p.joinable != nil && p.joinable.grant == g {
		p.joinable = nil
	}
	c.drop()
}

// abandonPermit gives up a grant that was lost. It takes Table.mu.
func (c *cohort) abandonPermit(ctx context.Context, g *watchdog.Grant) {
	c.table.mu.Lock()
	c.removeGrant(g)
	c.table.mu.Unlock()
	c.claimMissing(ctx)
}

// claimMissing claims for those in the queue when a grant is out of use: once its release was
// sent, so that those who wait elsewhere are in front. It takes Table.mu.
func (c *cohort) claimMissing(ctx context.Context) {
	c.table.mu.Lock()
	begun := c.makeMissingClaims()
	c.table.mu.Unlock()
	c.startClaims(ctx, begun)
}

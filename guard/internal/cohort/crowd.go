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

// crowd is what a cohort has whose callers tolerate others. Table.mu guards it.
//
// Callers with a limit of n have up to n grants, and each passes from caller to caller as an
// exclusive one does. Their claims and grants together are never more than n: what is more
// could not be granted. Readers have one claim at a time, and one grant serves all who wait
// when it comes, and who come while it is new, see share.
//
// A caller that nobody waits in front of sends its own claim. Once that waits in the store, it
// goes on by itself, as any grant may serve any caller in the queue.
type crowd struct {
	limit    int // of each claim
	metadata string

	most    int               // grants at a time
	grants  []*watchdog.Grant // in use
	claims  []*claim          // for those in the queue; no more than there are
	sending int               // callers whose own claim is on its way
	open    *share            // which readers may still join, perhaps

	shares map[*watchdog.Grant]*share // of readers, while anybody has the grant
}

// newCrowd begins with the caller that sends the first claim.
func newCrowd(r *Request) *crowd {
	cr := &crowd{limit: r.Limit, metadata: r.Metadata, most: r.Limit, sending: 1}
	if r.Limit == guardstore.Unlimited {
		cr.most, cr.shares = math.MaxInt, make(map[*watchdog.Grant]*share)
	}
	return cr
}

// readers says whether any number of callers may have the lock at once.
func (cr *crowd) readers() bool { return cr.most == math.MaxInt }

// idOf is the cohort of a caller. Callers that tolerate others share their claims if all that a
// store shows of a claim is right for each of them. With FixedLease, or a window of 0, nothing
// passes from caller to caller: such a call has a cohort to itself.
func (t *Table) idOf(r *Request) (id id, shares bool) {
	id.key, id.ttl, id.fixed = r.Label.Key, r.TTL, r.Fixed
	switch {
	case exclusive(r.Limit):
		return id, false
	case r.Alone || r.Fixed || t.Handover == 0:
		id.kind = "alone " + strconv.FormatUint(t.alone.Add(1), 10)
		return id, false
	}
	id.kind = strconv.Itoa(r.Limit) + " " + r.Metadata
	return id, true
}

// What follows needs Table.mu, unless it takes it.

// sends says whether a caller sends its own claim, and counts that.
func (c *cohort) sends() bool {
	cr := c.crowd
	if c.queue.Len() > 0 || len(cr.grants)+cr.sending >= cr.most || cr.readers() && cr.sending > 0 {
		return false
	}
	cr.sending++
	return true
}

// surelyFull is sure for a crowd: all there is is in use here, or a claim waits in front.
func (c *cohort) surelyFull() bool {
	return len(c.crowd.grants) >= c.crowd.most || len(c.crowd.claims) > 0 && c.busy && clock.Now().Sub(c.heard) < freshWord
}

// inUse says whether anybody has or wants the key.
func (c *cohort) inUse() bool {
	cr := c.crowd
	return c.queue.Len() > 0 || len(cr.grants) > 0 || len(cr.claims) > 0 || cr.sending > 0
}

// missing is how many claims there should be for those in the queue.
func (c *cohort) missing() int {
	cr := c.crowd
	wanted := min(c.queue.Len(), cr.most-len(cr.grants)-cr.sending)
	if cr.readers() {
		wanted = min(wanted, 1-cr.sending)
	}
	return wanted - len(cr.claims)
}

// claimMore makes the claims that are missing. They are to be started once Table.mu is free.
func (c *cohort) claimMore() (begun []*claim) {
	for range c.missing() {
		begun = append(begun, c.newClaim(0))
	}
	c.crowd.claims = append(c.crowd.claims, begun...)
	return begun
}

// start starts claims. It must be called without Table.mu.
func (c *cohort) start(ctx context.Context, begun []*claim) {
	for _, cl := range begun {
		c.table.notifier.register(cl)
		cl.start(ctx, true)
	}
}

// trim gives up claims that nobody wants, those that wait for the shortest time first.
func (c *cohort) trim() {
	cr := c.crowd
	for last := len(cr.claims) - 1; last >= c.queue.Len(); last-- {
		close(cr.claims[last].unwanted)
		cr.claims = slices.Delete(cr.claims, last, last+1)
	}
	if c.queue.Len() == 0 && len(cr.grants) < cr.most {
		c.word = word{} // nobody asks any more
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

// setClaims makes a caller's own claim one of those for the queue, in which it waits on if it
// is not nil. If nobody wants the claim, it is given up.
func (c *cohort) setClaims(ctx context.Context, cl *claim, w *waiter) {
	c.table.mu.Lock()
	c.crowd.sending--
	if w != nil {
		c.insert(w)
	}
	wanted := c.missing() > 0
	if wanted {
		c.crowd.claims = append(c.crowd.claims, cl)
	}
	begun := c.claimMore()
	c.drop()
	c.table.mu.Unlock()
	if wanted {
		c.table.notifier.register(cl)
		cl.start(ctx, w == nil)
	} else {
		cl.abandon(ctx, cl.request.Ticket > 0)
	}
	c.start(ctx, begun)
}

// admitFirst is for a caller whose own claim was granted.
func (c *cohort) admitFirst(ctx context.Context, g *watchdog.Grant) result {
	c.table.mu.Lock()
	c.crowd.sending--
	got := c.use(g)
	if got.share != nil {
		got.share.callers++
	}
	c.serve(got)
	begun := c.claimMore()
	c.table.mu.Unlock()
	c.start(ctx, begun)
	return got
}

// admit gives what a claim was granted to the first in the queue, or to all readers there. It
// returns false if nobody is there any more.
func (c *cohort) admit(ctx context.Context, cl *claim, g *watchdog.Grant) bool {
	c.table.mu.Lock()
	if !c.stands(cl) {
		c.table.mu.Unlock()
		return false
	}
	c.forget(cl)
	got := c.use(g)
	c.giveNext(got)
	c.serve(got)
	c.trim()
	begun := c.claimMore()
	c.table.mu.Unlock()
	c.start(ctx, begun)
	return true
}

// use begins to use a grant.
func (c *cohort) use(g *watchdog.Grant) result {
	cr := c.crowd
	cr.grants = append(cr.grants, g)
	got := result{grant: g, fence: g.Fence}
	if cr.readers() {
		got.share = newShare(c, g)
		cr.open, cr.shares[g] = got.share, got.share
	}
	c.word, c.heard = word{}, clock.Now()
	return got
}

// serve gives a new grant to all readers in the queue. Where all there is is in use by now, it
// tells those who ask.
func (c *cohort) serve(got result) {
	got.local = true
	for got.share != nil && c.queue.Len() > 0 {
		c.giveNext(got)
	}
	if len(c.crowd.grants) >= c.crowd.most {
		c.setWord(word{busy: true, holder: c.crowd.metadata, limit: c.crowd.limit})
	}
}

// giveNext gives a grant to the first in the queue.
func (c *cohort) giveNext(got result) {
	w := c.queue.Front().Value.(*waiter)
	c.remove(w)
	if got.share != nil {
		got.share.callers++
	}
	w.results <- got // from here on, w is its caller's
}

// passOn hands a grant whose work ended in good order to the next in the queue, as handOver
// does. Its fence stays: it names the grant, and refuses nobody. It takes Table.mu.
func (c *cohort) passOn(g *watchdog.Grant) (done bool) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if !slices.Contains(c.crowd.grants, g) {
		return false // abandoned before
	}
	if c.queue.Len() > 0 && !c.crowd.readers() && c.mayPassOn(g) {
		c.giveNext(result{grant: g, fence: g.Fence, local: true})
		c.trim()
		return true
	}
	c.finish(g)
	return false
}

// mayPassOn says whether a grant may serve one caller more.
func (c *cohort) mayPassOn(g *watchdog.Grant) bool {
	at := g.Ended()
	if at == 0 {
		at = clock.Now()
	}
	return at.Sub(g.Begun) < c.window() && at < g.Deadline() && !g.Denied()
}

// finish ends the use of a grant.
func (c *cohort) finish(g *watchdog.Grant) {
	cr := c.crowd
	cr.grants = slices.DeleteFunc(cr.grants, func(one *watchdog.Grant) bool { return one == g })
	if cr.open != nil && cr.open.grant == g {
		cr.open = nil
	}
	c.drop()
}

// abandonOne gives up a grant that was lost. It takes Table.mu.
func (c *cohort) abandonOne(ctx context.Context, g *watchdog.Grant) {
	c.table.mu.Lock()
	c.finish(g)
	c.table.mu.Unlock()
	c.goOn(ctx)
}

// goOn claims for those in the queue when a grant is out of use: once its release was sent, so
// that those who wait elsewhere are in front. It takes Table.mu.
func (c *cohort) goOn(ctx context.Context) {
	c.table.mu.Lock()
	begun := c.claimMore()
	c.table.mu.Unlock()
	c.start(ctx, begun)
}

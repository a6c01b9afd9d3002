package cohort

import (
	"container/list"
	"context"
	"slices"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// cohort are the callers of this process that want one key. It has a queue of those who wait,
// and the one claim that stands for them all in the store. The claim is the first caller's
// own command, or one that waits, or has become a grant, which serves one caller after
// another for as long as the handover window is open: lock cohorting (Dice, Marathe,
// Shavit: Lock cohorting, PPoPP 2012).
type cohort struct {
	table *Table
	id    id

	// Guarded by Table.mu.
	lockState

	queue   list.List       // of *waiter: first come, first served
	claim   *claim          // who waits in the store for them
	grant   *watchdog.Grant // what was granted to this process and is in use
	stateAt clock.Instant   // when lockState was true last, while nobody here has a grant
	asking  int32           // how many in the queue only wait for the store's answer, see waiter.asks
	present bool            // in the Table
	pool    *pool           // in place of claim and grant, of callers that tolerate others
}

// id is what a cohort stands for. Claims of one key differ by ttl and kind of lease; each has
// a cohort of its own, and they contend in the store.
type id struct {
	key   string
	ttl   time.Duration
	fixed bool
	kind  string // of calls that tolerate others, see Table.idOf; empty = exclusive
}

// lockState is what is known of who holds a key.
type lockState struct {
	busy         bool             // somebody does: the store said so, or we do
	minHoldUntil clock.Instant    // nobody does any more, but its MinHold is over only then; 0 = somebody does
	holder       string           // Metadata of who does, as far as is known
	limit        guardstore.Limit // of those who do, as guardstore.ClaimReply has it
}

// lockStateOf is the store's.
func lockStateOf(r guardstore.ClaimReply) lockState {
	return lockState{busy: true, minHoldUntil: minHoldEnd(r), holder: r.Holder, limit: r.Limit}
}

// minHoldEnd is when the MinHold is over of work that is done, or 0.
func minHoldEnd(r guardstore.ClaimReply) clock.Instant {
	if !r.Done {
		return 0
	}
	return clock.Now().Add(r.Remaining)
}

// stateMaxAge is for how long the store's answer that a lock is busy is believed. Somebody whose
// wait is over later than that asks once more: the store may be gone, and the holder with it.
const stateMaxAge = 100 * time.Millisecond

// result is what a caller in the queue gets.
type result struct {
	grant  *watchdog.Grant
	fence  uint64
	local  bool   // handed over within this process
	joined bool   // without waiting
	share  *share // with others; nil = the grant is for one caller

	err   error
	state *lockState // with ErrBusy
}

// join puts a caller into the queue behind a claim or grant of this process; where there is
// none, the caller is the one to claim the key, and first is true. A caller that does
// not wait is not queued, unless it is yet to be known that the lock is busy. down is
// why nobody is to be asked, if that is known.
func (t *Table) join(w *waiter, down error) (c *cohort, first, queued bool) {
	id, pooled := t.idOf(&w.Request)
	t.mu.Lock()
	defer t.mu.Unlock()
	if c = t.cohorts[id]; c == nil {
		c = &cohort{table: t, id: id, present: true}
		if pooled {
			c.pool = newPool(&w.Request)
		}
		t.cohorts[id] = c
		return c, true, false
	}
	w.seen = c.lockState
	if c.pool != nil && !task.IsClosed(w.stop) {
		if c.joinShare(w) {
			return c, false, true
		}
		if c.reserve() {
			return c, true, false
		}
	}
	if g := c.grant; g != nil && w.begun.Sub(g.Begun) >= watchdog.ConfirmAfter {
		t.Watchdog.Confirm(g, w.begun)
	}
	known := c.knownBusy()
	switch {
	case w.Wait == 0 && known:
		return c, false, false
	case task.IsClosed(w.stop):
		w.results <- result{err: ErrClosed}
	case down != nil && !known:
		w.results <- result{err: down}
	default:
		w.place = c.queue.PushBack(w)
		if w.Wait == 0 {
			c.ask(w)
		}
	}
	return c, false, true
}

// knownBusy says that somebody holds the lock at this moment, as far as can be known here. It
// needs Table.mu.
func (c *cohort) knownBusy() bool {
	if c.pool != nil {
		return c.poolKnownBusy()
	}
	return c.grant != nil || c.busy && clock.Now().Sub(c.stateAt) < stateMaxAge
}

// ask has a caller in the queue told what the store says next. It needs Table.mu.
func (c *cohort) ask(w *waiter) {
	w.asks = true
	c.asking++
	switch { // else one is on its way
	case c.claim != nil:
		c.claim.signals.put(acquireNow)
	case c.pool != nil && len(c.pool.claims) > 0:
		c.pool.claims[0].signals.put(acquireNow)
	}
}

// askBeforeLeaving is for a caller whose wait is over: it asks once more, unless it is known already whether
// the lock is busy, or something was given to it.
func (c *cohort) askBeforeLeaving(w *waiter) (asks bool) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if w.place == nil || c.knownBusy() {
		return false
	}
	c.ask(w)
	return true
}

// setState notes who holds the lock, and tells those who ask. It needs Table.mu.
func (c *cohort) setState(now lockState) {
	c.lockState = now
	if c.asking == 0 {
		return
	}
	state := now // escapes, but only if somebody asks
	c.tell(result{err: ErrBusy, state: &state}, func(w *waiter) bool { return w.asks })
}

// tell gives callers in the queue what they need not wait for any longer. It needs Table.mu.
func (c *cohort) tell(r result, whom func(*waiter) bool) {
	for e := c.queue.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if whom(w) {
			c.removeUnserved(w)
			w.results <- r
		}
	}
}

// failFast tells those who do not wait for a store that does not answer: whoever asks, and who
// is to go on without a lock.
func (c *cohort) failFast(err error) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.tell(result{err: err}, func(w *waiter) bool { return w.asks || w.FailOpen })
}

// drop forgets a cohort that nobody needs. It needs Table.mu.
func (c *cohort) drop() {
	if c.present && (c.pool == nil || !c.inUse()) {
		c.present = false
		delete(c.table.cohorts, c.id)
	}
}

// setGrant notes that the first caller's own claim was granted.
func (c *cohort) setGrant(g *watchdog.Grant) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.grant = g
	c.setState(lockState{busy: true, holder: g.Claim.Metadata})
}

// setClaim makes the first caller's claim that of the queue. front is that caller if it waits
// on. Without anybody in the queue, nobody wants the claim.
func (c *cohort) setClaim(cl *claim, front *waiter) (wanted bool) {
	c.table.mu.Lock()
	if front != nil {
		front.place = c.queue.PushFront(front)
	}
	wanted = c.queue.Len() > 0
	if wanted {
		c.claim = cl
	} else {
		c.drop()
	}
	c.table.mu.Unlock()
	if wanted {
		c.table.notifier.register(cl)
	}
	return wanted
}

// leave takes a caller out of the queue. If it was given something meanwhile, that is
// returned for the caller to pass on.
func (c *cohort) leave(w *waiter) (got result, given bool) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if w.place == nil {
		return <-w.results, true
	}
	w.seen = c.lockState
	c.removeUnserved(w)
	return result{}, false
}

// removeUnserved takes a caller out of the queue that gets no grant. It needs Table.mu.
func (c *cohort) removeUnserved(w *waiter) {
	c.remove(w)
	if c.pool != nil {
		c.cancelSurplusClaims()
		c.drop()
		return
	}
	if c.queue.Len() == 0 && c.claim != nil {
		close(c.claim.unwanted)
		c.claim = nil
		c.drop()
	}
}

// remove needs Table.mu.
func (c *cohort) remove(w *waiter) {
	c.queue.Remove(w.place)
	w.place = nil
	if w.asks {
		c.asking--
	}
}

// give gives a grant to the first in the queue. It needs Table.mu.
func (c *cohort) give(r result) {
	w := c.queue.Front().Value.(*waiter)
	c.remove(w)
	c.grant = r.grant
	c.setState(lockState{busy: true, holder: w.Metadata})
	w.results <- r // from here on, w is its caller's
}

// granted gives what a claim was granted to the first in the queue. It returns false if
// nobody is there any more.
func (c *cohort) granted(ctx context.Context, cl *claim, g *watchdog.Grant) bool {
	if c.pool != nil {
		return c.admit(ctx, cl, g)
	}
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.claim != cl {
		return false
	}
	c.claim = nil
	c.give(result{grant: g, fence: g.Fence})
	return true
}

// fail tells everybody in the queue that the claim came to nothing.
func (c *cohort) fail(cl *claim, err error) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if !c.isCurrent(cl) {
		return
	}
	c.forget(cl)
	c.busy = false
	c.tell(result{err: err}, func(*waiter) bool { return true })
	c.drop()
}

// setHolder notes whom the queue waits for.
func (c *cohort) setHolder(r guardstore.ClaimReply) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.stateAt = clock.Now()
	c.setState(lockStateOf(r))
}

// handOver decides what becomes of a grant whose work ended in good order under a fence:
// it is handed to the next in the queue, or is to be released.
func (c *cohort) handOver(g *watchdog.Grant, fence uint64) (done bool) {
	if c.pool != nil {
		return c.handOverPermit(g)
	}
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.grant != g {
		return false // abandoned before
	}
	c.grant = nil
	if c.queue.Len() == 0 {
		c.drop()
		return false
	}
	at := g.Ended()
	if at == 0 {
		at = clock.Now()
	}
	if fence, ok := c.mayHandOver(g, fence, at); ok {
		c.give(result{grant: g, fence: fence, local: true})
		return true
	}
	c.stateAt = at
	return false
}

// goOn claims for those in the queue once the release of a grant was sent, so that those who
// wait elsewhere are in front.
func (c *cohort) goOn(ctx context.Context, fence uint64) {
	if c.pool != nil {
		c.claimMissing(ctx)
		return
	}
	c.table.mu.Lock()
	if !c.present || c.grant != nil || c.claim != nil {
		c.table.mu.Unlock()
		return
	}
	if c.queue.Len() == 0 {
		c.drop()
		c.table.mu.Unlock()
		return
	}
	cl := c.claimAnew(fence)
	c.table.mu.Unlock()
	c.table.notifier.register(cl)
	cl.start(ctx, true)
}

// window is for how long a grant passes from caller to caller.
func (c *cohort) window() time.Duration {
	return min(c.table.Handover, c.id.ttl/2) // the servers of a quorum may be as far apart
}

// mayHandOver says whether a grant whose work ended at may serve one caller more, and under which fence.
// The fence stays behind the clock of the server that minted the grant's, so that the
// server mints a larger one next, even if it forgot everything. One that is ahead of that
// clock is followed by the server's own only. A hold with a MinHold has a grant of its own:
// the server keeps it from then on.
func (c *cohort) mayHandOver(g *watchdog.Grant, fence uint64, at clock.Instant) (uint64, bool) {
	age := at.Sub(g.Begun)
	fence++
	window := c.window()
	next := c.queue.Front().Value.(*waiter)
	ok := !c.id.fixed && !g.FenceAhead && g.MinHold == 0 && next.MinHold == 0 &&
		age < window && at < g.Deadline() && !g.Denied() &&
		fence <= g.Fence+uint64(max(age.Microseconds(), 0)) //nolint:gosec // not negative
	return fence, ok
}

// claimAnew makes the claim by which those in the queue go on. It needs Table.mu.
func (c *cohort) claimAnew(fenceAbove uint64) *claim {
	c.claim = c.newClaim(fenceAbove)
	return c.claim
}

// newClaim makes a claim for those in the queue. It needs Table.mu.
func (c *cohort) newClaim(fenceAbove uint64) *claim {
	w := c.queue.Front().Value.(*waiter)
	request := c.table.newRequest(w)
	request.FenceAbove = fenceAbove
	return newClaim(c, w.Label, request)
}

// isCurrent says whether a claim still stands for those in the queue. It needs Table.mu.
func (c *cohort) isCurrent(cl *claim) bool {
	if c.pool != nil {
		return slices.Contains(c.pool.claims, cl)
	}
	return c.claim == cl
}

// forget forgets a claim that stands for nobody any more. It needs Table.mu.
func (c *cohort) forget(cl *claim) {
	if c.pool != nil {
		c.pool.claims = slices.DeleteFunc(c.pool.claims, func(one *claim) bool { return one == cl })
		return
	}
	c.claim = nil
}

// abandon gives up a grant that was lost, or whose release is not answered: those in
// the queue do not wait for it.
func (c *cohort) abandon(ctx context.Context, g *watchdog.Grant, fence uint64) {
	if c.pool != nil {
		c.abandonPermit(ctx, g)
		return
	}
	c.table.mu.Lock()
	if c.grant != g {
		c.table.mu.Unlock()
		return
	}
	c.grant = nil
	if c.queue.Len() == 0 {
		c.drop()
		c.table.mu.Unlock()
		return
	}
	cl := c.claimAnew(fence)
	c.table.mu.Unlock()
	c.table.notifier.register(cl)
	cl.start(ctx, true)
}

package cohort

import (
	"container/list"
	"context"
	"math"
	"slices"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// A cohort is the callers of this process that want one key. It has a queue of the callers that wait,
// and claims that stand for them in the store. A claim becomes a grant, which serves one caller
// after another for as long as the handover window is open: lock cohorting (Dice, Marathe,
// Shavit: Lock cohorting, PPoPP 2012).
//
// The first caller sends its own claim. Once the claim waits in the store, it runs on a goroutine of its own, as any
// grant may serve any caller in the queue.
type cohort struct {
	table *Table
	id    id
	room  room

	// Guarded by Table.mu.
	state     State
	stateAt   clock.Instant // when state was true last, while not all grants are in use
	queue     list.List     // of *waiter: first come, first served
	grants    []*grant      // in use here, the newest last
	claims    []*claim      // waiting in the store for those in the queue; no more than there are
	reserved  int           // callers whose own claim was sent and not answered
	releasing int           // grants and claims whose release was sent and not answered, and that the next claim waits for
	floor     uint64        // the fence of a claim must be above it
	metadata  string        // of the caller that got a grant last
	asking    int           // how many in the queue wait for the store's next answer only, see waiter.asks
}

// id is what a cohort stands for. Claims of one key differ by ttl, kind of lease and limit; each has
// a cohort of its own, and they contend in the store.
type id struct {
	key   string
	ttl   time.Duration
	limit guardstore.Limit
	once  guardstore.Once
	alone uint64 // of a call that shares nothing, see Table.idOf
}

// room is how kinds of locks differ: how many grants of a cohort may be in use at once, how many claims
// it sends for them at most, and how many callers one grant serves at the same time.
type room struct{ grants, claims, callers int }

func (id *id) room() room {
	switch {
	case id.limit == guardstore.Exclusive, id.alone > 0:
		return room{1, 1, 1}
	case id.limit == guardstore.Unlimited:
		return room{math.MaxInt, 1, math.MaxInt}
	}
	return room{int(id.limit), int(id.limit), 1}
}

// idOf returns the cohort of a caller. Callers with different Metadata share claims: the store shows the
// Metadata of one of them. With a window of 0, a grant of Limit or Shared is not
// passed from caller to caller, so such a call has a cohort of its own.
func (t *Table) idOf(r *Request) id {
	id := id{key: r.Claim.Key, ttl: r.Claim.TTL, limit: r.Claim.Limit}
	if r.Claim.Once != nil {
		id.once = *r.Claim.Once
	}
	if id.limit != guardstore.Exclusive && (r.Alone || t.Handover == 0) {
		id.alone = t.alone.Add(1)
	}
	return id
}

// stateOf returns the State that the store's answer says.
func stateOf(r guardstore.ClaimReply) State {
	s := State{Busy: true, Holder: r.Holder, Limit: r.Limit}
	if r.Done {
		s.MinHoldUntil = clock.Now().Add(r.Remaining)
	}
	return s
}

// stateMaxAge is for how long the store's answer that a lock is busy counts. A caller whose wait ends
// later than that asks once more: the store may be gone, and the holder with it.
const stateMaxAge = 100 * time.Millisecond

// join puts a caller into the queue, or gives it its result. If the queue is empty and there is room, first is
// true, and the caller sends its own claim instead. A caller that does not wait is queued only while it is not
// known whether the lock is busy.
func (t *Table) join(ctx context.Context, w *waiter) (c *cohort, first bool) {
	id := t.idOf(&w.Request)
	t.mu.Lock()
	defer t.mu.Unlock()
	c = t.cohorts[id]
	if c == nil {
		c = &cohort{table: t, id: id, room: id.room()}
		if w.Down == nil {
			t.cohorts[id] = c
		}
	}
	w.seen = c.state
	switch {
	case task.IsClosed(w.stop):
		w.results <- result{err: ErrClosed}
	case c.room.callers > 1 && c.joinGrant(w): // it has its result
	case w.Down != nil && !c.full():
		w.results <- result{err: w.Down}
	case c.queue.Len() == 0 && c.room.claims > c.reserved && c.room.grants > len(c.grants)+c.reserved+c.releasing:
		c.reserved++ // keeps room for its grant
		return c, true
	case !w.Waits && c.knownBusy():
		w.results <- result{err: ErrBusy}
	case !w.Waits:
		w.place = c.queue.PushBack(w)
		c.ask(w)
	default:
		w.noteBusy()
		w.place = c.queue.PushBack(w)
		c.startMissingClaims(ctx) // there may be room for one more
	}
	return c, false
}

// What follows needs Table.mu, unless it takes it.

// full returns whether this process has all grants that there may be.
func (c *cohort) full() bool { return len(c.grants) >= c.room.grants }

// knownBusy returns whether the lock is busy at this moment, as far as this process can know.
func (c *cohort) knownBusy() bool {
	switch {
	case c.full():
		return true
	case c.room.grants > 1 && c.releasing > 0:
		return false // there may be room once the store has what this process gives back
	}
	return c.state.Busy && clock.Now().Sub(c.stateAt) < stateMaxAge
}

// drop removes a cohort whose key no caller has or wants.
func (c *cohort) drop() {
	unused := c.queue.Len()+len(c.grants)+len(c.claims)+c.reserved+c.releasing == 0
	if unused && c.table.cohorts[c.id] == c {
		delete(c.table.cohorts, c.id)
	}
}

// change changes a cohort, and starts the claims that are missing then. It takes Table.mu.
func (c *cohort) change(ctx context.Context, do func()) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	do()
	c.startMissingClaims(ctx)
	c.drop()
}

// ask makes a caller in the queue get the store's next answer.
func (c *cohort) ask(w *waiter) {
	w.asks = true
	c.asking++
	if len(c.claims) > 0 { // else a claim was sent and is not answered yet
		c.claims[0].signals.put(acquireNow)
	}
}

// askBeforeLeaving is for a caller whose wait has ended. It asks once more, unless the lock is known to
// be busy, or the caller was given a result. It takes Table.mu.
func (c *cohort) askBeforeLeaving(w *waiter) (asks bool) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if w.place == nil || c.knownBusy() {
		return false
	}
	c.ask(w)
	return true
}

// setState notes the holder of the lock, and answers callers that ask.
func (c *cohort) setState(s State) {
	c.state = s
	if c.asking > 0 {
		c.endWaits(ErrBusy, func(w *waiter) bool { return w.asks })
	}
}

// setHolder notes which holder the queue waits for. It takes Table.mu.
func (c *cohort) setHolder(s State) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.stateAt = clock.Now()
	c.setState(s)
}

// metadataInFront returns the Metadata of the first caller in the queue, which the next grant serves, or none if the
// queue is empty. It takes Table.mu.
func (c *cohort) metadataInFront(none string) string {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.queue.Len() == 0 {
		return none
	}
	return c.queue.Front().Value.(*waiter).Claim.Metadata
}

// endWaits ends the wait of some callers in the queue with an error.
func (c *cohort) endWaits(err error, which func(*waiter) bool) {
	for e := c.queue.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if which(w) {
			c.removeUnserved(w)
			w.results <- result{err: err}
		}
	}
}

// failQueue ends the wait of all callers in the queue: the first caller's claim got no answer in time, and
// another claim would take as long to learn the same. Or the record says that nothing is to run. It takes Table.mu.
func (c *cohort) failQueue(err error) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.endWaits(err, func(*waiter) bool { return true })
}

// failQueueOf ends the wait of all callers in the queue, if cl still is their claim: it failed. It takes Table.mu.
func (c *cohort) failQueueOf(cl *claim, err error) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.forget(cl) {
		c.endWaits(err, func(*waiter) bool { return true })
	}
}

// leave takes a caller out of the queue. If the caller was given a result meanwhile, it returns that.
// It takes Table.mu.
func (c *cohort) leave(w *waiter) (got result, given bool) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if w.place == nil {
		return <-w.results, true
	}
	c.removeUnserved(w)
	return result{}, false
}

// removeUnserved takes a caller out of the queue that gets no grant.
func (c *cohort) removeUnserved(w *waiter) {
	w.seen = c.state
	c.remove(w)
	c.cancelSurplusClaims()
	c.drop()
}

func (c *cohort) remove(w *waiter) {
	c.queue.Remove(w.place)
	w.place = nil
	if w.asks {
		c.asking--
	}
}

// missingClaims returns how many claims to add for the callers in the queue. The store could not grant more.
func (c *cohort) missingClaims() int {
	return min(c.queue.Len(), c.room.grants-len(c.grants)-c.reserved-c.releasing, c.room.claims-c.reserved) - len(c.claims)
}

// startMissingClaims starts the claims that are missing.
func (c *cohort) startMissingClaims(ctx context.Context) {
	for c.missingClaims() > 0 {
		w := c.queue.Front().Value.(*waiter)
		request := w.Claim
		request.Owner, request.FenceAbove = c.table.NewOwner(request.Limit), c.floor
		cl := newClaim(c, w.Label, request)
		cl.signals.put(acquireNow)
		cl.start(ctx)
	}
}

// cancelSurplusClaims ends the claims that no caller wants, the newest first.
func (c *cohort) cancelSurplusClaims() {
	for last := len(c.claims) - 1; last >= c.queue.Len(); last-- {
		cl := c.claims[last]
		close(cl.unwanted)
		c.countLeaving(cl)
		c.claims = slices.Delete(c.claims, last, last+1)
	}
	if c.queue.Len() == 0 && !c.full() {
		c.state = State{} // no claim asks any more
	}
}

// forget removes a claim, and returns whether the cohort had it.
func (c *cohort) forget(cl *claim) bool {
	at := slices.Index(c.claims, cl)
	if at >= 0 {
		c.claims = slices.Delete(c.claims, at, at+1)
	}
	return at >= 0
}

// countLeaving counts a claim of a Limit that leaves: the store may have granted it, and the next caller of this process
// must not find the key full because of that.
func (c *cohort) countLeaving(cl *claim) {
	if c.room.grants > 1 {
		cl.counted = true
		c.releasing++
	}
}

// countLeft ends what countLeaving began: the claim has left, or is a grant.
func (c *cohort) countLeft(cl *claim) {
	if cl.counted {
		cl.counted = false
		c.releasing--
	}
}

// addClaim makes a caller's own claim one of the cohort's. The caller w waits in the queue from then on; w is nil
// if no caller does. A claim that no caller wants leaves. It takes Table.mu.
func (c *cohort) addClaim(ctx context.Context, cl *claim, w *waiter) {
	wanted := false
	c.change(ctx, func() {
		c.reserved--
		if w != nil {
			c.insert(w)
		} else {
			cl.signals.put(acquireNow)
		}
		if wanted = c.missingClaims() > 0; wanted {
			cl.start(ctx)
		} else {
			c.countLeaving(cl)
		}
	})
	if !wanted {
		cl.undo(ctx)
	}
}

// insert puts a caller whose own claim has to wait into the queue, before the callers that came later.
func (c *cohort) insert(w *waiter) {
	for e := c.queue.Front(); e != nil; e = e.Next() {
		if e.Value.(*waiter).begun >= w.begun {
			w.place = c.queue.InsertBefore(w, e)
			return
		}
	}
	w.place = c.queue.PushBack(w)
}

package guard

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// contenders are the keys that this instance holds or wants. Claims of one key differ by
// ttl and kind of lease; each has a contender of its own, and they contend in the store.
type contenders struct {
	mu sync.Mutex // guards the map and every contender in it
	m  map[contenderID]*contender

	callers sync.Pool // of those that are out of line
}

type contenderID struct {
	key   string
	ttl   time.Duration
	fixed bool
	alone uint64 // not 0 for a call that tolerates others: it shares its claim with nobody
}

// contender stands between the callers of this instance and the store: a line of
// callers, and the one claim that stands for them all. The claim is the first caller's
// own command, or a pursuit, or has become a grant, which serves one caller after
// another for as long as the handover window is open: lock cohorting (Dice, Marathe,
// Shavit: Lock cohorting, PPoPP 2012).
type contender struct {
	g  *Guard
	id contenderID

	// Guarded by contenders.mu.
	line    list.List       // of *caller: who waits, first come first
	claim   *pursuit        // who waits in the store for them
	grant   *watchdog.Grant // what was granted to this instance and is in use
	busy    bool            // somebody holds the lock: the store said so, or we do
	said    clock.Instant   // when that was known last
	asking  int             // how many in line only wait for the store's word, see caller.asks
	rest    clock.Instant   // nobody does any more, but its MinHold is over only then; 0 = somebody does
	holder  string          // Metadata of who does, as far as is known
	limit   int             // the strictest of those who do, if they tolerate others
	present bool            // in the map
}

// caller is a call that waits in line.
type caller struct {
	call   call
	stop   <-chan struct{} // who is in line is told by dismiss
	awards chan award      // one slot
	place  *list.Element
	busy   bool          // as the contender had it when the call joined, or left
	rest   clock.Instant // likewise
	holder string        // likewise
	limit  int           // likewise
	asks   bool          // its wait is over, or was none: the store's next word is its answer
}

// freshWord is for how long the store's word that a lock is busy is believed. Somebody whose
// wait is over later than that asks once more: the store may be gone, and the holder with it.
const freshWord = 100 * time.Millisecond

// errBusy tells a caller that asks that the store said so.
var errBusy = errors.New("busy")

func (cs *contenders) newCaller(c call, stop <-chan struct{}) *caller {
	w, _ := cs.callers.Get().(*caller)
	if w == nil {
		w = &caller{awards: make(chan award, 1)}
	}
	w.call, w.stop = c, stop
	return w
}

// free takes back a caller that is out of line, and took what it was given.
func (cs *contenders) free(w *caller) {
	*w = caller{awards: w.awards}
	cs.callers.Put(w)
}

// award is what a caller in line gets.
type award struct {
	grant  *watchdog.Grant
	fence  uint64
	local  bool // handed over within this instance
	err    error
	holder string        // with errBusy
	rest   clock.Instant // likewise
	limit  int           // likewise
}

// join puts a caller in line behind a claim or grant of this instance; where there is
// none, the caller is the one to claim the key, and first is true. A caller that does
// not wait is not put in line, unless it is yet to be known that the lock is busy. down is
// why nobody is to be asked, if that is known.
func (g *Guard) join(w *caller, down error) (c *contender, first, inLine bool) {
	id := contenderID{key: w.call.lock.Key, ttl: w.call.ttl, fixed: w.call.fixed}
	if !exclusive(w.call.limit) {
		id.alone = g.alone.Add(1)
	}
	g.contenders.mu.Lock()
	defer g.contenders.mu.Unlock()
	if c = g.contenders.m[id]; c == nil {
		c = &contender{g: g, id: id, present: true}
		g.contenders.m[id] = c
		return c, true, false
	}
	w.busy, w.holder, w.rest, w.limit = c.busy, c.holder, c.rest, c.limit
	sure := c.sure()
	switch {
	case w.call.wait == 0 && sure:
		return c, false, false
	case task.IsClosed(w.stop):
		w.awards <- award{err: ErrClosed}
	case down != nil && !sure:
		w.awards <- award{err: down}
	default:
		w.place = c.line.PushBack(w)
		if w.call.wait == 0 {
			c.ask(w)
		}
	}
	return c, false, true
}

// sure says that somebody holds the lock at this moment, as far as can be known here. It
// needs contenders.mu.
func (c *contender) sure() bool {
	return c.grant != nil || c.busy && clock.Now().Sub(c.said) < freshWord
}

// ask has a caller in line told what the store says next. It needs contenders.mu.
func (c *contender) ask(w *caller) {
	w.asks = true
	c.asking++
	if c.claim != nil {
		c.claim.messages.put(askMessage) // else one is on its way
	}
}

// askLast is for a caller whose wait is over: it asks, unless it is known already whether
// the lock is busy, or something was given to it.
func (c *contender) askLast(w *caller) (asks bool) {
	c.g.contenders.mu.Lock()
	defer c.g.contenders.mu.Unlock()
	if w.place == nil || c.sure() {
		return false
	}
	c.ask(w)
	return true
}

// know notes that somebody holds the lock, and tells those who ask. It needs contenders.mu.
func (c *contender) know(holder string, rest clock.Instant, limit int) {
	c.busy, c.holder, c.rest, c.limit, c.said = true, holder, rest, limit, clock.Now()
	if c.asking == 0 {
		return
	}
	c.tell(award{err: errBusy, holder: holder, rest: rest, limit: limit}, func(w *caller) bool { return w.asks })
}

// tell gives callers in line what they need not wait for any longer. It needs contenders.mu.
func (c *contender) tell(a award, whom func(*caller) bool) {
	for e := c.line.Front(); e != nil; {
		w := e.Value.(*caller)
		e = e.Next()
		if whom(w) {
			c.quit(w)
			w.awards <- a
		}
	}
}

// refuse tells those who do not wait for a store that does not answer: whoever asks, and who
// is to go on without a lock.
func (c *contender) refuse(err error) {
	c.g.contenders.mu.Lock()
	defer c.g.contenders.mu.Unlock()
	c.tell(award{err: err}, func(w *caller) bool { return w.asks || w.call.failOpen })
}

// dismiss tells those in line that the Guard closes, if it does so for them. That they
// do not listen for it themselves makes waiting, and being woken, cheaper for all.
func (cs *contenders) dismiss() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.m {
		c.tell(award{err: ErrClosed}, func(w *caller) bool { return task.IsClosed(w.stop) })
	}
}

// remove needs contenders.mu.
func (c *contender) remove() {
	if c.present {
		c.present = false
		delete(c.g.contenders.m, c.id)
	}
}

// took notes that the first caller's own claim was granted.
func (c *contender) took(t *watchdog.Grant) {
	c.g.contenders.mu.Lock()
	defer c.g.contenders.mu.Unlock()
	c.grant = t
	c.know(t.Claim.Metadata, 0, 0)
}

// pursue makes the first caller's claim that of the line. front is that caller if it waits
// on. Without anybody in line, there is nothing to pursue.
func (c *contender) pursue(p *pursuit, front *caller) (wanted bool) {
	c.g.contenders.mu.Lock()
	if front != nil {
		front.place = c.line.PushFront(front)
	}
	wanted = c.line.Len() > 0
	if wanted {
		c.claim = p
	} else {
		c.remove()
	}
	c.g.contenders.mu.Unlock()
	if wanted {
		c.g.grants.register(p)
	}
	return wanted
}

// leave takes a caller out of line. If it was given something meanwhile, that is
// returned for the caller to pass on.
func (c *contender) leave(w *caller) (got award, given bool) {
	c.g.contenders.mu.Lock()
	defer c.g.contenders.mu.Unlock()
	if w.place == nil {
		return <-w.awards, true
	}
	w.busy, w.holder, w.rest, w.limit = c.busy, c.holder, c.rest, c.limit
	c.quit(w)
	return award{}, false
}

// quit takes a caller out of line that gets nothing. It needs contenders.mu.
func (c *contender) quit(w *caller) {
	c.out(w)
	if c.line.Len() == 0 && c.claim != nil {
		close(c.claim.deserted)
		c.claim = nil
		c.remove()
	}
}

// out needs contenders.mu.
func (c *contender) out(w *caller) {
	c.line.Remove(w.place)
	w.place = nil
	if w.asks {
		c.asking--
	}
}

// give gives a grant to the first in line. It needs contenders.mu.
func (c *contender) give(a award) {
	w := c.line.Front().Value.(*caller)
	c.out(w)
	c.grant = a.grant
	c.know(w.call.metadata, 0, 0)
	w.awards <- a // from here on, w is its caller's
}

// award gives the grant that a pursuit was granted to the first in line. It returns
// false if nobody is there any more.
func (c *contender) award(p *pursuit, t *watchdog.Grant) bool {
	c.g.contenders.mu.Lock()
	defer c.g.contenders.mu.Unlock()
	if c.claim != p {
		return false
	}
	c.claim = nil
	c.give(award{grant: t, fence: t.Fence})
	return true
}

// fail tells everybody in line that the claim came to nothing.
func (c *contender) fail(p *pursuit, err error) {
	c.g.contenders.mu.Lock()
	defer c.g.contenders.mu.Unlock()
	if c.claim != p {
		return
	}
	c.claim = nil
	c.busy = false
	c.tell(award{err: err}, func(*caller) bool { return true })
	c.remove()
}

// sawBusy notes whom the line waits for.
func (c *contender) sawBusy(r guardstore.ClaimReply) {
	c.g.contenders.mu.Lock()
	defer c.g.contenders.mu.Unlock()
	c.know(r.Holder, restOf(r), r.Limit)
}

// restOf is when the MinHold is over of work that is done, or 0.
func restOf(r guardstore.ClaimReply) clock.Instant {
	if !r.Done {
		return 0
	}
	return clock.Now().Add(r.Remaining)
}

// keeps notes that the grant of this instance is over, but not its MinHold.
func (c *contender) keeps(r guardstore.ClaimReply) {
	c.g.contenders.mu.Lock()
	defer c.g.contenders.mu.Unlock()
	if c.grant == nil {
		c.rest = restOf(r)
	}
}

// pass decides what becomes of a grant whose work ended in good order under a fence:
// it is handed to the next in line, or is to be released, with a next claim if anybody
// is in line.
func (c *contender) pass(t *watchdog.Grant, fence uint64) (passed bool, next *pursuit) {
	c.g.contenders.mu.Lock()
	defer c.g.contenders.mu.Unlock()
	if c.grant != t {
		return false, nil // given up as lost before
	}
	c.grant, c.said = nil, clock.Now()
	if c.line.Len() == 0 {
		c.remove()
		return false, nil
	}
	if fence, ok := c.mayHandOver(t, fence); ok {
		c.give(award{grant: t, fence: fence, local: true})
		return true, nil
	}
	return false, c.renew(fence)
}

// mayHandOver says whether a grant may serve one caller more, and under which fence.
// The fence stays behind the clock of the server that minted the grant's, so that the
// server mints a larger one next, even if it forgot everything. One that is ahead of that
// clock is followed by the server's own only. A hold with a MinHold has a grant of its own:
// the server keeps it from then on.
func (c *contender) mayHandOver(t *watchdog.Grant, fence uint64) (uint64, bool) {
	at := t.Ended()
	if at == 0 {
		at = clock.Now()
	}
	age := at.Sub(t.Begun)
	fence++
	window := min(c.g.handover, c.id.ttl/2) // the servers of a quorum may be as far apart
	ok := !c.id.fixed && !t.FenceAhead && t.MinHold == 0 && c.line.Front().Value.(*caller).call.minHold == 0 && age < window && at < t.Deadline() && !t.Denied() &&
		fence <= t.Fence+uint64(max(age.Microseconds(), 0)) //nolint:gosec // not negative
	return fence, ok
}

// renew makes the claim by which those in line go on. It needs contenders.mu.
func (c *contender) renew(floor uint64) *pursuit {
	w := c.line.Front().Value.(*caller)
	claim := c.g.newClaim(w.call)
	claim.FenceAbove = floor
	c.claim = newPursuit(c, w.call.lock, claim)
	return c.claim
}

// forsake gives up a grant that was lost, or whose release is not answered: those in
// line do not wait for it.
func (c *contender) forsake(ctx context.Context, t *watchdog.Grant, fence uint64) {
	c.g.contenders.mu.Lock()
	if c.grant != t {
		c.g.contenders.mu.Unlock()
		return
	}
	c.grant = nil
	if c.line.Len() == 0 {
		c.remove()
		c.g.contenders.mu.Unlock()
		return
	}
	p := c.renew(fence)
	c.g.contenders.mu.Unlock()
	c.g.grants.register(p)
	p.start(ctx, true)
}

package cohort

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/retry"
)

// How often a waiting claim asks without a message, in case messages are lost. The first two
// in the queue ask more often: they notice when the holder dies, or the holder and the first.
// While those two live, the other claims do not need to. The claims near the head ask more often than
// the rest, for the case that several at the head fall silent at once, as when a host loses its network: then
// the lock is granted to each silent claim in turn, until a live one asks. The scripts skip a claim
// that did not ask for 25 s.
const (
	pollFirst        = time.Second
	pollNear         = 3 * time.Second  // to 4.2 s
	nearMost         = 8                // claims, with the first two
	pollQueued       = 10 * time.Second // to 14 s
	pollUnsubscribed = time.Second      // while no messages flow
	resubscribedWait = 200 * time.Millisecond
	expirySlack      = 50 * time.Millisecond
	pollSlack        = 5 * time.Millisecond
)

// claim waits in the store for the callers in a cohort's queue, on a goroutine of its own. Its trace says
// what the store may have written about its owner. A claim that ends has to undo that:
//
//	        | asked, and the answer is:                                    | when it leaves, as it is
//	trace   | busy    | nothing, in time | held                 | finished | unwanted, or refused:
//	--------+---------+------------------+----------------------+----------+-------------------------
//	none    | known   | inDoubt          | a grant              | inDoubt  | nothing
//	known   | known   | inDoubt          | a grant              | inDoubt  | a release
//	inDoubt | inDoubt | inDoubt          | one with a tombstone | inDoubt  | a release and a tombstone
//
// A finished claim leaves, and starts over under a new owner, with trace none. So does a claim whose grant came too late
// to be used. A grant takes the claim's place.
type claim struct {
	table    *Table
	cohort   *cohort
	label    retry.Label
	request  guardstore.Claim
	unwanted chan struct{} // closed when no caller wants the claim any more
	signals  signals
	trace    trace
	counted  bool // in cohort.releasing; guarded by Table.mu

	ahead     int           // claims in front of it in the store's queue, when last asked
	head      head          // of the store's queue
	expires   clock.Instant // when the holder expires, by the first answer to this claim
	remaining time.Duration // the holder's ttl, by the last answer
	missed    uint64        // notifier.missed before the store could publish to the claim
}

// trace says what the store may have written about an owner.
type trace int

const (
	none    trace = iota // nothing
	known                // a place in the queue
	inDoubt              // a command may still be on its way, or was not answered
)

// head is what a claim knows of the head of the store's queue: whether a live claim is there and asks. The
// other claims rely on that.
type head int

const (
	unseen head = iota // perhaps no live claim is there
	seen               // the same, and it is known when the holder expires
	alive              // that expiry moved: a live process renews or asks
)

func newClaim(c *cohort, label retry.Label, request guardstore.Claim) *claim {
	request.Queue = true
	return &claim{
		table: c.table, cohort: c, label: label, request: request, unwanted: make(chan struct{}),
		signals: signals{ready: make(chan struct{}, 1)}, ahead: nearMost, missed: c.table.notifier.missed.Load(),
	}
}

// noteBusy notes what a busy reply says of the queue and the holder.
func (cl *claim) noteBusy(r guardstore.ClaimReply) {
	if r.Ticket > 0 {
		cl.trace = max(cl.trace, known)
	}
	cl.request.Ticket, cl.ahead, cl.remaining = r.Ticket, r.Ahead, r.Remaining
	switch expires := clock.Now().Add(r.Remaining); {
	case cl.head == unseen:
		cl.head, cl.expires = seen, expires
	case expires > cl.expires.Add(expirySlack):
		cl.head = alive
	}
}

// start makes the claim one of its cohort's, and runs it on a goroutine until the queue is empty. The commands carry the
// values of ctx, which is the context of some caller. It needs Table.mu.
func (cl *claim) start(ctx context.Context) {
	t, c := cl.table, cl.cohort
	t.notifier.register(cl)
	ctx = context.WithoutCancel(ctx)
	if t.Tasks.Go(func() { cl.run(ctx) }) {
		c.claims = append(c.claims, cl)
		return
	}
	t.notifier.unregister(cl.request.Owner)
	c.endWaits(ErrClosed, func(*waiter) bool { return true })
}

// run waits and asks until the first caller in the queue has the lock, or the queue is empty.
func (cl *claim) run(ctx context.Context) {
	due := clock.Now().Add(cl.pollInterval()) // messages move it earlier, never later
	timer := time.NewTimer(due.Until())
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-cl.signals.ready:
			s := cl.signals.take()
			if s&isFirst != 0 {
				cl.ahead = 1
			}
			if s&mayHaveMissed != 0 {
				// Perhaps the server failed that sent them. Its successor may still have a holder and claims
				// that are finished, and then no claim at the head asks.
				cl.head = unseen
			}
			if s&acquireNow == 0 {
				wait := cl.pollInterval()
				if s&mayHaveMissed != 0 {
					wait = rand.N(resubscribedWait)
				}
				due = min(due, clock.Now().Add(wait))
				timer.Reset(due.Until())
				continue
			}
		case <-cl.unwanted:
			cl.undo(ctx)
			return
		}
		if !cl.acquire(ctx) {
			return
		}
		due = clock.Now().Add(cl.pollInterval())
		timer.Reset(due.Until())
	}
}

// pollInterval is how long to wait for a message before asking without one.
func (cl *claim) pollInterval() time.Duration {
	usual := pollQueued
	if cl.ahead < nearMost {
		usual = pollNear
	}
	switch {
	case cl.ahead <= 1:
		interval := pollFirst - rand.N(pollFirst/5)
		return min(interval, max(cl.remaining, 0)+pollSlack+rand.N(pollSlack))
	case !cl.table.notifier.subscribed.Load():
		return pollUnsubscribed
	case cl.head != alive:
		return min(usual, max(cl.remaining, 0)) + rand.N(pollFirst)
	}
	return usual + rand.N(usual*2/5)
}

// acquire sends the claim. It returns false if the claim has ended.
func (cl *claim) acquire(ctx context.Context) (waits bool) {
	t, c := cl.table, cl.cohort
	cl.request.Unsubscribed = !t.notifier.subscribed.Load()
	cl.request.Metadata = c.metadataInFront(cl.request.Metadata)
	t.Awake(clock.Now())
	a, err := retry.Do(ctx, t.Calls, retry.Call{Op: acquireOp, Label: cl.label, For: t.Calls.Timeout, Stop: cl.unwanted}, t.Store.Acquire, cl.request)
	switch {
	case a.InDoubt:
		cl.trace = inDoubt
	case err == nil:
		cl.trace = max(cl.trace, known)
	}
	switch reply := a.Reply; {
	case errors.Is(err, retry.ErrStopped):
	case err != nil:
		c.failQueueOf(cl, err)
	case reply.Status == guardstore.ClaimHeld:
		g := &grant{Grant: t.watchdog.NewGrant(cl.request, reply, a.Sent, cl.trace == inDoubt)}
		if g.Err() != nil { // it came too late
			return cl.startOver(ctx)
		}
		if c.admit(ctx, cl, g) {
			t.notifier.unregister(cl.request.Owner)
			return false
		}
	case reply.Status == guardstore.ClaimRecorded:
		c.failQueue(&RecordedError{reply.Record})
	case reply.Status == guardstore.ClaimFinished:
		cl.trace = inDoubt // it may hold the lock, and be revoked
		return cl.startOver(ctx)
	default: // busy
		cl.noteBusy(reply)
		c.setHolder(stateOf(reply))
		return true
	}
	cl.undo(ctx)
	return false
}

// startOver makes the claim leave, and asks at once under a new owner.
func (cl *claim) startOver(ctx context.Context) (waits bool) {
	cl.undo(ctx)
	cl.request.Owner, cl.request.Ticket, cl.trace = cl.table.NewOwner(cl.request.Limit), 0, none
	cl.table.notifier.register(cl)
	cl.signals.put(acquireNow)
	return true
}

// undo takes the claim out of the store's queue, asynchronously, and releases the lock if the claim
// has it, or may still get it.
func (cl *claim) undo(ctx context.Context) {
	t, r := cl.table, cl.request
	t.notifier.unregister(r.Owner)
	if cl.trace == none {
		cl.left(ctx)
		return
	}
	c := retry.Call{Op: releaseOp, Label: cl.label, For: r.TTL + t.Calls.Timeout, Stop: t.Abort, RepeatRefused: true}
	release := guardstore.Release{
		Key: r.Key, Owner: r.Owner, TTL: r.TTL, Tombstone: cl.trace == inDoubt, Limit: r.Limit, Record: neverRan(r.Once),
	}
	t.async(ctx, func(ctx context.Context) {
		_, _ = retry.Do(ctx, t.Calls, c, t.Store.Release, release)
		cl.left(ctx)
	})
}

// left makes the claims for which there was no room while this claim left.
func (cl *claim) left(ctx context.Context) {
	cl.cohort.change(ctx, func() { cl.cohort.countLeft(cl) })
}

// signal wakes a claim that waits. Signals that were not read yet add up to one.
type signal uint32

const (
	acquireNow    signal = 1 << iota
	isFirst              // in the queue
	mayHaveMissed        // messages
)

// signals holds the signals that were not read yet. A write never blocks, and no signal is lost.
type signals struct {
	ready  chan struct{} // one slot
	unread atomic.Uint32
}

func (s *signals) put(one signal) {
	s.unread.Or(uint32(one))
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

func (s *signals) take() signal { return signal(s.unread.Swap(0)) }

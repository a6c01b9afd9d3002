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
	mostLate         = 2 // grants that arrived after their ttl, before the claim fails
)

var errLate = errors.New("answers take longer than the ttl")

// claim waits in the store for the callers in a cohort's queue, on a goroutine of its own. Its trace says
// what the store may have written about its owner. A claim that leaves has to undo that:
//
//	        | asked, and the answer is:                                    | when it leaves, as it is
//	trace   | busy    | nothing, in time | held                 | finished | unwanted, or refused:
//	--------+---------+------------------+----------------------+----------+-------------------------
//	none    | known   | inDoubt          | a grant              | inDoubt  | nothing
//	known   | known   | inDoubt          | a grant              | inDoubt  | a release
//	inDoubt | inDoubt | inDoubt          | one with a tombstone | inDoubt  | a release and a tombstone
//
// A finished claim leaves, and goes on under a new owner, with trace none. A grant takes the claim's place.
type claim struct {
	table    *Table
	cohort   *cohort
	label    retry.Label
	request  guardstore.Claim
	unwanted chan struct{} // closed when no caller wants the claim any more
	signals  signals
	trace    trace
	leaving  bool // it counts in cohort.leaving; guarded by Table.mu

	ahead     int           // claims in front of it in the store's queue, when last asked
	head      head          // what is known of the first in the queue
	expires   clock.Instant // when the holder expires, by the first answer to this claim
	remaining time.Duration // the holder's ttl, by the last answer
	late      int           // how many grants arrived too late
	missed    uint64        // notifier.missed before the store could publish to the claim
}

// trace is what the store may have written about an owner. Each value includes the one before it.
type trace int

const (
	none    trace = iota // no command went out
	known                // each command was answered
	inDoubt              // a command may still be on its way
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

// queued notes the answer that the claim is in the store's queue.
func (cl *claim) queued(r guardstore.ClaimReply) {
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

// start runs the claim on a goroutine until the queue is empty. The commands carry the values of ctx,
// which is the context of some caller.
func (cl *claim) start(ctx context.Context, askNow bool) {
	if askNow {
		cl.signals.put(acquireNow)
	}
	ctx = context.WithoutCancel(ctx)
	if !cl.table.Tasks.Go(func() { cl.run(ctx) }) {
		cl.table.notifier.unregister(cl.request.Owner)
		cl.cohort.fail(cl, ErrClosed)
		cl.cohort.left(ctx, cl)
	}
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
				cl.ahead = min(cl.ahead, 1)
			}
			if s&mayHaveMissed != 0 {
				// Perhaps the server failed that sent them. Its successor may still have a holder and claims
				// that are finished, and then no claim at the head asks.
				cl.head = unseen
			}
			if s&acquireNow == 0 {
				due = min(due, clock.Now().Add(cl.pollAfter(s)))
				timer.Reset(due.Until())
				continue
			}
		case <-cl.unwanted:
			cl.leave(ctx)
			return
		}
		if !cl.acquire(ctx) {
			return
		}
		due = clock.Now().Add(cl.pollInterval())
		timer.Reset(due.Until())
	}
}

// pollAfter is how long to wait after signals that do not say acquireNow.
func (cl *claim) pollAfter(s signal) time.Duration {
	if s&mayHaveMissed != 0 {
		return min(cl.pollInterval(), rand.N(resubscribedWait))
	}
	return cl.pollInterval()
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
	cl.request.Unsubscribed = !cl.table.notifier.subscribed.Load()
	cl.request.Metadata = cl.cohort.metadataInFront(cl.request.Metadata)
	call := retry.NewCall(cl.table.Calls, acquireOp, cl.label, cl.table.acquire, cl.request)
	cl.table.Awake(call.Begun)
	reply, err := call.Run(ctx, cl.unwanted, call.Begun.Add(cl.table.Calls.Timeout))
	if call.InDoubt {
		cl.trace = inDoubt
	}
	if errors.Is(err, retry.ErrStopped) {
		cl.leave(ctx)
		return false
	}
	cl.trace = max(cl.trace, known)
	switch {
	case err != nil:
		cl.cohort.fail(cl, call.Failure(err))
	case reply.Status == guardstore.ClaimHeld:
		return cl.held(ctx, call, reply)
	case reply.Status == guardstore.ClaimRecorded:
		cl.cohort.recorded(reply.Record)
	case reply.Status == guardstore.ClaimFinished:
		cl.trace = inDoubt // it may hold the lock, and be revoked
		cl.leave(ctx)
		cl.changeOwner()
		cl.signals.put(acquireNow)
		return true
	default: // busy
		cl.queued(reply)
		cl.cohort.setHolder(lockStateOf(reply))
		return true
	}
	cl.leave(ctx)
	return false
}

// held gives a grant to a caller. It returns true if the grant came too late to be used, and the claim
// asks again.
func (cl *claim) held(ctx context.Context, call *acquireCall, reply guardstore.ClaimReply) (waits bool) {
	g := cl.cohort.newGrant(cl.request, reply, call.Sent, cl.trace == inDoubt)
	if clock.Now() < g.Deadline() {
		cl.table.notifier.unregister(cl.request.Owner)
		if cl.cohort.admit(ctx, cl, g) {
			return false
		}
	} else if cl.late++; cl.late <= mostLate {
		cl.signals.put(acquireNow) // asking again gives the hold its full ttl again
		return true
	} else {
		cl.cohort.fail(cl, &retry.Error{Op: acquireOp, Key: cl.label.Key, Err: errLate, Refused: true})
	}
	cl.leave(ctx)
	return false
}

// changeOwner goes on under a new owner.
func (cl *claim) changeOwner() {
	cl.request.Owner, cl.request.Ticket, cl.trace = cl.table.newOwner(cl.request.Limit), 0, none
	cl.table.notifier.register(cl)
}

// leave takes the claim out of the store's queue, asynchronously, and releases the lock if the claim
// has it, or may still get it.
func (cl *claim) leave(ctx context.Context) {
	t := cl.table
	t.notifier.unregister(cl.request.Owner)
	if cl.trace == none {
		cl.cohort.left(ctx, cl)
		return
	}
	r := cl.request
	call := t.newRelease(cl.label, guardstore.Release{
		Key: r.Key, Owner: r.Owner, TTL: r.TTL, Tombstone: cl.trace == inDoubt, Limit: r.Limit, Record: neverRan(r.Once),
	})
	t.async(ctx, func(ctx context.Context) {
		_, _ = call.Run(ctx, t.Abort, clock.Now().Add(r.TTL+t.Calls.Timeout))
		cl.cohort.left(ctx, cl)
	})
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

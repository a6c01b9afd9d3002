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
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// How often a waiting claim asks by itself, in case that messages are lost. The first two
// in the queue ask more often, because they are to notice that the holder died, or the
// holder and the first; as long as they live, the others need not. Those near the head
// are there for when it is silent all at once, as with the network of a host: then the
// lock is granted to each of them for nothing, until one asks who is alive. A claim that
// was not seen for 25 s is passed over by the scripts.
const (
	pollFirst        = time.Second
	pollNear         = 3 * time.Second  // to 4.2 s
	nearMost         = 8                // claims, with the first two
	pollQueued       = 10 * time.Second // to 14 s
	pollUnsubscribed = time.Second      // while no messages flow
	resubscribedWait = 200 * time.Millisecond
	expirySlack      = 50 * time.Millisecond
	pollSlack        = 5 * time.Millisecond
	mostLate         = 2 // grants that took longer than their ttl, before giving up
)

var errLate = errors.New("answers take longer than the ttl")

// claim waits in the store for those in a cohort's queue, on a goroutine of its own.
type claim struct {
	table    *Table
	cohort   *cohort
	label    Label
	request  guardstore.Claim
	unwanted chan struct{} // closed when nobody wants the claim any more
	signals  signals

	isFirst       bool          // at the head of the queue, or right behind it
	nearHead      bool          // one of those near the head
	remaining     time.Duration // of the holder, when last asked
	headUnknown   bool          // maybe nobody is at the head, see suspectHead
	holderExpires clock.Instant // as it was first seen while headUnknown; 0 = not yet
	known         bool          // the store may know of this owner
	inDoubt       bool          // a command for this owner may still be on its way
	late          int           // grants
	missed        uint64        // as the notifier had it before the store may have published to the claim
}

func newClaim(c *cohort, label Label, request guardstore.Claim) *claim {
	request.Queue = true
	return &claim{
		table: c.table, cohort: c, label: label, request: request, unwanted: make(chan struct{}),
		signals: signals{ready: make(chan struct{}, 1)}, headUnknown: true, missed: c.table.notifier.missed.Load(),
	}
}

// queued takes in that the claim has a ticket.
func (cl *claim) queued(r guardstore.ClaimReply) {
	cl.known = cl.known || r.Ticket > 0
	cl.request.Ticket, cl.isFirst, cl.remaining = r.Ticket, r.Ahead <= 1, r.Remaining
	cl.nearHead = r.Ahead < nearMost
	if expires := clock.Now().Add(r.Remaining); cl.holderExpires == 0 {
		cl.holderExpires = expires
	} else if expires > cl.holderExpires.Add(expirySlack) {
		cl.headUnknown = false
	}
}

// suspectHead is for when messages may have been lost, maybe with the server that sent them: its
// successor may know of a holder and of claims that are finished, and nobody is at the head who
// would ask. So does whoever has headUnknown, when the holder should have expired. Once that went
// on, there is somebody.
func (cl *claim) suspectHead() { cl.headUnknown, cl.holderExpires = true, 0 }

// start lets the claim go on by itself until nobody is in the queue. ctx is some caller's: its
// values go with the commands.
func (cl *claim) start(ctx context.Context, askNow bool) {
	if askNow {
		cl.signals.put(acquireNow)
	}
	ctx = context.WithoutCancel(ctx)
	run := func() {
		if !cl.run(ctx, cl.unwanted) {
			cl.leave(ctx)
		}
	}
	if !cl.table.Tasks.Go(run) {
		cl.table.notifier.unregister(cl.request.Owner)
		cl.cohort.fail(cl, ErrClosed)
	}
}

// run waits and asks until everybody in the queue has an answer, or the first of them has the
// lock: then the claim is ended. It is not if ctx ended or stop was closed before.
func (cl *claim) run(ctx context.Context, stop <-chan struct{}) (ended bool) {
	due := clock.Now().Add(cl.pollInterval()) // messages bring it nearer, never further off
	timer := time.NewTimer(due.Until())
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-cl.signals.ready:
			s := cl.signals.take()
			cl.isFirst = cl.isFirst || s&isFirst != 0
			if s&mayHaveMissed != 0 {
				cl.suspectHead()
			}
			if s&acquireNow == 0 {
				due = min(due, clock.Now().Add(cl.pollAfter(s)))
				timer.Reset(due.Until())
				continue
			}
		case <-stop:
			return false
		case <-ctx.Done():
			return false
		}
		if ended, left := cl.acquire(ctx, stop); ended || left {
			return ended
		}
		due = clock.Now().Add(cl.pollInterval())
		timer.Reset(due.Until())
	}
}

// pollAfter is how long to wait after signals that do not say acquireNow.
func (cl *claim) pollAfter(s signal) time.Duration {
	if s&mayHaveMissed != 0 {
		return min(cl.pollInterval(), rand.N(resubscribedWait)) //nolint:gosec // jitter
	}
	return cl.pollInterval()
}

// pollInterval is how long to wait for a message before asking without one.
func (cl *claim) pollInterval() time.Duration {
	usual := pollQueued
	if cl.nearHead {
		usual = pollNear
	}
	switch {
	case cl.isFirst:
		interval := pollFirst - rand.N(pollFirst/5) //nolint:gosec // jitter
		return min(interval, max(cl.remaining, 0)+pollSlack+rand.N(pollSlack))
	case !cl.table.notifier.subscribed.Load():
		return pollUnsubscribed
	case cl.headUnknown:
		return min(usual, max(cl.remaining, 0)) + rand.N(pollFirst) //nolint:gosec // jitter
	}
	return usual + rand.N(usual*2/5) //nolint:gosec // jitter
}

// acquire sends the claim. ended says that this was the end of it; left, that ctx ended
// or stop was closed meanwhile.
func (cl *claim) acquire(ctx context.Context, stop <-chan struct{}) (ended, left bool) {
	cl.request.Unsubscribed = !cl.table.notifier.subscribed.Load()
	call := retry.NewCall(cl.table.Calls, acquireOp, cl.label, cl.table.acquire, cl.request)
	cl.table.Awake(call.Begun)
	reply, err := call.Run(ctx, stop, call.Begun.Add(cl.table.Calls.Timeout))
	cl.inDoubt = cl.inDoubt || call.InDoubt
	if errors.Is(err, retry.ErrStopped) || err != nil && ctx.Err() != nil {
		return false, true
	}
	cl.known = true
	if err != nil {
		cl.cohort.fail(cl, call.Failure(err))
		cl.leave(ctx)
		return true, false
	}
	switch reply.Status {
	case guardstore.ClaimHeld:
		return cl.held(ctx, call, reply), false
	case guardstore.ClaimRecorded:
		cl.cohort.recorded(reply.Record)
		cl.leave(ctx)
		return true, false
	case guardstore.ClaimFinished:
		// It may hold the lock, and be revoked.
		cl.inDoubt = true
		cl.leave(ctx)
		cl.changeOwner()
		cl.signals.put(acquireNow)
	case guardstore.ClaimBusy:
		cl.queued(reply)
		cl.cohort.setHolder(reply)
	}
	return false, false
}

// held takes in that the lock was granted.
func (cl *claim) held(ctx context.Context, call *acquireCall, reply guardstore.ClaimReply) (ended bool) {
	grant := watchdog.NewGrant(cl.request, reply, call.Sent, cl.inDoubt, cl.cohort.id.fixed)
	if clock.Now() < grant.Deadline() {
		if cl.cohort.admit(ctx, cl, grant) {
			cl.table.notifier.unregister(cl.request.Owner)
		} else {
			cl.leave(ctx)
		}
		return true
	}
	if cl.late++; cl.late > mostLate {
		cl.cohort.fail(cl, &Error{Op: acquireOp, Key: cl.label.Key, Err: errLate, Refused: true})
		cl.leave(ctx)
		return true
	}
	cl.signals.put(acquireNow) // asking again gives the hold its full ttl again
	return false
}

// changeOwner goes on under a new owner.
func (cl *claim) changeOwner() {
	cl.request.Owner, cl.request.Ticket = cl.table.newOwner(cl.request.Limit), 0
	cl.known, cl.inDoubt = false, false
	cl.table.notifier.register(cl)
}

// leave takes the claim out of the store's queue, asynchronously, and gives back what it took, or may
// yet take.
func (cl *claim) leave(ctx context.Context) {
	t := cl.table
	t.notifier.unregister(cl.request.Owner)
	if !cl.known && !cl.inDoubt {
		return
	}
	r := cl.request
	call := t.newRelease(cl.label, guardstore.Release{
		Key: r.Key, Owner: r.Owner, TTL: r.TTL, Tombstone: cl.inDoubt, Limit: r.Limit, Record: neverRan(r.Once),
	})
	t.async(ctx, func(ctx context.Context) {
		_, _ = call.Run(ctx, t.Abort, clock.Now().Add(r.TTL+t.Calls.Timeout))
	})
}

// signal is what a claim that waits may be told. Several make one.
type signal uint32

const (
	acquireNow    signal = 1 << iota
	isFirst              // in the queue
	mayHaveMissed        // messages
)

// signals holds those that were not read yet: whoever writes never waits, and nothing is
// lost.
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

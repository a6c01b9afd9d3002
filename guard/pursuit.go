package guard

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/task"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// How often a waiting claim asks by itself, in case that messages are lost. The first two
// in the queue ask more often, because they are to notice that the holder died, or the
// holder and the first; as long as they live, the others need not. Those near the front
// are there for when it is silent all at once, as with the network of a host: then the
// lock is granted to each of them for nothing, until one asks who is alive. A claim that
// was not seen for 25 s is passed over by the scripts.
const (
	frontPulse = time.Second
	nearPulse  = 3 * time.Second  // to 4.2 s
	nearMost   = 8                // claims, with the first two
	queuePulse = 10 * time.Second // to 14 s
	blindPulse = time.Second      // while no messages flow
	reopenWait = 200 * time.Millisecond
	doubtSlack = 50 * time.Millisecond
)

// pursuit is a claim that waits for those in a contender's line: on the goroutine of the
// caller that began it, for as long as that waits, else on one of its own.
type pursuit struct {
	g        *Guard
	c        *contender
	lock     Lock
	claim    guardstore.Claim
	deserted chan struct{} // closed when nobody wants the claim any more
	messages mailbox

	inFront   bool          // or right behind the front
	near      bool          // one of those near the front
	remaining time.Duration // of the holder, when last asked
	wary      bool          // maybe nobody is in front, see doubt
	lapse     clock.Instant // of the holder, as it was first seen when wary; 0 = not yet
	bury      bool          // a command for this owner may still be on its way
	slow      int
	strays    uint64 // as grants had it before the store may have published to the claim

	inFlight <-chan retry.Answer[guardstore.ClaimReply] // of a command that was left alone
}

func newPursuit(c *contender, lock Lock, claim guardstore.Claim) *pursuit {
	claim.Queue = true
	return &pursuit{
		g: c.g, c: c, lock: lock, claim: claim, deserted: make(chan struct{}),
		messages: mailbox{ready: make(chan struct{}, 1)}, wary: true, strays: c.g.grants.strays.Load(),
	}
}

// queued takes in that the claim has a place.
func (p *pursuit) queued(r guardstore.ClaimReply) {
	p.claim.Ticket, p.inFront, p.remaining = r.Ticket, r.Ahead <= 1, r.Remaining
	p.near = r.Ahead < nearMost
	if lapse := clock.Now().Add(r.Remaining); p.lapse == 0 {
		p.lapse = lapse
	} else if lapse > p.lapse.Add(doubtSlack) {
		p.wary = false
	}
}

// doubt is for when messages may have been lost, maybe with the server that sent them: its
// successor may know of a holder and of claims that are over, and nobody is in front who
// would ask. So does whoever is wary, when the holder should have lapsed. Once that went
// on, there is somebody.
func (p *pursuit) doubt() { p.wary, p.lapse = true, 0 }

// start lets the pursuit go on by itself until nobody is in line. ctx is some caller's: its
// values go with the commands.
func (p *pursuit) start(ctx context.Context, askNow bool) {
	if askNow {
		p.messages.put(askMessage)
	}
	ctx = context.WithoutCancel(ctx)
	run := func() {
		if !p.run(ctx, p.deserted) {
			p.giveUp(ctx, p.claim.Ticket > 0)
		}
	}
	if !p.g.tasks.Go(run) {
		p.g.grants.unregister(p.claim.Owner)
		p.c.fail(p, ErrClosed)
	}
}

// leave is for when the caller that ran the pursuit is out of line: others in line have it
// go on.
func (p *pursuit) leave(ctx context.Context) {
	if task.IsClosed(p.deserted) {
		p.giveUp(ctx, p.claim.Ticket > 0)
		return
	}
	p.bury, p.inFlight = p.bury || p.inFlight != nil, nil
	p.start(ctx, p.bury) // the lock may be ours
}

// run waits and asks until everybody in line has an answer, or the first of them has the
// lock: then the pursuit is over. It is not if ctx ended or stop was closed before.
func (p *pursuit) run(ctx context.Context, stop <-chan struct{}) (over bool) {
	due := clock.Now().Add(p.pulse()) // messages bring it nearer, never further off
	timer := time.NewTimer(due.Until())
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-p.messages.ready:
			m := p.messages.take()
			p.inFront = p.inFront || m&frontMessage != 0
			if m&lossMessage != 0 {
				p.doubt()
			}
			if m&askMessage == 0 {
				due = min(due, clock.Now().Add(p.rest(m)))
				timer.Reset(due.Until())
				continue
			}
		case <-stop:
			return false
		case <-ctx.Done():
			return false
		}
		if over, left := p.ask(ctx, stop); over || left {
			return over
		}
		due = clock.Now().Add(p.pulse())
		timer.Reset(due.Until())
	}
}

// rest is how long to wait after messages that do not say ask.
func (p *pursuit) rest(m message) time.Duration {
	if m&lossMessage != 0 {
		return min(p.pulse(), rand.N(reopenWait)) //nolint:gosec // jitter
	}
	return p.pulse()
}

// pulse is how long to wait for a message before asking without one.
func (p *pursuit) pulse() time.Duration {
	usual := queuePulse
	if p.near {
		usual = nearPulse
	}
	switch {
	case p.inFront:
		pulse := frontPulse - rand.N(frontPulse/5) //nolint:gosec // jitter
		return min(pulse, max(p.remaining, 0)+firstRest+rand.N(firstRest))
	case !p.g.grants.flow.Load():
		return blindPulse
	case p.wary:
		return min(usual, max(p.remaining, 0)) + rand.N(frontPulse) //nolint:gosec // jitter
	}
	return usual + rand.N(usual*2/5) //nolint:gosec // jitter
}

// ask sends the claim. over says that this was the end of the pursuit; left, that ctx ended
// or stop was closed meanwhile.
func (p *pursuit) ask(ctx context.Context, stop <-chan struct{}) (over, left bool) {
	t := p.g.newAcquire(p.lock, p.claim)
	p.g.presence.touch(t.Begun) //nolint:contextcheck // the name outlives the caller
	reply, err := t.Run(ctx, stop, t.Begun.Add(p.g.storeTimeout))
	p.bury, p.inFlight = p.bury || t.InDoubt, t.InFlight
	switch {
	case errors.Is(err, retry.ErrStopped), err != nil && ctx.Err() != nil:
		return false, true
	case err != nil:
		p.c.fail(p, storeError(t.Failure(err)))
		p.giveUp(ctx, true)
		return true, false
	}
	switch reply.Status {
	case guardstore.ClaimHeld:
		return p.held(ctx, t, reply), false
	case guardstore.ClaimFinished:
		// It may hold the lock, and be revoked.
		p.g.settle(ctx, p.lock, p.claim, nil, true, true)
		p.renew()
		p.messages.put(askMessage)
	case guardstore.ClaimBusy:
		p.queued(reply)
		p.c.sawBusy(reply)
	}
	return false, false
}

// held takes in that the lock was granted.
func (p *pursuit) held(ctx context.Context, t *retry.Call[guardstore.ClaimReply], reply guardstore.ClaimReply) (over bool) {
	grant := watchdog.NewGrant(p.claim, reply, t.Sent, p.bury, p.c.id.fixed)
	if clock.Now() < grant.Deadline() {
		if p.c.award(p, grant) {
			p.g.grants.unregister(p.claim.Owner)
		} else {
			p.giveUp(ctx, true)
		}
		return true
	}
	if p.slow++; p.slow > mostSlow {
		p.c.fail(p, &StoreError{Op: "acquire", Key: p.lock.Key, Err: errSlow, answered: true})
		p.giveUp(ctx, true)
		return true
	}
	p.messages.put(askMessage) // asking again gives the hold its full ttl again
	return false
}

// renew goes on under a new owner.
func (p *pursuit) renew() {
	p.g.grants.unregister(p.claim.Owner)
	p.claim.Owner, p.claim.Ticket, p.bury = p.g.newOwner(p.claim.Limit), 0, false
	p.g.grants.register(p)
}

// giveUp leaves nothing of the claim in the store. known says that the store may know
// of it.
func (p *pursuit) giveUp(ctx context.Context, known bool) {
	p.g.grants.unregister(p.claim.Owner)
	p.g.settle(ctx, p.lock, p.claim, p.inFlight, known, p.bury)
}

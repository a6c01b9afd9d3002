package cohort

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// notifier brings the messages for this process to the claims that wait, and to the holds that
// were revoked. There is one subscription per Table. It is opened with the first hold,
// or when the first claim has to wait; a key that is free is not kept waiting for it. A message means "ask the store". It is never a
// grant or a loss by itself, so a lost, late, doubled or forged message does no harm.
type notifier struct {
	table      *Table
	subscribed atomic.Bool   // messages flow
	queues     atomic.Bool   // some claim may have been queued
	open       atomic.Bool   // the subscription was begun
	missed     atomic.Uint64 // how many messages came that reached no claim, or all

	mu      sync.Mutex
	started bool
	// interrupted says that messages flowed, and do not any more.
	interrupted bool
	cancel      context.CancelFunc
	claims      map[string]*claim // by owner
	finished    finished
}

func newNotifier(t *Table) *notifier {
	return &notifier{table: t, claims: make(map[string]*claim)}
}

// register makes a claim known under its owner. The store may have published to it before that: a
// message often overtakes the reply of the command that caused it. If a message was missed
// meanwhile, the claim asks.
func (n *notifier) register(cl *claim) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.claims[cl.request.Owner] = cl
	if missed := n.missed.Load(); missed != cl.missed {
		cl.missed = missed
		cl.signals.put(acquireNow)
	}
}

func (n *notifier) unregister(owner string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.claims, owner)
}

// begin opens the subscription, if it is not open yet. It does not wait for messages to flow.
func (n *notifier) begin() {
	if n.open.Load() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open.Store(true)
	if n.started {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	n.started = n.table.Tasks.Go(func() { n.table.Store.Listen(ctx, n.table.Instance, n) })
}

// close ends the subscription.
func (n *notifier) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cancel != nil {
		n.cancel()
	}
	n.started = true // nothing begins after this
}

// Notify implements guardstore.Listener.
func (n *notifier) Notify(m guardstore.Notification) {
	if m.Owner == "" {
		n.flow(m.Err == nil)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if m.Revoked {
		n.table.revoked(m.Owner)
		return
	}
	cl := n.claims[m.Owner]
	switch {
	case cl == nil:
		n.missed.Add(1)
		if !m.First {
			n.releaseFinished(m.Owner)
		}
	case m.First:
		cl.signals.put(isFirst)
	default:
		cl.signals.put(acquireNow)
	}
}

// flow notes whether messages flow. When they flow for the first time, claims ask at once. An interruption may be that
// of the store: the claims of all processes ask within resubscribedWait, and all holds are renewed at once, and
// again when messages flow again.
func (n *notifier) flow(now bool) {
	n.mu.Lock()
	before, interrupted := n.subscribed.Swap(now), n.interrupted
	if now || before {
		n.missed.Add(1)
		missed := acquireNow
		if before || interrupted {
			missed = mayHaveMissed
		}
		for _, cl := range n.claims {
			cl.signals.put(missed)
		}
	}
	n.interrupted = !now && (before || interrupted)
	renew := interrupted != n.interrupted
	n.mu.Unlock()
	if renew {
		n.table.watchdog.RenewAll()
	}
}

// Waiting implements guardstore.Listener.
func (n *notifier) Waiting() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.claims) > 0
}

// mostFinished is how many claims that are finished are remembered: those of the last seconds.
const mostFinished = 1024

// finished holds the latest claims of a Table that are finished. After a failover, the new server may
// not know that, and grant the lock to such a claim. The Table then releases the lock at once, so that the
// claims after it in the queue do not wait until the grant lapses. An owner is never used again after its
// release, so repeating the release does no harm. A linear search is enough, as it is needed rarely.
type finished struct {
	claims []finishedClaim // a ring
	next   int             // in it
}

type finishedClaim struct {
	label   retry.Label
	release guardstore.Release
}

func (f *finished) find(owner string) (c finishedClaim, known bool) {
	for _, c := range f.claims {
		if c.release.Owner == owner {
			return c, true
		}
	}
	return finishedClaim{}, false
}

// noteFinished notes that a claim is finished, once its release was answered, or failed. Done sooner, a
// late message could cause a second release, which overtakes the first and makes the hold look lost.
func (n *notifier) noteFinished(label retry.Label, r guardstore.Release) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f, c := &n.finished, finishedClaim{label, r}
	if len(f.claims) < mostFinished {
		f.claims = append(f.claims, c)
		return
	}
	f.claims[f.next] = c
	f.next = (f.next + 1) % mostFinished
}

// releaseFinished releases a lock that was granted to a finished claim. It needs n.mu.
func (n *notifier) releaseFinished(owner string) {
	c, known := n.finished.find(owner)
	if !known {
		return
	}
	t := n.table
	t.Tasks.Go(func() {
		ctx := context.Background()
		_, _ = t.newRelease(c.label, c.release).Run(ctx, t.Abort, clock.Now().Add(t.Calls.Timeout))
	})
}

// revoked is for the message that an owner's hold was revoked.
func (t *Table) revoked(owner string) {
	t.Tasks.Go(func() {
		g := t.grantOf(owner)
		if g == nil {
			t.revocations.note(owner)
			if g = t.grantOf(owner); g == nil {
				return // it has ended, or Hold.Watch was not called yet and will look
			}
		}
		t.checkRevoked(g)
	})
}

// checkRevoked asks the store whether a grant was revoked, as a message says. The message alone ends
// nothing. It asks until the deadline.
func (t *Table) checkRevoked(g *grant) {
	t.mu.Lock()
	label := g.label
	t.mu.Unlock()
	reply, err := t.check(context.Background(), checkOp, label, g, Patience{Most: t.watchdog.Deadline(&g.Grant).Until()})
	if err == nil && !reply.Held {
		t.watchdog.End(&g.Grant, watchdog.ErrRevoked)
	}
}

// grantOf returns the grant of an owner, if this process has it, also between two callers.
func (t *Table) grantOf(owner string) *grant {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.cohorts {
		for _, g := range c.grants {
			if g.Claim.Owner == owner {
				return g
			}
		}
	}
	return nil
}

// revocations are owners whose hold was revoked before this process knew of the hold, and when the
// message came. A message is hardly faster than a reply, so most entries are about holds that have
// ended.
type revocations struct {
	n atomic.Int64 // how many there were

	mu     sync.Mutex
	owners map[string]clock.Instant
}

const (
	revocationLife  = time.Minute
	mostRevocations = 10_000 // people do not revoke more in a minute
)

func (r *revocations) note(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := clock.Now()
	if r.owners == nil || len(r.owners) >= mostRevocations {
		r.owners = make(map[string]clock.Instant)
	}
	for one, noted := range r.owners {
		if at.Sub(noted) > revocationLife {
			delete(r.owners, one)
		}
	}
	r.owners[owner] = at
	r.n.Add(1)
}

// has says, once, whether a message that the owner's hold was revoked overtook the reply that granted
// the hold.
func (r *revocations) has(owner string) bool {
	if r.n.Load() == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.owners[owner]
	delete(r.owners, owner)
	return known
}

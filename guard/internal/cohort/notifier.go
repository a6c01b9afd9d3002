package cohort

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// notifier brings the messages for this process to the claims that wait, and tells of holds that
// somebody stepped in on. There is one subscription per Table, opened with the first hold,
// and before the first claim enters a queue. A message means "ask": it is a hint, never a
// grant or a loss by itself, so that a lost, late, doubled or forged one does no harm.
type notifier struct {
	table      *Table
	ready      chan struct{} // closed when it is known whether messages flow
	readyOnce  sync.Once
	subscribed atomic.Bool   // messages flow
	queues     atomic.Bool   // some claim may have been queued
	open       atomic.Bool   // the subscription was begun
	missed     atomic.Uint64 // how many messages came that reached no claim, or all

	mu       sync.Mutex
	started  bool
	begun    clock.Instant
	cancel   context.CancelFunc
	claims   map[string]*claim // by owner
	finished finished
}

func newNotifier(t *Table) *notifier {
	return &notifier{table: t, ready: make(chan struct{}), claims: make(map[string]*claim)}
}

// register makes a claim known under its owner. The store may have published to it before: a
// message often overtakes the reply of the command that caused it. If one was missed
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

// prepare opens the subscription and waits until messages flow, no longer than a caller
// may. If that takes long, nobody waits for it any more: where they do not flow, asking has
// to do.
func (n *notifier) prepare(ctx context.Context, stop <-chan struct{}, most time.Duration) {
	n.queues.Store(true)
	if task.IsClosed(n.ready) {
		return
	}
	late := n.begin().Add(n.table.Calls.AttemptTimeout) //nolint:contextcheck // it outlives the caller
	timer := time.NewTimer(min(late.Until(), most))
	defer timer.Stop()
	select {
	case <-n.ready:
	case <-ctx.Done():
	case <-stop:
	case <-timer.C:
		if clock.Now() >= late {
			n.setReady()
		}
	}
}

func (n *notifier) setReady() { n.readyOnce.Do(func() { close(n.ready) }) }

// begin opens the subscription, if nobody did, and says when that was.
func (n *notifier) begin() clock.Instant {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open.Store(true)
	if n.started {
		return n.begun
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.begun, n.cancel = clock.Now(), cancel
	n.started = n.table.Tasks.Go(func() { n.table.Store.Listen(ctx, n.table.Instance, n) })
	return n.begun
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
	n.mu.Lock()
	defer n.mu.Unlock()
	if m.Owner == "" {
		if flowed := n.subscribed.Swap(m.Err == nil); m.Err == nil || flowed {
			n.missed.Add(1)
			for _, cl := range n.claims {
				cl.signals.put(mayHaveMissed)
			}
		}
		n.setReady() // now: who waits for it has missed nothing
		return
	}
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

// Waiting implements guardstore.Listener.
func (n *notifier) Waiting() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.claims) > 0
}

// mostFinished is how many claims that are finished are remembered: those of the last seconds.
const mostFinished = 1024

// finished is what a Table remembers of its claims that are finished. A server that took over from
// another may not know, and grant a lock to one of them. It is given back at once: those
// behind it need not wait until nobody came for it. An owner is never used again after its
// release, so that to repeat that does no harm. What is looked for seldom is just looked for.
type finished struct {
	claims []finishedClaim // a ring
	next   int             // in it
}

type finishedClaim struct {
	label   Label
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

// noteFinished notes that a claim is finished, once its release was answered, or failed. Before, the
// release on behalf of a late message could overtake it, and make the hold look lost.
func (n *notifier) noteFinished(label Label, r guardstore.Release) {
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

// releaseFinished gives back what was granted to a claim that is finished. It needs n.mu.
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
				return // it is finished, or not known yet: see Hold.Watch
			}
		}
		t.checkRevoked(g)
	})
}

// checkRevoked is for a grant that is said to be revoked. The store is asked
// at once: the message alone ends nothing. A FixedLease has no renewal that would notice, so it asks until it is answered.
func (t *Table) checkRevoked(g *grant) {
	t.mu.Lock()
	label := g.label
	t.mu.Unlock()
	reply, err := t.check(context.Background(), checkOp, label, g, Patience{Most: t.watchdog.Deadline(&g.Grant).Until()})
	if err == nil && !reply.Held {
		t.watchdog.End(&g.Grant, ErrRevoked)
	}
}

// grantOf gives the grant that an owner stands for, if this process has it, also while it
// is handed from caller to caller.
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

// revocations are owners whose hold somebody stepped in on before it was known here, and when
// that was. A message is not much faster than a reply; most of those that are remembered are about
// holds that are finished.
type revocations struct {
	n atomic.Int64 // how many there were

	mu     sync.Mutex
	owners map[string]clock.Instant
}

const (
	revocationLife  = time.Minute
	mostRevocations = 10_000 // more than that in a minute are no work of people
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

// has says, once, whether somebody is said to have stepped in on an owner before that was known here:
// the message overtook the reply.
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

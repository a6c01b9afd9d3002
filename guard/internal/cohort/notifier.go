package cohort

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// notifier brings the messages for this process to the claims that wait, and to the holds that
// were revoked. There is one subscription per Table. It is opened with the first hold,
// or when the first claim has to wait; a key that is free is not kept waiting for it. A message means "ask the store". It is never a
// grant or a loss by itself, so a lost, late, doubled or forged message does no harm.
type notifier struct {
	table      *Table
	begin      func()             // opens the subscription, once, and does not wait for messages to flow
	close      context.CancelFunc // ends it
	subscribed atomic.Bool        // messages flow
	missed     atomic.Uint64      // how many messages came that reached no claim, or all

	mu          sync.Mutex
	interrupted bool              // the store said that no messages flow
	claims      map[string]*claim // by owner
}

func newNotifier(t *Table) *notifier {
	n := &notifier{table: t, claims: make(map[string]*claim)}
	ctx, cancel := context.WithCancel(context.Background())
	n.begin = sync.OnceFunc(func() { t.Tasks.Go(func() { t.Store.Listen(ctx, t.Instance, n) }) })
	n.close = cancel
	return n
}

// register makes a claim known under its owner. The store may have published to it before that: a
// message often overtakes the reply of the command that caused it. If a message was missed
// meanwhile, the claim asks.
func (n *notifier) register(cl *claim) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.claims[cl.request.Owner] = cl
	if n.missed.Load() != cl.missed {
		cl.signals.put(acquireNow)
	}
}

func (n *notifier) unregister(owner string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.claims, owner)
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
	case m.First:
		cl.signals.put(isFirst)
	default:
		cl.signals.put(acquireNow)
	}
}

// flow notes whether messages flow. If they flow at the first try, claims ask at once. An interruption may be that
// of the store: the claims of all processes ask within resubscribedWait, and all holds are renewed at once, and
// again when messages flow again.
func (n *notifier) flow(now bool) {
	n.mu.Lock()
	before, interrupted := n.subscribed.Swap(now), n.interrupted
	n.interrupted = !now
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

// revoked is for the message that an owner's hold was revoked. The message alone ends nothing: the store is asked
// until the deadline. If the message overtook the reply that grants the hold, the first renewal notices it.
func (t *Table) revoked(owner string) {
	t.Tasks.Go(func() {
		g, label := t.grantOf(owner)
		if g == nil {
			return
		}
		reply, err := t.check(context.Background(), checkOp, label, g, Patience{Most: g.Deadline().Until()})
		if err == nil && !reply.Held {
			g.End(watchdog.ErrRevoked) // a store that is full cannot note that the hold was revoked
		}
	})
}

// grantOf returns the grant of an owner, if this process has it, also between two callers, and whose it was last.
func (t *Table) grantOf(owner string) (*grant, retry.Label) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.cohorts {
		for _, g := range c.grants {
			if g.Claim.Owner == owner {
				return g, g.label
			}
		}
	}
	return nil, retry.Label{}
}

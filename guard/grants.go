package guard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// grants brings the messages for this instance to the claims that wait, and to holds that
// somebody stepped in on. There is one subscription per Guard, opened with the first hold,
// and before the first claim enters a queue. A message means "ask": it is a hint, never a
// grant or a loss by itself, so that a lost, late, doubled or forged one does no harm.
type grants struct {
	g      *Guard
	told   chan struct{} // closed when it is known whether messages flow
	first  sync.Once
	flow   atomic.Bool   // messages do
	queues atomic.Bool   // some claim may have been queued
	open   atomic.Bool   // the subscription was begun
	strays atomic.Uint64 // how many messages came that reached no claim, or all

	mu      sync.Mutex
	started bool
	begun   clock.Instant
	cancel  context.CancelFunc
	waiting map[string]*pursuit // by owner
	past    past
}

func newGrants(g *Guard) *grants {
	return &grants{g: g, told: make(chan struct{}), waiting: make(map[string]*pursuit)}
}

// register makes p known under its owner. The store may have published to it before: a
// message often overtakes the reply of the command that caused it. If one strayed
// meanwhile, p asks.
func (gr *grants) register(p *pursuit) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	gr.waiting[p.claim.Owner] = p
	if strays := gr.strays.Load(); strays != p.strays {
		p.strays = strays
		p.messages.put(askMessage)
	}
}

func (gr *grants) unregister(owner string) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	delete(gr.waiting, owner)
}

// prepare opens the subscription and waits until messages flow, no longer than a caller
// may. If that takes long, nobody waits for it any more: where they do not flow, asking has
// to do.
func (gr *grants) prepare(ctx context.Context, stop <-chan struct{}, most time.Duration) {
	gr.queues.Store(true)
	if task.IsClosed(gr.told) {
		return
	}
	late := gr.begin().Add(gr.g.patience()) //nolint:contextcheck // it outlives the caller
	timer := time.NewTimer(min(late.Until(), most))
	defer timer.Stop()
	select {
	case <-gr.told:
	case <-ctx.Done():
	case <-stop:
	case <-timer.C:
		if clock.Now() >= late {
			gr.tell()
		}
	}
}

func (gr *grants) tell() { gr.first.Do(func() { close(gr.told) }) }

// listen opens the subscription for a hold, which may be revoked; nobody waits for it.
func (gr *grants) listen() {
	if !gr.open.Load() {
		gr.begin()
	}
}

// begin opens the subscription, if nobody did, and says when that was.
func (gr *grants) begin() clock.Instant {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	gr.open.Store(true)
	if gr.started {
		return gr.begun
	}
	ctx, cancel := context.WithCancel(context.Background())
	gr.begun, gr.cancel = clock.Now(), cancel
	gr.started = gr.g.tasks.Go(func() { gr.g.store.Listen(ctx, gr.g.instance, gr) })
	return gr.begun
}

// stop ends the subscription.
func (gr *grants) stop() {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	if gr.cancel != nil {
		gr.cancel()
	}
	gr.started = true // nothing begins after this
}

// Notify implements Listener.
func (gr *grants) Notify(w guardstore.Notification) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	if w.Owner == "" {
		gr.tell()
		if flowed := gr.flow.Swap(w.Err == nil); w.Err != nil && !flowed {
			return // as before
		}
		gr.strays.Add(1)
		for _, p := range gr.waiting {
			p.messages.put(lossMessage)
		}
		return
	}
	if w.Revoked {
		gr.g.recall(w.Owner)
		return
	}
	p := gr.waiting[w.Owner]
	switch {
	case p == nil:
		gr.strays.Add(1)
		if !w.First {
			gr.giveBack(w.Owner)
		}
	case w.First:
		p.messages.put(frontMessage)
	default:
		p.messages.put(askMessage)
	}
}

// Waiting implements Listener.
func (gr *grants) Waiting() bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return len(gr.waiting) > 0
}

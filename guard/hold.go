package guard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/cohort"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/task"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// hold is a grant in use: by the call that took it, and by those that re-entered.
type hold struct {
	cohort.Hold

	g    *Guard
	lock Lock
	root Lease

	mu    sync.Mutex    // before watchdog.mu
	turn  chan struct{} // one slot: settings of the counter go out one at a time
	depth int           // leases not released, those on their way included: the hash counter
	over  *LostError    // set once, when the hold is over
	end   LostError     // what over points to if the hold was released
	inner map[*Lease]struct{}
}

// newHold makes a hold of a grant, with its first lease, and starts the watch.
func (g *Guard) newHold(ctx context.Context, c *call, got cohort.Hold) *Lease {
	h := &hold{Hold: got, g: g, lock: c.lock, depth: 1}
	h.setGrantDepth()
	h.root = h.newLease(nil, c.outer, 1)
	if h.Shared() {
		h.root.started = clock.Now()
	} else {
		h.Grant.MinHold = c.minHold
	}
	h.root.begin(ctx)
	g.cohorts.Watch(h.Hold, h, c.maxHold, c.metadata) //nolint:contextcheck // the subscription outlives the caller
	if task.IsClosed(g.gate.Closed()) {
		g.watchdog.End(h.Grant, ErrClosed) // Close may have passed by before the watch began
	}
	return &h.root
}

// setGrantDepth tells the grant how many leases are open. A shared one counts for all its holds
// as one.
func (h *hold) setGrantDepth() {
	if !h.Shared() {
		h.Grant.SetDepth(h.depth)
	}
}

// open is how many leases are.
func (h *hold) open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.depth
}

func (h *hold) newLease(parent, outer *Lease, depth int) Lease {
	return Lease{hold: h, parent: parent, outer: outer, depth: depth, refs: 1, cancel: func(error) {}}
}

// begin makes the lease's context. It is called before anybody else knows the lease.
func (l *Lease) begin(ctx context.Context) {
	if g := l.hold.g; len(g.observers) > 0 {
		l.started = clock.Now()
		ctx = g.observers.HoldStart(ctx, l.hold.lock, Hold{Fence: l.Fence(), Depth: l.depth})
		l.observed = true
	}
	ctx, l.cancel = context.WithCancelCause(ctx)
	l.own = leaseContext{ctx, l}
	l.ctx = &l.own
}

// enter counts a lease in under the one that was found in ctx, and proves that the hold
// is still there.
func (h *hold) enter(ctx context.Context, found *Lease) (*Lease, error) {
	if err := h.err(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	if h.over != nil {
		h.mu.Unlock()
		return nil, h.over
	}
	parent := found
	for parent.refs == 0 {
		parent = parent.parent // found was released, the hold was not
	}
	parent.refs++
	h.depth++
	h.setGrantDepth()
	if h.turn == nil {
		h.turn = make(chan struct{}, 1) // who never re-enters needs none
	}
	l := new(Lease)
	*l = h.newLease(parent, leaseIn(ctx), h.depth)
	h.mu.Unlock()
	if err := h.setDepth(ctx, "enter", h.g.storeTimeout, 0); err != nil {
		l.giveUp(ctx)
		return nil, err
	}
	return l, nil
}

// admit lets a lease in that has begun, unless the hold was lost meanwhile.
func (h *hold) admit(ctx context.Context, l *Lease) (*Lease, error) {
	h.mu.Lock()
	over := h.over
	if over == nil {
		if h.inner == nil {
			h.inner = make(map[*Lease]struct{})
		}
		h.inner[l] = struct{}{}
	}
	h.mu.Unlock()
	if over == nil {
		return l, nil
	}
	l.cancel(over)
	l.giveUp(ctx)
	return nil, over
}

// giveUp ends a lease that nobody got, without waiting for the store.
func (l *Lease) giveUp(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cancel()
	l.end(ctx, clock.Forever, 0)
}

// setDepth sends the counter to the store. Its errors are the hold's LostError, a
// StoreError, and the end of ctx.
func (h *hold) setDepth(ctx context.Context, op string, most, grace time.Duration) error {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return ended(ctx)
	}
	defer func() { <-h.turn }()

	call := retry.NewCall(&h.g.calls, op, retry.Label(h.lock), h.sendDepth, struct{}{})
	reply, err := call.RunWithGrace(ctx, call.Begun.Add(min(most, h.g.storeTimeout)), grace)
	switch {
	case err == nil && reply.Held:
		return h.err()
	case err == nil:
		h.g.watchdog.End(h.Grant, watchdog.NotHeld(reply))
		return h.err()
	case ctx.Err() != nil:
		return ended(ctx)
	}
	return storeError(call.Failure(err), h.lock.Name)
}

// sendDepth sends the counter as it is by now, in a renewal that moves no expiry.
func (h *hold) sendDepth(ctx context.Context, _ struct{}) (guardstore.RenewReply, error) {
	request := h.g.watchdog.Request(h.Grant)
	request.TTL = 0
	reply := h.g.store.Renew(ctx, []guardstore.Grant{request})[0]
	return reply, reply.Err
}

// lose ends a hold whose end nobody has told yet.
func (h *hold) lose(cause error) {
	if h.Cut(cause) {
		h.TellLoss()
	}
}

// Cut implements watchdog.Holder.
func (h *hold) Cut(cause error) (first bool) {
	h.mu.Lock()
	if h.over != nil {
		h.mu.Unlock()
		return false
	}
	h.over = h.lostError(cause)
	over := h.over
	h.mu.Unlock()
	h.endContexts(over)
	return true
}

// Label implements cohort.Holder.
func (h *hold) Label() retry.Label { return retry.Label(h.lock) }

// TellLoss implements watchdog.Holder.
func (h *hold) TellLoss() {
	defer h.g.gate.Leave() // Shutdown does not wait for whoever still has the lease
	h.tellLoss(h.lossSoFar())
}

// endContexts comes before tellLoss: telling observers takes time.
func (h *hold) endContexts(over *LostError) {
	h.root.cancel(over)
	for _, l := range h.innerLeases() {
		l.cancel(over)
	}
}

func (h *hold) innerLeases() []*Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.inner))
}

func (h *hold) tellLoss(over *LostError) {
	inner := h.innerLeases()
	h.g.cohorts.Abandon(h.root.ctx, h.Hold)
	h.event(Event{Kind: Loss, Err: over})
	for _, l := range inner {
		l.observeEnd(over)
	}
	h.root.observeEnd(over)
}

func (h *hold) event(e Event) { h.g.observers.Event(h.root.ctx, h.lock, e) }

// err looks at the clock itself: whoever asks must not depend on the watchdog having
// been scheduled.
func (h *hold) err() error {
	h.mu.Lock()
	over := h.over
	h.mu.Unlock()
	if over != nil {
		return over
	}
	cause := h.g.watchdog.Check(h.Grant)
	if cause == nil {
		return nil
	}
	h.g.watchdog.End(h.Grant, cause)
	h.lose(cause) // whoever ended it may not have said so yet
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over
}

// lossSoFar is the hold's loss, or nil if there was none.
func (h *hold) lossSoFar() *LostError {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over == nil || errors.Is(h.over.Cause, ErrReleased) {
		return nil
	}
	return h.over
}

func (h *hold) lostError(cause error) *LostError {
	lost := h.endedBy(cause)
	return &lost
}

// endedBy is lostError in no memory of its own.
func (h *hold) endedBy(cause error) LostError {
	switch {
	case errors.Is(cause, watchdog.ErrMaxHold):
		cause = ErrMaxHold
	case errors.Is(cause, watchdog.ErrRevoked):
		cause = ErrRevoked
	}
	return LostError{Name: h.lock.Name, Key: h.lock.Key, Cause: cause}
}

// Renewed implements watchdog.Holder.
func (h *hold) Renewed(err error) {
	if err != nil {
		h.event(Event{Kind: StoreFailure, Op: "renew", Err: err})
		return
	}
	h.event(Event{Kind: Renewal, Op: "renew"})
}

package guard

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

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
	root Lease

	mu     sync.Mutex    // before any of the cohort's
	turn   chan struct{} // one slot: settings of the counter go out one at a time
	depth  int           // leases not released, those on their way included: the hash counter
	reason *LostError    // why the hold has ended; set once
	end    LostError     // memory for reason, if the hold was released
	inner  map[*Lease]struct{}
}

// newHold makes a hold of a grant, with its first lease, and starts to renew it.
func (g *Guard) newHold(ctx context.Context, c *call, got cohort.Hold) *Lease {
	h := &hold{Hold: got, g: g, depth: 1}
	h.root = Lease{hold: h, outer: c.outer, depth: 1, refs: 1}
	h.root.begin(ctx)
	h.Watch(h, c.maxHold, c.minHold)
	if task.IsClosed(g.inside.Closed()) {
		h.End(ErrClosed) // Close may have passed by before the watch began
	}
	return &h.root
}

// open returns how many leases are open.
func (h *hold) open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.depth
}

// begin makes the lease's context. It is called before another goroutine knows the lease.
func (l *Lease) begin(ctx context.Context) {
	l.started = clock.Now()
	ctx = l.hold.g.observers.HoldStart(ctx, Lock(l.hold.Label), Hold{Fence: l.Fence(), Depth: l.depth})
	l.observed = true
	ctx, l.cancel = context.WithCancelCause(ctx)
	l.own = leaseContext{ctx, l}
	l.ctx = &l.own
}

// enter counts a lease in under the lease found in ctx, and proves that the hold
// is still there.
func (h *hold) enter(ctx context.Context, found *Lease) (*Lease, error) {
	_ = h.err() // it finds a loss by the clock
	h.mu.Lock()
	if h.reason != nil {
		h.mu.Unlock()
		return nil, h.reason
	}
	parent := found
	for parent.refs == 0 {
		parent = parent.parent // found was released, the hold was not
	}
	parent.refs++
	h.depth++
	h.SetDepth(h.depth)
	if h.turn == nil {
		h.turn = make(chan struct{}, 1) // a caller that never re-enters needs none
	}
	l := &Lease{hold: h, parent: parent, outer: leaseIn(ctx), depth: h.depth, refs: 1, cancel: func(error) {}}
	h.mu.Unlock()
	if err := h.sendDepth(ctx, "enter", patient); err != nil {
		_ = l.endWork(ctx, true)
		return nil, err
	}
	return l, nil
}

// admit adds a lease to the hold, unless the hold was lost meanwhile.
func (h *hold) admit(ctx context.Context, l *Lease) (*Lease, error) {
	h.mu.Lock()
	if reason := h.reason; reason != nil {
		h.mu.Unlock()
		_ = l.endWork(ctx, false)
		return nil, reason
	}
	defer h.mu.Unlock()
	if h.inner == nil {
		h.inner = make(map[*Lease]struct{})
	}
	h.inner[l] = struct{}{}
	return l, nil
}

// sendDepth sends the counter to the store. Its errors are the hold's LostError, a
// StoreError, and the end of ctx.
func (h *hold) sendDepth(ctx context.Context, op string, p cohort.Patience) error {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return ended(ctx)
	}
	defer func() { <-h.turn }()
	return h.callerError(ctx, h.Check(ctx, op, p))
}

// callerError returns the caller's error for the result of a command about the hold.
func (h *hold) callerError(ctx context.Context, err error) error {
	var failure *retry.Error
	switch {
	case !errors.As(err, &failure): // there was an answer
		return h.err()
	case ctx.Err() != nil:
		return ended(ctx)
	}
	return storeError(failure, h.Label.Name)
}

// release ends the hold's part in its grant. It returns a loss that was known before, or that the release brings to light.
func (h *hold) release(ctx context.Context, lost *LostError, p cohort.Patience) (*LostError, error) {
	if lost != nil {
		p = cohort.Patience{Most: releaseGrace} // nothing depends on the release
	}
	handedOver, err := h.Release(ctx, p)
	switch {
	case err == nil:
		if handedOver {
			h.event(Event{Kind: EventHandover})
		}
		return lost, nil
	case errors.As(err, new(*retry.Error)):
		err = h.callerError(ctx, err)
		h.event(Event{Kind: EventReleaseFailure, Op: "release", Err: err})
		return lost, err
	case lost == nil: // it was not known before
		lost = h.lostError(err)
		h.event(Event{Kind: EventLoss, Op: "release", Err: lost})
	}
	return lost, nil
}

// lose ends a hold whose end was not reported yet.
func (h *hold) lose(cause error) {
	if h.Cancel(cause) {
		h.ReportLoss()
	}
}

// Cancel implements watchdog.Holder.
func (h *hold) Cancel(cause error) (first bool) {
	h.mu.Lock()
	if h.reason != nil {
		h.mu.Unlock()
		return false
	}
	h.reason = h.lostError(cause)
	reason := h.reason
	h.mu.Unlock()
	h.endContexts(reason)
	return true
}

// ReportLoss implements watchdog.Holder.
func (h *hold) ReportLoss() {
	defer h.g.inside.Leave() // Shutdown does not wait for callers that still have the lease
	h.reportLoss(h.lossSoFar())
}

// endContexts ends the contexts of all leases. It comes before reportLoss: observers take time.
func (h *hold) endContexts(reason *LostError) {
	h.root.cancel(reason)
	for _, l := range h.innerLeases() {
		l.cancel(reason)
	}
}

func (h *hold) innerLeases() []*Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.inner))
}

func (h *hold) reportLoss(reason *LostError) {
	inner := h.innerLeases()
	h.Abandon(h.root.ctx)
	h.event(Event{Kind: EventLoss, Err: reason})
	for _, l := range inner {
		l.observeEnd(reason)
	}
	h.root.observeEnd(reason)
}

func (h *hold) event(e Event) { h.g.observers.Event(h.root.ctx, Lock(h.Label), e) }

// err looks at the clock itself: a caller must not depend on the watchdog having
// been scheduled.
func (h *hold) err() error {
	cause := h.Err()
	if cause == nil {
		return nil
	}
	h.lose(cause) // the watchdog may not have come to it yet
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reason
}

// lossSoFar returns the hold's loss, or nil.
func (h *hold) lossSoFar() *LostError {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reason == nil || errors.Is(h.reason.Cause, ErrReleased) {
		return nil
	}
	return h.reason
}

func (h *hold) lostError(cause error) *LostError {
	lost := h.endedBy(cause)
	return &lost
}

// endedBy is lostError without the allocation.
func (h *hold) endedBy(cause error) LostError {
	switch {
	case errors.Is(cause, watchdog.ErrMaxHold):
		cause = ErrMaxHold
	case errors.Is(cause, watchdog.ErrRevoked):
		cause = ErrRevoked
	}
	return LostError{Name: h.Label.Name, Key: h.Label.Key, Cause: cause}
}

// Renewed implements watchdog.Holder.
func (h *hold) Renewed(err error) {
	if err != nil {
		h.event(Event{Kind: EventStoreFailure, Op: "renew", Err: err})
		return
	}
	h.event(Event{Kind: EventRenewal, Op: "renew"})
}

// HoldInfo is a hold of this process, see Guard.Holds.
type HoldInfo struct {
	Key, Name string
	Fence     uint64
	Since     time.Time // when the work under it got the lock
	Deadline  time.Time // as Lease.Deadline
	Depth     int       // how many calls of the hold are open
	Waiting   int       // how many callers of this Guard wait for the key
}

// Holds are the holds of this Guard at this moment, the oldest first. It does not ask
// Redis: it is exact for this process, and says nothing of others. Package inspect does. A nil or zero Guard has none.
func (g *Guard) Holds() []HoldInfo {
	if g == nil || g.store == nil {
		return nil
	}
	held := g.cohorts.Held()
	all := make([]HoldInfo, 0, len(held))
	for _, one := range held {
		h := one.Holder.(*hold) //nolint:forcetypeassert // no other type holds anything
		all = append(all, HoldInfo{
			Key: h.Label.Key, Name: h.Label.Name, Fence: h.Fence, Depth: h.open(),
			Since: max(one.Since, h.root.started).Time(), Deadline: one.Deadline.Time(), Waiting: h.Waiting(),
		})
	}
	slices.SortFunc(all, func(a, b HoldInfo) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Key, b.Key))
	})
	return all
}

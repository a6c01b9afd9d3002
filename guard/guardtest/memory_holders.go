package guardtest

import (
	"slices"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// memoryHolder is one holder of a lock.
type memoryHolder struct {
	owner    string
	limit    guardstore.Limit
	depth    int
	fence    uint64
	ahead    bool // of the clock, when it was minted
	metadata string
	since    time.Time // when it was granted
	expires  time.Time
	revoked  bool // renewals of the hold fail
}

func (h *memoryHolder) extend(at time.Time, ttl time.Duration) {
	if until := at.Add(ttl); until.After(h.expires) {
		h.expires = until
	}
}

func (h *memoryHolder) reply() guardstore.ClaimReply {
	return guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: h.fence, FenceAhead: h.ahead}
}

// What follows needs Store.mu.

// held is the hold of an owner whose work is not done.
func (l *memoryLock) held(owner string) *memoryHolder {
	for _, h := range l.holders {
		if h.owner == owner && h.depth > 0 {
			return h
		}
	}
	return nil
}

// rests reports whether only the MinHold of an owner keeps the lock.
func (l *memoryLock) rests(owner string) bool {
	return slices.ContainsFunc(l.holders, func(h *memoryHolder) bool { return h.owner == owner && h.depth == 0 })
}

// tolerate reports whether all holders tolerate n holders.
func (l *memoryLock) tolerate(n int) bool {
	return !slices.ContainsFunc(l.holders, func(h *memoryHolder) bool { return !h.limit.Fits(n) })
}

// mayBeJoined reports whether the lock is free, or its holders tolerate others.
func (l *memoryLock) mayBeJoined() bool { return l.tolerate(2) }

// fits reports whether one more holder may get in.
func (l *memoryLock) fits(limit guardstore.Limit) bool {
	n := len(l.holders) + 1
	return limit.Fits(n) && l.tolerate(n)
}

// ask is for an owner that does not hold the lock.
func (s *Store) ask(l *memoryLock, c guardstore.Claim, at time.Time) {
	if c.Queue {
		l.join(c, at)
	}
	s.grant(l, c, false, at)
	if !c.Queue && len(l.queue) == 0 && l.fits(c.Limit) {
		l.take(c, c.TTL, at)
	}
}

// leave takes an owner out of the lock, unless only its MinHold keeps that, and of the queue.
func (l *memoryLock) leave(owner string) {
	l.holders = slices.DeleteFunc(l.holders, func(h *memoryHolder) bool { return h.owner == owner && h.depth > 0 })
	l.queue = slices.DeleteFunc(l.queue, func(w waiting) bool { return w.owner == owner })
}

// busy answers a claim that waits, or is not going to.
func (l *memoryLock) busy(c guardstore.Claim, at time.Time) guardstore.ClaimReply {
	r := guardstore.ClaimReply{Status: guardstore.ClaimBusy}
	for i, h := range l.holders { // who can share the lock waits for the first that leaves
		left := h.expires.Sub(at)
		if longest := !c.Limit.Fits(2); i == 0 || longest == (left > r.Remaining) {
			r.Remaining, r.Holder = left, h.metadata
		}
		r.Done = h.depth == 0
	}
	for _, h := range l.holders {
		if h.limit > 1 && (r.Limit == guardstore.Exclusive || h.limit < r.Limit) {
			r.Limit = h.limit
		}
	}
	for i, w := range l.queue {
		if c.Queue && w.owner == c.Owner {
			r.Ticket, r.Ahead = w.place, i
		}
	}
	return r
}

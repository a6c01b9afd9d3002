package guardtest

import (
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// What follows needs Store.mu.

// notify sends a message to the instance of an owner. It returns false if it does not listen.
func (s *Store) notify(w guardstore.Notification) bool {
	instance, _, _ := strings.Cut(w.Owner, "-")
	l := s.listeners[instance]
	if l != nil && !s.deaf {
		l.Notify(w)
	}
	return l != nil
}

// grant lets waiting claims in, from the front, for as long as they fit. self takes the lock at
// once; another owner is notified to ask.
func (s *Store) grant(l *memoryLock, self guardstore.Claim, at time.Time) {
	moved := false
	for len(l.queue) > 0 && l.mayBeJoined() {
		w := l.queue[0]
		if !l.fits(w.limit) && (w.owner == self.Owner || !s.gone(w, at)) {
			break
		}
		fits := l.fits(w.limit)
		l.queue, moved = l.queue[1:], true
		switch {
		case !fits:
		case w.owner == self.Owner:
			l.take(self, self.TTL, at)
		case s.reached(w, at):
			l.take(guardstore.Claim{Owner: w.owner, Limit: w.limit, FenceAbove: self.FenceAbove}, ackWindow, at)
		}
	}
	if moved {
		s.lead(l, self.Owner, at)
	}
}

// reached says whether an owner that waits can be granted the lock: it was notified, or it polls.
func (s *Store) reached(w waiting, at time.Time) bool {
	silent := at.Sub(w.asked)
	if w.unsubscribed {
		return silent <= pulse
	}
	return silent <= patience && s.notify(guardstore.Notification{Owner: w.owner})
}

// gone says whether the owner in front, which does not fit, is dead: a live one asks each second.
func (s *Store) gone(w waiting, at time.Time) bool {
	silent := at.Sub(w.asked)
	if w.unsubscribed {
		return silent > silence+deafness
	}
	return silent > patience || silent > silence && !s.notify(guardstore.Notification{Owner: w.owner, First: true})
}

// lead notifies the two owners in front that they are in front, except self.
func (s *Store) lead(l *memoryLock, self string, at time.Time) {
	for i := 0; i < min(2, len(l.queue)); {
		w := l.queue[i]
		if w.owner == self || at.Sub(w.asked) <= patience && (w.unsubscribed || s.notify(guardstore.Notification{Owner: w.owner, First: true})) {
			i++
		} else {
			l.queue = slices.Delete(l.queue, i, i+1)
		}
	}
}

// take lets a claim in.
func (l *memoryLock) take(c guardstore.Claim, ttl time.Duration, at time.Time) {
	clock := uint64(at.UnixMicro()) //nolint:gosec // after 1970
	fence := max(clock, l.high+1, c.FenceAbove+1)
	l.high, l.released = fence, "" // as last has another content then
	l.holders = append(l.holders, &memoryHolder{
		owner: c.Owner, limit: c.Limit, depth: 1, fence: fence, ahead: fence > clock, metadata: c.Metadata,
		since: at, expires: at.Add(ttl),
	})
}

func (l *memoryLock) join(c guardstore.Claim, at time.Time) {
	owner, place := c.Owner, c.Ticket
	for i, w := range l.queue {
		if w.owner == owner && (place == 0 || w.place <= place) {
			l.queue[i].asked, l.queue[i].unsubscribed = at, c.Unsubscribed
			return
		}
	}
	l.leave(owner)
	if place == 0 {
		place = uint64(at.UnixMicro()) //nolint:gosec // after 1970
		if n := len(l.queue); n > 0 {
			place = max(place, l.queue[n-1].place+1)
		}
	}
	i, _ := slices.BinarySearchFunc(l.queue, place, func(w waiting, place uint64) int {
		if w.place <= place {
			return -1
		}
		return 1
	})
	l.queue = slices.Insert(l.queue, i, waiting{owner, c.Limit, place, at, c.Unsubscribed})
}

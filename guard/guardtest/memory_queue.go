package guardtest

import (
	"cmp"
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
// once; another owner is notified to ask. A live claim that does not fit keeps the others out. moved says that the
// front is so since this call.
func (s *Store) grant(l *memoryLock, self guardstore.Claim, moved bool, at time.Time) {
	for len(l.queue) > 0 && l.mayBeJoined() {
		w, silence := l.queue[0], urgent
		fits := l.fits(w.limit)
		if fits || moved {
			silence = patience
		}
		if !fits && !w.dead(at, silence) {
			break
		}
		l.queue, moved = l.queue[1:], true
		switch {
		case w.owner == self.Owner:
			l.take(self, self.TTL, at)
		case !w.dead(at, silence) && (w.unsubscribed || s.notify(guardstore.Notification{Owner: w.owner})):
			l.take(guardstore.Claim{Owner: w.owner, Limit: w.limit, FenceAbove: self.FenceAbove}, ackWindow, at)
		}
	}
	if moved {
		s.lead(l, self.Owner, at)
	}
}

// dead reports whether an owner that waits did not ask for too long.
func (w waiting) dead(at time.Time, silence time.Duration) bool {
	if w.unsubscribed {
		silence = urgent // it asks each second
	}
	return at.Sub(w.asked) > silence
}

// lead notifies the owner in front that it is there, unless it is self. Silence counts from here.
func (s *Store) lead(l *memoryLock, self string, at time.Time) {
	for len(l.queue) > 0 && l.queue[0].owner != self {
		w := &l.queue[0]
		if !w.dead(at, patience) && (w.unsubscribed || s.notify(guardstore.Notification{Owner: w.owner, First: true})) {
			w.asked = at
			return
		}
		l.queue = l.queue[1:]
	}
}

// take lets a claim in.
func (l *memoryLock) take(c guardstore.Claim, ttl time.Duration, at time.Time) {
	clock := uint64(at.UnixMicro())
	fence := max(clock, l.high+1, c.FenceAbove+1)
	l.high = fence
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
		place = uint64(at.UnixMicro())
		if n := len(l.queue); n > 0 {
			place = max(place, l.queue[n-1].place+1)
		}
	}
	i, _ := slices.BinarySearchFunc(l.queue, place+1, func(w waiting, place uint64) int { return cmp.Compare(w.place, place) })
	l.queue = slices.Insert(l.queue, i, waiting{owner, c.Limit, place, at, c.Unsubscribed})
}

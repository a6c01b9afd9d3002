package guardtest

import (
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// What follows needs Store.mu.

// tell sends a message to the instance of an owner. It returns false if nobody listens.
func (s *Store) tell(w guardstore.Notification) bool {
	instance, _, _ := strings.Cut(w.Owner, "-")
	l := s.listeners[instance]
	if l != nil && !s.deaf {
		l.Notify(w)
	}
	return l != nil
}

// grant gives a free lock to the first owner that is alive. self takes it at once;
// another one is told to ask.
func (s *Store) grant(l *memoryLock, self guardstore.Claim, at time.Time) {
	for len(l.queue) > 0 {
		w := l.queue[0]
		l.queue = l.queue[1:]
		if w.owner == self.Owner {
			l.take(self.Owner, self.TTL, self.Metadata, self.FenceAbove, at)
			s.lead(l, self.Owner, at)
			return
		}
		if at.Sub(w.asked) <= patience && s.tell(guardstore.Notification{Owner: w.owner}) {
			l.take(w.owner, ackWindow, "", self.FenceAbove, at)
			s.lead(l, self.Owner, at)
			return
		}
	}
}

// lead tells the two owners in front that they are, unless that is self.
func (s *Store) lead(l *memoryLock, self string, at time.Time) {
	for i := 0; i < min(2, len(l.queue)); {
		w := l.queue[i]
		if w.owner == self || at.Sub(w.asked) <= patience && s.tell(guardstore.Notification{Owner: w.owner, First: true}) {
			i++
		} else {
			l.queue = slices.Delete(l.queue, i, i+1)
		}
	}
}

func (l *memoryLock) take(owner string, ttl time.Duration, metadata string, floor uint64, at time.Time) {
	l.owner, l.depth, l.metadata, l.revoked = owner, 1, metadata, false
	clock := uint64(at.UnixMicro()) //nolint:gosec // after 1970
	l.fence = max(clock, l.high+1, floor+1)
	l.high, l.ahead = l.fence, l.fence > clock
	l.since, l.expires = at, at.Add(ttl)
}

func (l *memoryLock) join(owner string, place uint64, at time.Time) {
	for i, w := range l.queue {
		if w.owner == owner && (place == 0 || w.place <= place) {
			l.queue[i].asked = at
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
	l.queue = slices.Insert(l.queue, i, waiting{owner, place, at})
}

func (l *memoryLock) leave(owner string) {
	l.queue = slices.DeleteFunc(l.queue, func(w waiting) bool { return w.owner == owner })
}

func (l *memoryLock) held() guardstore.ClaimReply {
	return guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: l.fence, FenceAhead: l.ahead}
}

func (l *memoryLock) busy(owner string, at time.Time) guardstore.ClaimReply {
	r := guardstore.ClaimReply{Status: guardstore.ClaimBusy, Remaining: l.expires.Sub(at), Holder: l.metadata, Done: l.owner == heldOver}
	for i, w := range l.queue {
		if w.owner == owner {
			r.Ticket, r.Ahead = w.place, i
		}
	}
	return r
}

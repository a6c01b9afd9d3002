package guardtest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
)

// tombstoneLife is how long a tombstone lasts, as on Redis.
const tombstoneLife = time.Minute

// The constants of the Redis scripts.
const (
	ackWindow = 2 * time.Second  // a granted owner has this long to ask
	patience  = 25 * time.Second // a waiting owner that did not ask for longer is dead
	urgent    = 5 * time.Second  // the same of an owner that keeps others out, or has no subscription
)

// Store is a guardstore.Store in memory; the zero value is empty and ready for use. Its time is
// that of package time, so that in a testing/synctest bubble ttls elapse exactly and at
// once. It starts no goroutine.
type Store struct {
	mu        sync.Mutex
	locks     map[string]*memoryLock
	listeners map[string]guardstore.Listener // by instance
	fail      error
	deaf      bool
	calls     map[string]int
}

// memoryLock is what the store knows about one key.
type memoryLock struct {
	holders    []*memoryHolder      // none = free; in the order in which they got in
	high       uint64               // the next fence is above it
	tombstones map[string]time.Time // of owners, until when
	queue      []waiting            // by place
	record     *memoryRecord        // nil = none
}

type waiting struct {
	owner string
	limit guardstore.Limit
	place uint64
	asked time.Time

	unsubscribed bool // it asks each second, and receives no messages
}

// NewStore returns an empty Store.
func NewStore() *Store { return &Store{} }

// NewMemoryGuard returns a Guard on a Store of its own and closes the Guard when tb ends. Lose takes
// a lock away from it, Outage makes its commands fail.
//
// In a testing/synctest bubble, call NewMemoryGuard with the tb of the bubble's function, and use
// the Guard in that bubble only. Outside of it, its methods return an OptionError.
func NewMemoryGuard(tb testing.TB, opts ...guard.Option) *guard.Guard {
	tb.Helper()
	s := NewStore()
	g, err := guard.NewWithStore(s, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	stores.Store(g, s)
	tb.Cleanup(func() {
		stores.Delete(g)
		if err := g.Close(); err != nil {
			tb.Errorf("guardtest: close Guard: %v", err)
		}
	})
	return g
}

var stores sync.Map // of *Store by *guard.Guard, as NewMemoryGuard made them

func storeOf(tb testing.TB, g *guard.Guard) *Store {
	tb.Helper()
	s, found := stores.Load(g)
	if !found {
		tb.Fatal("guardtest: the Guard is not from NewMemoryGuard, or its test has ended")
	}
	return s.(*Store)
}

// Lose takes the lock of key away from its holders, as an operator's DEL would. A holder learns of
// it at its next command: a renewal comes at a third of the ttl. g must be from NewMemoryGuard.
func Lose(tb testing.TB, g *guard.Guard, key guard.KeyFunc) {
	tb.Helper()
	s := storeOf(tb, g)
	k, err := key(tb.Context())
	if err != nil {
		tb.Fatalf("guardtest: %v", err)
	}
	s.Drop(k)
}

// Outage makes each command of g's store fail with err, without effect, until Outage is called
// with nil. g must be from NewMemoryGuard.
func Outage(tb testing.TB, g *guard.Guard, err error) {
	tb.Helper()
	storeOf(tb, g).Fail(err)
}

// Drop takes the lock of key away from its holder, as an operator's DEL would. The
// holder learns of it at its next command.
func (s *Store) Drop(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.locks[key]; l != nil {
		l.holders = nil
	}
}

// Revoke ends the hold of key under a fence as package inspect does: the holder is notified,
// its renewals are refused, and the key stays taken until it releases it or its lease
// ends. It returns false if there is another hold, or none.
func (s *Store) Revoke(key string, fence uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.lock(key).holders {
		if h.fence == fence {
			h.revoked = true
			s.notify(guardstore.Notification{Owner: h.owner, Revoked: true})
			return true
		}
	}
	return false
}

// Fail makes every command fail with err, without effect, until it is called with nil.
// Wrap err in a guardstore.RefusedError to have it count as an answer.
func (s *Store) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// Mute loses every message to claims that wait, until it is called with false.
func (s *Store) Mute(mute bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = mute
}

// Queue returns the owners that wait for key, in order.
func (s *Store) Queue(key string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var owners []string
	for _, w := range s.lock(key).queue {
		owners = append(owners, w.owner)
	}
	return owners
}

// Depth is the hash counter of key: how many calls of its hold are open, 0 when it is
// free.
func (s *Store) Depth(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	depth := 0
	for _, h := range s.lock(key).holders {
		depth += h.depth
	}
	return depth
}

// Calls is how many commands of a kind were run: acquire, renew (one for each batch; a
// re-entry is one, and its end another), release.
func (s *Store) Calls(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[op]
}

// called needs s.mu.
func (s *Store) called(op string) { setIn(&s.calls, op, s.calls[op]+1) }

func setIn[V any](m *map[string]V, key string, value V) {
	if *m == nil {
		*m = make(map[string]V)
	}
	(*m)[key] = value
}

// lock returns the state of a key after what time has done to it. It needs s.mu.
func (s *Store) lock(key string) *memoryLock {
	l := s.locks[key]
	if l == nil {
		l = &memoryLock{tombstones: make(map[string]time.Time)}
		setIn(&s.locks, key, l)
	}
	at := time.Now()
	l.holders = slices.DeleteFunc(l.holders, func(h *memoryHolder) bool { return !at.Before(h.expires) })
	for owner, until := range l.tombstones {
		if !at.Before(until) {
			delete(l.tombstones, owner)
		}
	}
	if l.record != nil && !at.Before(l.record.until) {
		l.record = nil
	}
	return l
}

// Acquire implements guardstore.Store.
func (s *Store) Acquire(_ context.Context, c guardstore.Claim) (guardstore.ClaimReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called("acquire")
	if s.fail != nil {
		return guardstore.ClaimReply{}, s.fail
	}
	l, at := s.lock(c.Key), time.Now()
	if r, ok := l.recorded(c, at); ok {
		return r, nil
	}
	_, finished := l.tombstones[c.Owner]
	switch h := l.held(c.Owner); {
	case finished || h != nil && h.revoked || l.rests(c.Owner):
		return guardstore.ClaimReply{Status: guardstore.ClaimFinished}, nil
	case h != nil && h.fence <= c.FenceAbove: // the store that granted it did not know of FenceAbove
		l.leave(c.Owner)
		l.take(c, c.TTL, at)
		s.grant(l, guardstore.Claim{}, false, at)
	case h != nil:
		h.extend(at, c.TTL)
		h.metadata = c.Metadata
		s.grant(l, guardstore.Claim{}, false, at) // to claims that fit beside it
	default:
		s.ask(l, c, at)
	}
	if h := l.held(c.Owner); h != nil {
		r := h.reply()
		r.Earlier = l.begin(c, h.fence, at)
		return r, nil
	}
	return l.busy(c, at), nil
}

// Renew implements guardstore.Store.
func (s *Store) Renew(_ context.Context, batch []guardstore.Grant) []guardstore.RenewReply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called("renew")
	replies := make([]guardstore.RenewReply, len(batch))
	for i, t := range batch {
		if s.fail != nil {
			replies[i].Err = s.fail
			continue
		}
		l := s.lock(t.Key)
		h := l.held(t.Owner)
		replies[i].Revoked = h != nil && h.revoked
		if h != nil && h.fence == t.Fence && !h.revoked {
			h.extend(time.Now(), t.TTL) // a TTL of 0 moves nothing
			l.renewRecord(t, time.Now())
			h.depth, h.metadata = t.Depth, t.Metadata
			replies[i].Held = true
		}
	}
	return replies
}

// Release implements guardstore.Store.
func (s *Store) Release(_ context.Context, r guardstore.Release) (guardstore.ReleaseReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called("release")
	if s.fail != nil {
		return guardstore.ReleaseReply{}, s.fail
	}
	l, at := s.lock(r.Key), time.Now()
	if r.Tombstone {
		l.tombstones[r.Owner] = at.Add(tombstoneLife)
	}
	l.high = max(l.high, r.Fence)
	h := l.held(r.Owner)
	defer s.finish(l, r, h != nil && !h.revoked, at)
	if h == nil {
		led := len(l.queue) > 0 && l.queue[0].owner == r.Owner
		l.leave(r.Owner)
		if led {
			s.grant(l, guardstore.Claim{}, true, at)
		}
		return guardstore.ReleaseReply{Status: guardstore.ReleaseLost}, nil
	}
	l.leave(r.Owner)
	reply := guardstore.ReleaseReply{Status: guardstore.ReleaseDone}
	if h.revoked {
		reply.Status = guardstore.ReleaseRevoked
	} else if until := h.since.Add(r.MinHold); until.After(at) && !h.limit.Fits(2) {
		kept := *h
		kept.depth, kept.expires = 0, until
		l.holders = append(l.holders, &kept)
		reply.HeldOver = true
		return reply, nil
	}
	s.grant(l, guardstore.Claim{}, false, at)
	return reply, nil
}

// Listen implements guardstore.Store.
func (s *Store) Listen(ctx context.Context, instance string, l guardstore.Listener) {
	s.mu.Lock()
	setIn(&s.listeners, instance, l)
	s.mu.Unlock()
	l.Notify(guardstore.Notification{})
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, instance)
}

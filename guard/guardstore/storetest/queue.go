package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// TestQueue runs the part of the contract about the order of waiting claims. A store of several servers
// wakes them only roughly in order: it does not have to pass.
func TestQueue(t *testing.T, newStore func(tb testing.TB) guardstore.Store) {
	t.Helper()
	run(t, "queue", newStore, queueContract)
}

var queueContract = []contractRow{
	{"who waits has a place and keeps it", (*storeTest).places},
	{"a release grants to the first in the queue", (*storeTest).grant},
	{"a grant that is not taken up passes to the next claim", (*storeTest).grantNotTakenUp},
	{"a claim without a listener is passed over, after a release and after a crash", (*storeTest).noListener},
	{"a claim without a subscription gets its turn while it asks", (*storeTest).unsubscribed},
	{"who comes to be in front is notified", (*storeTest).front},
	{"claims that wait get the key when a MinHold has ended, in order", (*storeTest).minHoldQueue},
	{"a claim that was given up, or its grant, is out", (*storeTest).givenUp},
}

// grantTime is longer than it takes until a grant that its owner does not take has
// gone to the next owner.
const grantTime = contractTTL

// listener is a guardstore.Listener that keeps its notifications.
type listener struct {
	s     *storeTest
	wakes chan guardstore.Notification
}

func newListener(s *storeTest) *listener {
	return &listener{s: s, wakes: make(chan guardstore.Notification, 100)}
}

func (e *listener) Notify(w guardstore.Notification) {
	select {
	case e.wakes <- w:
	default: // more than any test reads
	}
}

func (e *listener) Waiting() bool { return true }

// listen begins to listen for an instance, and returns when messages flow.
func (s *storeTest) listen(instance string) *listener {
	s.Helper()
	e := newListener(s)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { s.store.Listen(ctx, instance, e) })
	s.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	e.receives(guardstore.Notification{})
	return e
}

// receives waits for a message.
func (e *listener) receives(want guardstore.Notification) {
	e.s.Helper()
	timeout := time.After(grantTime)
	for {
		select {
		case w := <-e.wakes:
			if w == want {
				return
			}
		case <-timeout:
			e.s.Fatalf("no message %+v", want)
		}
	}
}

// queue asks for the key and waits in the queue, at its place if it has one.
func (s *storeTest) queue(owner string, place uint64) guardstore.ClaimReply {
	s.Helper()
	c := queued(s.claim(owner))
	c.Ticket = place
	return s.asks(c)
}

// waits is queue for an owner that has to wait after a number of others.
func (s *storeTest) waits(owner string, place uint64, inFront int) guardstore.ClaimReply {
	s.Helper()
	r := s.queue(owner, place)
	s.check(r.Status == guardstore.ClaimBusy && r.Ticket > 0 && r.Ahead == inFront, "%s: %+v, want %d in front", owner, r, inFront)
	return r
}

// comes is queue for an owner that gets the lock.
func (s *storeTest) comes(owner string) guardstore.Grant {
	s.Helper()
	return s.gets(queued(s.claim(owner)))
}

// comesInTime asks until the owner gets the lock.
func (s *storeTest) comesInTime(owner string) guardstore.Grant {
	s.Helper()
	return s.getsWithin(grantTime, queued(s.claim(owner)))
}

func (s *storeTest) places() {
	for _, instance := range []string{"a", "b", "c"} {
		s.listen(instance)
	}
	s.hold("x-1", contractTTL)
	s.check(s.busy("n-1").Ticket == 0, "who does not wait has a place")
	a := s.waits("a-1", 0, 0)
	b := s.waits("b-1", 0, 1)
	c := s.waits("c-1", 0, 2)
	s.check(a.Ticket < b.Ticket && b.Ticket < c.Ticket, "places %d, %d, %d", a.Ticket, b.Ticket, c.Ticket)
	s.check(s.waits("b-1", 0, 1).Ticket == b.Ticket, "it moved")
	s.check(s.waits("b-1", b.Ticket, 1).Ticket == b.Ticket, "it moved")
	s.release(guardstore.Grant{Key: s.key, Owner: "b-1"}, false, guardstore.ReleaseLost)
	s.waits("c-1", c.Ticket, 1)
	s.waits("d-1", b.Ticket, 1) // the place in the claim counts
	s.waits("c-1", c.Ticket, 2)
	s.check(s.waits("b-2", 0, 3).Ticket > c.Ticket, "behind everybody")
	const far = 1 << 52 // as if the clock had been set back
	s.waits("c-2", far, 4)
	s.check(s.waits("d-2", 0, 5).Ticket > far, "behind everybody")
}

func (s *storeTest) grant() {
	a, b := s.listen("a"), s.listen("b")
	x := s.hold("x-1", contractTTL)
	s.waits("a-1", 0, 0)
	place := s.waits("b-1", 0, 1).Ticket
	x.Fence += 1000 // as after local hand-overs
	s.leaves(x)
	a.receives(guardstore.Notification{Owner: "a-1"})
	s.busy("n-1")
	s.waits("b-1", place, 0)
	grant := s.comes("a-1")
	s.check(grant.Fence > x.Fence, "fence %d after %d", grant.Fence, x.Fence)
	s.check(s.comes("a-1").Fence == grant.Fence, "another fence")
	r := s.waits("b-1", place, 0)
	s.check(r.Remaining > contractTTL-5*time.Second && r.Holder == "of a-1", "not a full hold: %+v", r)
	s.renewed(grant, true)
	s.leaves(grant)
	b.receives(guardstore.Notification{Owner: "b-1"})
	second := s.comes("b-1")
	s.check(second.Fence > grant.Fence, "fence %d after %d", second.Fence, grant.Fence)
	s.leaves(second)
	s.hold("n-1", contractTTL)
}

func (s *storeTest) grantNotTakenUp() {
	a := s.listen("a")
	s.listen("b")
	s.listen("c")
	x := s.hold("x-1", contractTTL)
	place := s.waits("a-1", 0, 0).Ticket
	s.waits("b-1", 0, 1)
	s.leaves(x)
	a.receives(guardstore.Notification{Owner: "a-1"})
	b := s.comesInTime("b-1")
	s.waits("c-1", 0, 0)
	s.check(s.waits("a-1", place, 0).Ticket == place, "it lost its place")
	s.waits("c-1", 0, 1)
	s.leaves(b)
	s.comes("a-1")
}

func (s *storeTest) unsubscribed() {
	s.listen("a")
	mute := guardstore.Claim{Key: s.key, Owner: "mute-1", TTL: contractTTL, Queue: true, Unsubscribed: true}
	x := s.hold("x-1", contractTTL)
	s.check(s.asks(mute).Status == guardstore.ClaimBusy, "%s is not busy", mute.Owner)
	s.waits("a-1", 0, 1)
	s.leaves(x)
	s.waits("a-1", 0, 0)
	s.leaves(s.gets(mute))
	a := s.comes("a-1")
	mute.Owner = "mute-2"
	s.check(s.asks(mute).Status == guardstore.ClaimBusy, "%s is not busy", mute.Owner)
	s.waits("a-2", 0, 1)
	s.leaves(a)
	s.comesInTime("a-2") // mute-2 asks no more
}

func (s *storeTest) front() {
	listeners := map[string]*listener{}
	for _, instance := range []string{"a", "b", "c"} {
		listeners[instance] = s.listen(instance)
	}
	x := s.hold("x-1", contractTTL)
	for i, owner := range []string{"a-1", "b-1", "c-1"} {
		s.waits(owner, 0, i)
	}
	s.leaves(x)
	listeners["a"].receives(guardstore.Notification{Owner: "a-1"})
	listeners["b"].receives(guardstore.Notification{Owner: "b-1", First: true})
	s.comes("a-1")
	s.release(guardstore.Grant{Key: s.key, Owner: "b-1"}, true, guardstore.ReleaseLost) // it left
	listeners["c"].receives(guardstore.Notification{Owner: "c-1", First: true})
}

func (s *storeTest) noListener() {
	for _, instance := range []string{"a", "b", "c"} {
		s.listen(instance)
	}
	for _, ttl := range []time.Duration{contractTTL, 300 * time.Millisecond} {
		s.key += "+"
		x := s.hold("x-1", ttl)
		s.waits("dead-1", 0, 0)
		s.waits("a-1", 0, 1)
		s.waits("b-1", 0, 2)
		place := s.waits("c-1", 0, 3).Ticket
		if ttl == contractTTL {
			s.leaves(x)
		} else { // a crash
			time.Sleep(s.busy("n-1").Remaining + 5*time.Millisecond)
		}
		then, now := s.queue("c-1", place), s.queue("c-1", place)
		s.check(now.Ahead == then.Ahead, "%d in front, and then %d", then.Ahead, now.Ahead)
		s.comesInTime("a-1")
	}
}

func (s *storeTest) givenUp() {
	listeners := map[string]*listener{"a": s.listen("a"), "b": s.listen("b"), "c": s.listen("c")}
	x := s.hold("x-1", contractTTL)
	for i, owner := range []string{"a-1", "b-1", "c-1"} {
		s.waits(owner, 0, i)
	}
	s.release(guardstore.Grant{Owner: "a-1"}, true, guardstore.ReleaseLost)
	s.waits("b-1", 0, 0)
	s.finished(queued(s.claim("a-1")))
	s.leaves(x)
	listeners["b"].receives(guardstore.Notification{Owner: "b-1"})
	s.leaves(guardstore.Grant{Owner: "b-1"}) // it has the grant, and was not told
	listeners["c"].receives(guardstore.Notification{Owner: "c-1"})
	s.comes("c-1")
}

package guardtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/guard"
)

// TestQueue runs the part of the contract that is about waiting in order: a store of
// several servers wakes those who wait only roughly so, and is not measured by it.
func TestQueue(t *testing.T, newStore func(tb testing.TB) guard.Store) {
	t.Helper()
	run(t, newStore, queueContract)
}

var queueContract = []contractRow{
	{"who waits has a place and keeps it", (*storeTest).places},
	{"a release grants to the first in the queue", (*storeTest).grant},
	{"a grant that is not taken up goes on", (*storeTest).grantNotTakenUp},
	{"a release passes over whom nobody listens for", (*storeTest).nobodyListens},
	{"a crash is no reason to wait for whom nobody listens for", (*storeTest).nobodyListensAfterACrash},
	{"the two in front are told", (*storeTest).fronts},
	{"a release takes the next claim in", (*storeTest).nextClaim},
	{"a next claim that was given up stays out", (*storeTest).nextClaimGivenUp},
	{"a waiter that was given up is out", (*storeTest).waiterGivenUp},
	{"a grant that was given up goes on", (*storeTest).grantGivenUp},
}

// The queue's part of the contract. Owners are named for their instance: "a-1" is one of
// instance "a".

// grantTime is longer than it takes until a grant that its owner does not come for has
// gone on to the next one.
const grantTime = 5 * time.Second

// listen begins to listen for an instance, and returns when messages flow.
func (s *storeTest) listen(instance string) *ear {
	s.Helper()
	e := &ear{s: s, wakes: make(chan guard.Wake, 100)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { s.store.Listen(ctx, instance, e) })
	s.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	e.hears(guard.Wake{})
	return e
}

// hears waits for a message.
func (e *ear) hears(want guard.Wake) {
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

// queue asks for the key and waits in the queue, at a place if it has one.
func (s *storeTest) queue(owner string, place uint64) guard.ClaimReply {
	s.Helper()
	c := guard.Claim{Key: s.key, Owner: owner, TTL: contractTTL, Metadata: "of " + owner, Queue: true, Place: place}
	r, err := s.store.Acquire(s.Context(), c)
	s.check(err == nil, "acquire: %v", err)
	return r
}

// waits is queue for an owner that has to wait behind a number of others.
func (s *storeTest) waits(owner string, place uint64, inFront int) guard.ClaimReply {
	s.Helper()
	r := s.queue(owner, place)
	s.check(r.Status == guard.ClaimBusy && r.Place > 0 && r.InFront == inFront, "%s: %+v, want %d in front", owner, r, inFront)
	return r
}

// comes is queue for an owner that the lock is granted to.
func (s *storeTest) comes(owner string) guard.Tenure {
	s.Helper()
	r := s.queue(owner, 0)
	s.check(r.Status == guard.ClaimHeld, "%s: %+v, want held", owner, r)
	return guard.Tenure{Key: s.key, Owner: owner, Fence: r.Fence, TTL: contractTTL, Depth: 1}
}

// comesInTime asks until the lock is granted to the owner.
func (s *storeTest) comesInTime(owner string, place uint64) guard.Tenure {
	s.Helper()
	for end := time.Now().Add(grantTime); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if r := s.queue(owner, place); r.Status == guard.ClaimHeld {
			return guard.Tenure{Key: s.key, Owner: owner, Fence: r.Fence, TTL: contractTTL, Depth: 1}
		}
	}
	s.Fatalf("%s is not granted the lock", owner)
	return guard.Tenure{}
}

// withdrawn is queue for an owner that is over.
func (s *storeTest) withdrawn(owner string) {
	s.Helper()
	r := s.queue(owner, 0)
	s.check(r.Status == guard.ClaimWithdrawn, "%s: %+v, want withdrawn", owner, r)
}

// releaseFor releases a tenure with a next claim, and then, as a command that was sent
// twice, once more.
func (s *storeTest) releaseFor(t guard.Tenure, next string) guard.ClaimReply {
	s.Helper()
	release := guard.Release{
		Key: t.Key, Owner: t.Owner, Fence: t.Fence, TTL: contractTTL,
		Next: &guard.NextClaim{Owner: next, Metadata: "of " + next},
	}
	first, err := s.store.Release(s.Context(), release)
	s.check(err == nil && first.Status == guard.ReleaseDone, "release of %s: %+v, %v", t.Owner, first, err)
	again, err := s.store.Release(s.Context(), release)
	s.check(err == nil && again.Status != guard.ReleaseDone && again.Next.Status == 0, "again: %+v, %v", again, err)
	return first.Next
}

func (s *storeTest) places() {
	for _, instance := range []string{"a", "b", "c", "d"} {
		s.listen(instance)
	}
	s.hold("x-1", contractTTL)
	s.check(s.busy("n-1").Place == 0, "who does not wait has a place")
	a := s.waits("a-1", 0, 0)
	b := s.waits("b-1", 0, 1)
	c := s.waits("c-1", 0, 2)
	s.check(a.Place < b.Place && b.Place < c.Place, "places %d, %d, %d", a.Place, b.Place, c.Place)
	s.check(s.waits("b-1", 0, 1).Place == b.Place, "it moved")
	s.check(s.waits("b-1", b.Place, 1).Place == b.Place, "it moved")
	s.release(guard.Tenure{Key: s.key, Owner: "b-1"}, false, guard.ReleaseLost)
	s.waits("c-1", c.Place, 1)
	s.waits("d-1", b.Place, 1) // a place that somebody brings counts
	s.waits("c-1", c.Place, 2)
	s.check(s.waits("b-2", 0, 3).Place > c.Place, "behind everybody")
	const far = 1 << 52 // as if the clock had been set back
	s.waits("c-2", far, 4)
	s.check(s.waits("d-2", 0, 5).Place > far, "behind everybody")
}

func (s *storeTest) grant() {
	a, b := s.listen("a"), s.listen("b")
	x := s.hold("x-1", contractTTL)
	s.waits("a-1", 0, 0)
	place := s.waits("b-1", 0, 1).Place
	x.Fence += 1000 // as if it had been handed on locally
	s.release(x, false, guard.ReleaseDone)
	a.hears(guard.Wake{Owner: "a-1"})
	s.busy("n-1")
	s.waits("b-1", place, 0)
	tenure := s.comes("a-1")
	s.check(tenure.Fence > x.Fence, "fence %d after %d", tenure.Fence, x.Fence)
	s.check(s.comes("a-1").Fence == tenure.Fence, "another fence")
	r := s.waits("b-1", place, 0)
	s.check(r.Remaining > contractTTL-5*time.Second && r.Holder == "of a-1", "not a full hold: %+v", r)
	s.renewed(tenure, true)
	s.release(tenure, false, guard.ReleaseDone)
	b.hears(guard.Wake{Owner: "b-1"})
	second := s.comes("b-1")
	s.check(second.Fence > tenure.Fence, "fence %d after %d", second.Fence, tenure.Fence)
	s.release(second, false, guard.ReleaseDone)
	s.hold("n-1", contractTTL)
}

func (s *storeTest) grantNotTakenUp() {
	a := s.listen("a")
	s.listen("b")
	s.listen("c")
	x := s.hold("x-1", contractTTL)
	place := s.waits("a-1", 0, 0).Place
	s.waits("b-1", 0, 1)
	s.release(x, false, guard.ReleaseDone)
	a.hears(guard.Wake{Owner: "a-1"})
	b := s.comesInTime("b-1", 0)
	s.waits("c-1", 0, 0)
	s.check(s.waits("a-1", place, 0).Place == place, "it lost its place")
	s.waits("c-1", 0, 1)
	s.release(b, false, guard.ReleaseDone)
	s.comes("a-1")
}

func (s *storeTest) nobodyListens() {
	s.listen("a")
	s.listen("b")
	x := s.hold("x-1", contractTTL)
	s.waits("dead-1", 0, 0)
	s.waits("a-1", 0, 1)
	s.waits("b-1", 0, 2)
	next := s.releaseFor(x, "x-2")
	s.check(next.Status == guard.ClaimBusy, "next claim: %+v", next)
	now := s.queue("x-2", next.Place)
	s.check(now.InFront == next.InFront, "%d in front, and then %d", next.InFront, now.InFront)
	s.comesInTime("a-1", 0)
}

// nobodyListensAfterACrash is the same for the reply to an acquire that finds the lock
// free.
func (s *storeTest) nobodyListensAfterACrash() {
	for _, instance := range []string{"a", "b", "c"} {
		s.listen(instance)
	}
	s.hold("x-1", 300*time.Millisecond)
	s.waits("dead-1", 0, 0)
	s.waits("a-1", 0, 1)
	s.waits("b-1", 0, 2)
	place := s.waits("c-1", 0, 3).Place
	time.Sleep(s.busy("n-1").Remaining + 5*time.Millisecond)
	then := s.queue("c-1", place)
	now := s.queue("c-1", place)
	s.check(now.InFront == then.InFront, "%d in front, and then %d", then.InFront, now.InFront)
	s.comesInTime("a-1", 0)
}

func (s *storeTest) fronts() {
	ears := map[string]*ear{}
	for _, instance := range []string{"a", "b", "c", "d"} {
		ears[instance] = s.listen(instance)
	}
	x := s.hold("x-1", contractTTL)
	for i, owner := range []string{"a-1", "b-1", "c-1", "d-1"} {
		s.waits(owner, 0, i)
	}
	s.release(x, false, guard.ReleaseDone)
	ears["a"].hears(guard.Wake{Owner: "a-1"})
	ears["c"].hears(guard.Wake{Owner: "c-1", Front: true})
	s.comes("a-1")
	s.release(guard.Tenure{Key: s.key, Owner: "b-1"}, true, guard.ReleaseLost) // it left
	ears["d"].hears(guard.Wake{Owner: "d-1", Front: true})
}

func (s *storeTest) nextClaim() {
	a := s.listen("a")
	x := s.hold("x-1", contractTTL)
	next := s.releaseFor(x, "x-2")
	s.check(next.Status == guard.ClaimHeld && next.Fence > x.Fence, "next claim: %+v after %d", next, x.Fence)
	r := s.busy("n-1")
	s.check(r.Remaining > contractTTL-5*time.Second && r.Holder == "of x-2", "not a full hold: %+v", r)
	x = s.comes("x-2")
	s.check(x.Fence == next.Fence, "fences %d and %d", next.Fence, x.Fence)
	s.waits("a-1", 0, 0)
	next = s.releaseFor(x, "x-3")
	s.check(next.Status == guard.ClaimBusy && next.Place > 0 && next.InFront == 0, "next claim: %+v", next)
	a.hears(guard.Wake{Owner: "a-1"})
	s.release(s.comes("a-1"), false, guard.ReleaseDone)
	s.comesInTime("x-3", next.Place)
}

func (s *storeTest) nextClaimGivenUp() {
	x := s.hold("x-1", contractTTL)
	s.release(guard.Tenure{Key: s.key, Owner: "x-2"}, true, guard.ReleaseLost)
	s.release(guard.Tenure{Key: s.key, Owner: "x-3"}, true, guard.ReleaseLost)
	next := s.releaseFor(x, "x-2")
	s.check(next.Status != guard.ClaimHeld && next.Place == 0, "next claim: %+v", next)
	s.withdrawn("x-1")
	s.withdrawn("x-2")
	s.withdrawn("x-3")
	s.hold("n-1", contractTTL)
}

func (s *storeTest) waiterGivenUp() {
	b := s.listen("b")
	s.listen("a")
	x := s.hold("x-1", contractTTL)
	s.waits("a-1", 0, 0)
	s.waits("b-1", 0, 1)
	s.release(guard.Tenure{Key: s.key, Owner: "a-1"}, true, guard.ReleaseLost)
	s.waits("b-1", 0, 0)
	s.withdrawn("a-1")
	s.release(x, false, guard.ReleaseDone)
	b.hears(guard.Wake{Owner: "b-1"})
	s.comes("b-1")
}

func (s *storeTest) grantGivenUp() {
	a, b := s.listen("a"), s.listen("b")
	x := s.hold("x-1", contractTTL)
	s.waits("a-1", 0, 0)
	s.waits("b-1", 0, 1)
	s.release(x, false, guard.ReleaseDone)
	a.hears(guard.Wake{Owner: "a-1"})
	s.release(guard.Tenure{Key: s.key, Owner: "a-1"}, false, guard.ReleaseDone)
	b.hears(guard.Wake{Owner: "b-1"})
	s.comes("b-1")
}

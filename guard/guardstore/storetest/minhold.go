package storetest

import (
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// MinHold's part of the contract.

// releaseWith releases a hold with a MinHold.
func (s *storeTest) releaseWith(g guardstore.Grant, least time.Duration, want guardstore.ReleaseStatus) guardstore.ReleaseReply {
	s.Helper()
	return s.releases(guardstore.Release{Owner: g.Owner, Fence: g.Fence, MinHold: least}, want)
}

// leftOfMinHold is the most that may be left of a MinHold of a second, 200 ms after the grant: some
// servers of a quorum grant a key later than the others.
const leftOfMinHold = 900 * time.Millisecond

// busyAfter is the reply to an owner after a release with a MinHold of a second. A quorum's
// release may still be on its way to a minority: Remaining says how long the hold lasts then.
func (s *storeTest) busyAfter(owner string) guardstore.ClaimReply {
	for end := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
		if r := s.busy(owner); r.Remaining <= time.Second || time.Now().After(end) {
			return r
		}
	}
}

func (s *storeTest) minHold() {
	granted := time.Now()
	a := s.hold("a", contractTTL)
	time.Sleep(200 * time.Millisecond)
	s.check(s.releaseWith(a, time.Second, guardstore.ReleaseDone).HeldOver, "not held over")
	released := time.Now()
	r := s.busyAfter("b")
	s.check(r.Done && r.Holder == "of a", "%+v", r)
	s.check(r.Remaining > 0 && r.Remaining <= leftOfMinHold, "%v are left", r.Remaining)
	s.renewed(a, false)
	s.setDepth(a, 2, false)
	s.check(s.asks(s.claim("a")).Status != guardstore.ClaimHeld, "a came back")

	b := s.getsWithin(contractTTL, s.claim("b"))
	took := time.Since(granted)
	s.check(took >= 990*time.Millisecond, "free %v after the grant", took)
	s.check(time.Since(released) < 3*time.Second, "kept for %v after the release", time.Since(released))
	s.check(b.Fence > a.Fence, "fences %d and %d", a.Fence, b.Fence)
	s.check(!s.busy("c").Done, "b is at work")
}

func (s *storeTest) minHoldTwice() {
	a := s.hold("a", contractTTL)
	s.releaseWith(a, time.Second, guardstore.ReleaseDone)
	first := s.busy("b").Remaining
	time.Sleep(300 * time.Millisecond)
	s.releaseWith(a, time.Second, guardstore.ReleaseLost)
	second := s.busy("b")
	s.check(second.Done && second.Remaining <= first-100*time.Millisecond, "%v were left, and %v again", first, second.Remaining)
	b := s.getsWithin(contractTTL, s.claim("b"))
	s.again(guardstore.Release{Owner: a.Owner, Fence: a.Fence, MinHold: time.Hour})
	s.renewed(b, true)
}

func (s *storeTest) minHoldLost() {
	a := s.hold("a", 100*time.Millisecond)
	time.Sleep(150 * time.Millisecond)
	s.releaseWith(a, time.Hour, guardstore.ReleaseLost)
	b := s.hold("b", contractTTL)
	s.releaseWith(a, time.Hour, guardstore.ReleaseLost)
	s.renewed(b, true)
	s.release(b, false, guardstore.ReleaseDone)
	s.hold("c", contractTTL)
}

func (s *storeTest) minHoldAndTTL() {
	over := s.hold("a", contractTTL)
	time.Sleep(150 * time.Millisecond)
	s.check(!s.releaseWith(over, 100*time.Millisecond, guardstore.ReleaseDone).HeldOver, "held over")
	a := s.hold("a", 500*time.Millisecond)
	s.releaseWith(a, 2*time.Second, guardstore.ReleaseDone)
	time.Sleep(600 * time.Millisecond)
	s.check(s.busy("b").Done, "free after the ttl")
	b := s.getsWithin(contractTTL, s.claim("b"))
	time.Sleep(100 * time.Millisecond) // a server of a quorum where b did not get in may have a's MinHold yet
	s.releaseWith(b, 300*time.Millisecond, guardstore.ReleaseDone)
	if c := s.asks(s.claim("c")); c.Done { // a quorum may be in the middle of its servers' ends
		s.check(c.Remaining <= 300*time.Millisecond, "%v is left, of 300ms", c.Remaining)
	}
	s.getsWithin(time.Second, s.claim("c"))
}

func (s *storeTest) minHoldAhead() {
	floor := uint64(time.Now().Add(time.Hour).UnixMicro())
	ahead := s.claim("a")
	ahead.FenceAbove = floor
	a := s.gets(ahead)
	time.Sleep(200 * time.Millisecond)
	s.releaseWith(a, time.Second, guardstore.ReleaseDone)
	left := s.busyAfter("b").Remaining
	s.check(left > 0 && left <= leftOfMinHold, "%v are left", left)
	s.check(s.getsWithin(3*time.Second, s.claim("b")).Fence > a.Fence, "the fence fell")
}

func (s *storeTest) minHoldQueue() {
	s.listen("b")
	s.listen("c")
	a := s.hold("a-1", contractTTL)
	b := s.waits("b-1", 0, 0).Ticket
	c := s.waits("c-1", 0, 1).Ticket
	s.releaseWith(a, 500*time.Millisecond, guardstore.ReleaseDone)
	r := s.queue("b-1", b)
	s.check(r.Status == guardstore.ClaimBusy && r.Done, "b-1: %+v", r)
	s.check(r.Ticket == b, "it has the place %d, and had %d", r.Ticket, b)
	for end := time.Now().Add(contractTTL); s.queue("c-1", c).Status == guardstore.ClaimBusy; time.Sleep(5 * time.Millisecond) {
		if r = s.queue("b-1", b); r.Status == guardstore.ClaimHeld {
			return
		}
		s.check(time.Now().Before(end), "no owner gets it")
	}
	s.Fatal("c-1 got it before b-1")
}

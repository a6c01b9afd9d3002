package quorum

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// Two calls for one claim: the second finds it held, and asks the servers. A third leaves first.
func TestClaim_HasOneRoundAtATime(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.script(does("acquire", slow(nodeTimeout/2)), does("acquire", slow(nodeTimeout/2)), does("acquire", slow(nodeTimeout*3/4)))
		first, second := s.goAcquire("a-1"), s.goAcquire("a-1")
		ctx, cancel := context.WithTimeout(context.Background(), nodeTimeout/4)
		defer cancel()
		synctest.Wait()
		assert.Equal(t, nodeTimeout/4, takes(func() { s.acquireFails(ctx, claim("a-1"), "deadline") }))
		r := <-first
		assert.Equal(t, guardstore.ClaimHeld, r.Status)
		assert.Equal(t, r, <-second)
		s.counts("acquire a-1~2", 0, 0, 0)
		s.counts("renew a-1~1", 1, 1, 0) // the third has not granted it yet
	})
}

func TestClaim_ThatHoldsIsConfirmed(t *testing.T) {
	run(t, "it does", 3, false, func(t *testing.T, s *fakeQuorum) {
		g := s.hold()
		r := s.mustAcquire(claim("a-1"))
		assert.Equal(t, claimReply{Status: guardstore.ClaimHeld, Owner: g.Owner, Fence: g.Fence}, r)
		s.counts("renew", 1, 1, 1)
		g.Fence = s.nodes[1].fence
		assert.Equal(t, g, s.nodes[1].lastCall("renew").grant)
	})
	run(t, "too few answer", 3, false, func(t *testing.T, s *fakeQuorum) {
		g := s.hold()
		s.script(does("renew", fails(errBroken)), does("renew", fails(errBroken)))
		s.acquireFails(t.Context(), claim("a-1"), "2 of 3 servers failed")
		s.nodes[0].set(does("renew", nil))
		assert.Equal(t, g.Owner, s.mustAcquire(claim("a-1")).Owner, "it still does")
	})
	run(t, "it does not", 3, false, func(t *testing.T, s *fakeQuorum) {
		s.hold()
		s.each(does("acquire", fails(errBroken))) // no repair
		s.script(wiped, wiped)
		assert.Equal(t, finished, s.mustAcquire(claim("a-1")))
		s.known(0)
		s.holders("", "", "")
	})
}

// A claim is released while a round of it is under way, and another call waits for that.
func TestClaim_ThatIsReleasedDuringItsRoundIsOver(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.each(does("acquire", slow(nodeTimeout/2)))
		first, second := s.goAcquire("a-1"), s.goAcquire("a-1")
		time.Sleep(nodeTimeout / 4)
		s.releaseClaim("a-1", true)
		assert.Equal(t, finished, <-first)
		assert.Equal(t, finished, <-second)
		time.Sleep(nodeTimeout)
		s.counts("acquire", 1, 1, 1)
		s.holders("", "", "")
		s.known(0)
	})
}

func TestClaim_ThatIsReleasedDuringItsConfirmationIsOver(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold()
		s.each(does("renew", slow(nodeTimeout/2)))
		confirmed := s.goAcquire("a-1")
		time.Sleep(nodeTimeout / 4)
		s.mustRelease(g)
		assert.Nil(t, s.round(g.Owner), "it does not hold any more")
		assert.Equal(t, finished, <-confirmed)
		s.known(0)
	})
}

// The fences of the servers are near each other or not, and ahead of their clocks or not.
func TestFence_IsTheHighestAndAMajorityKnowsIt(t *testing.T) {
	apart := uint64(leaseTTL.Microseconds()) / 2
	for name, c := range map[string]struct {
		fences [3]uint64
		ahead  [3]bool
		raises int
		ahead1 bool
	}{
		"near":              {fences: [3]uint64{1000, 1002, 1001}},
		"at the bound":      {fences: [3]uint64{1000, 1000 + apart, 1001}},
		"apart":             {fences: [3]uint64{1000, 1001 + apart, 1001}, raises: 1, ahead1: true},
		"a low one ahead":   {fences: [3]uint64{1000, 1002, 1001}, ahead: [3]bool{0: true}, raises: 1, ahead1: true},
		"the highest ahead": {fences: [3]uint64{1000, 1002, 1001}, ahead: [3]bool{1: true}, ahead1: true},
	} {
		run(t, name, 3, true, func(t *testing.T, s *fakeQuorum) {
			for i, f := range s.nodes {
				f.acquire = func(k guardstore.Claim) claimReply {
					f.holder, f.fence = k.Owner, c.fences[i]
					return claimReply{Status: guardstore.ClaimHeld, Fence: f.fence, FenceAhead: c.ahead[i]}
				}
			}
			want := claimReply{Status: guardstore.ClaimHeld, Owner: "a-1~1", Fence: c.fences[1], FenceAhead: c.ahead1}
			assert.Equal(t, want, s.mustAcquire(claim("a-1")))
			s.counts(fmt.Sprint("raise a-1~1 ", c.fences[1]), c.raises, c.raises, c.raises)
			assert.Equal(t, want, s.mustAcquire(claim("a-1")), "confirmed as it was")
		})
	}
}

// A fence is far ahead, and too few servers can raise theirs: the round is given up, at once.
func TestFence_ThatTooFewKnowIsNone(t *testing.T) {
	down, hung := does("raise", fails(errBroken)), does("raise", slow(nodeTimeout))
	loses := func(f *fake) { does("raise", func(context.Context) error { f.set(wiped); return nil })(f) }
	for name, c := range map[string]struct {
		servers [3]change
		says    string
	}{
		"one lost it":            {[3]change{nothing, nothing, loses}, "no longer held on enough servers"},
		"one is down":            {[3]change{nothing, nothing, down}, "1 of 3 servers failed"},
		"one is down, one hangs": {[3]change{nothing, hung, down}, "1 of 3 servers failed"},
	} {
		run(t, name, 3, true, func(t *testing.T, s *fakeQuorum) {
			s.nodes[1].last = 1 << 50
			s.script(c.servers[:]...)
			assert.Zero(t, takes(func() { s.acquireFails(t.Context(), claim("a-1"), c.says) }))
			time.Sleep(nodeTimeout)
			s.holders("", "", "")
			s.known(0)
		})
	}
}

// A server that another claim holds does not count for the fence, and is not asked to raise it.
func TestFence_IsForServersThatVoted(t *testing.T) {
	run(t, "apart", 3, false, func(t *testing.T, s *fakeQuorum) {
		s.nodes[0].set(taken)
		s.nodes[1].last = 1 << 50
		s.nodes[2].set(does("raise", fails(errBroken)))
		s.acquireFails(t.Context(), claim("a-1"), "1 of 3 servers failed")
		s.counts("raise", 0, 1, 1)
	})
	run(t, "near each other", 3, false, func(_ *testing.T, s *fakeQuorum) {
		s.each(does("acquire", late(nil)), func(f *fake) { f.last = 1 << 50 })
		s.nodes[0].set(taken, does("acquire", nil))
		s.hold()
		s.counts("raise", 0, 0, 0)
	})
}

// A server that does not listen is not asked for a moment. A server that fails in another way is asked each time.
func TestBreaker_Rests(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		cycles := func(n int, err error) {
			s.nodes[0].set(does("", fails(err)))
			s.forget()
			for range n {
				s.mustRelease(s.hold())
			}
		}
		cycles(5, errDial)
		s.counts("", 1, 10, 10)
		time.Sleep(breakerRest)
		cycles(1, nil)
		s.counts("", 2, 2, 2)
		cycles(2, errBroken)
		s.counts("acquire", 2, 2, 2)
	})
}

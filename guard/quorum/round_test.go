package quorum

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// A round does not wait for more answers than decide. Without a majority of answers it has failed, and is never busy:
// whichever answer comes first, and also while others are yet to come. Done says that only a MinHold keeps the lock.
func TestRound_Outcome(t *testing.T) {
	const (
		isHeld     = guardstore.ClaimHeld
		isBusy     = guardstore.ClaimBusy
		isFinished = guardstore.ClaimFinished
		failed     = guardstore.ClaimStatus(0)
		ms         = time.Millisecond
	)
	keeps := both(does("acquire", late(nil)), says(claimReply{Status: guardstore.ClaimBusy, Remaining: time.Second, Done: true}))
	last := both(taken, does("acquire", slow(2*ms)))
	down, hung := does("", fails(errBroken)), does("", hangs)
	downLate := does("", late(errBroken))
	for name, c := range map[string]struct {
		servers []change
		all     bool
		want    guardstore.ClaimStatus
		done    bool
		takes   time.Duration
	}{
		"two of five are taken":     {[]change{taken, taken, nothing, nothing, nothing}, false, isHeld, false, 0},
		"three of five are taken":   {[]change{taken, taken, taken, nothing, nothing}, false, isBusy, false, 20 * ms},
		"all: held":                 {[]change{nothing, nothing, nothing}, true, isHeld, false, 0},
		"held, one hangs":           {[]change{nothing, nothing, hung}, false, isHeld, false, 0},
		"busy, one hangs":           {[]change{says(busy), says(busy), hung}, false, isBusy, false, 0},
		"finished, two hang":        {[]change{says(finished), hung, hung}, false, isFinished, false, 0},
		"two are down, one hangs":   {[]change{down, down, hung}, false, failed, false, 0},
		"taken, two are down":       {[]change{taken, down, down}, false, failed, false, 0},
		"taken, two are down later": {[]change{taken, downLate, downLate}, false, failed, false, ms},
		"taken, two hang":           {[]change{taken, hung, hung}, false, failed, false, nodeTimeout},
		"all: two taken, one hangs": {[]change{taken, taken, hung}, true, failed, false, nodeTimeout},
		"all: two taken, one down":  {[]change{taken, taken, down}, true, failed, false, 0},

		"kept, one is down":           {[]change{down, keeps, keeps}, false, isBusy, true, ms},
		"kept, one is taken":          {[]change{last, keeps, keeps}, false, isBusy, true, ms},
		"kept, two are taken":         {[]change{taken, keeps, taken}, false, isBusy, false, 0},
		"kept, one taken, one down":   {[]change{keeps, taken, down}, false, isBusy, false, ms},
		"kept, two of five are free":  {[]change{nothing, nothing, last, last, keeps}, false, isBusy, true, 20 * ms},
		"all: kept by all":            {[]change{keeps, keeps, keeps}, true, isBusy, true, ms},
		"all: one is taken":           {[]change{last, nothing, nothing}, true, isBusy, false, 20 * ms},
		"all: kept, one lost it":      {[]change{keeps, nothing, keeps}, true, isBusy, true, 20 * ms},
		"all: kept by one, two taken": {[]change{taken, keeps, taken}, true, isBusy, true, ms},
		"all: they are taken":         {[]change{taken, taken, taken}, true, isBusy, false, 0},
	} {
		run(t, name, len(c.servers), c.all, func(t *testing.T, s *fakeQuorum) {
			s.script(c.servers...)
			assert.LessOrEqual(t, takes(func() {
				if c.want == failed {
					s.acquireFails(t.Context(), claim("a-1"), "servers failed")
					return
				}
				r := s.mustAcquire(claim("a-1"))
				assert.Equal(t, c.want, r.Status)
				assert.Equal(t, c.done, r.Done)
			}), c.takes)
		})
	}
}

func TestRound_TakesInLaterAnswers(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.nodes[2].set(does("acquire", slow(nodeTimeout/2)))
		ctx, cancel := context.WithCancel(t.Context())
		r, err := s.Acquire(ctx, claim("a-1"))
		cancel() // the call to the third server continues
		require.NoError(t, err)
		assert.Equal(t, uint64(201), r.Fence, "the highest of the two")
		time.Sleep(nodeTimeout)
		s.holders(r.Owner, r.Owner, r.Owner)
		s.renewHeld(guardstore.Grant{Key: "k", Owner: r.Owner, Fence: r.Fence, TTL: leaseTTL})
		s.counts("renew a-1~1", 1, 1, 1)
		s.counts("acquire", 1, 1, 1)
		for _, f := range s.nodes {
			assert.Equal(t, f.fence, f.lastCall("renew").grant.Fence, "its own")
		}
	})
}

func TestRound_OfACallerThatLeftIsGivenBackByItsRelease(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.each(does("acquire", slow(nodeTimeout/2)))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(nodeTimeout/4, cancel)
		assert.Equal(t, nodeTimeout/4, takes(func() { s.acquireFails(ctx, claim("a-1"), "canceled") }))
		time.Sleep(nodeTimeout)
		s.holders("a-1~1", "a-1~1", "a-1~1")
		s.releaseClaim("a-1", true)
		s.holders("", "", "")
	})
}

// A caller's deadline is before the servers' time is up, or after it.
func TestRound_EndsInTime(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{
		nodeTimeout / 2: nodeTimeout * 3 / 8, // a quarter is left for the caller's answer
		5 * nodeTimeout: nodeTimeout,
	} {
		run(t, limit.String(), 3, false, func(t *testing.T, s *fakeQuorum) {
			s.each(does("", hangs))
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			assert.Equal(t, want, takes(func() { s.acquireFails(ctx, claim("a-1"), "servers failed") }))
		})
	}
}

// A taken lock is asked for once. Two servers have nothing to take back.
func TestRound_HasItsOwnOwnerAndWaitsInNoQueue(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.each(taken)
		s.nodes[2].set(does("acquire", late(nil))) // it is decided before
		for i := range 2 {
			s.mustAcquire(queued("a-1"))
			s.counts("acquire", i+1, i+1, i+1)
			s.counts("rollback", 0, 0, i+1)
			assert.Equal(t, claim(fmt.Sprint("a-1~", i+1)), s.nodes[0].lastCall("acquire").claim)
		}
		s.known(0)
	})
}

// Two servers are free from the second round on. It begins, after a rest, with the server that the first round got.
func TestRound_AfterASplitGoesInOrder(t *testing.T) {
	for first := range 2 {
		run(t, fmt.Sprint("server ", first), 3, false, func(t *testing.T, s *fakeQuorum) {
			for i, f := range s.nodes {
				tries := 0
				if i != first {
					f.set(taken, does("acquire", func(context.Context) error {
						if tries++; tries > 1 {
							f.set(wiped)
						}
						time.Sleep(2 * time.Millisecond)
						return nil
					}))
				}
			}
			s.nodes[first].set(does("acquire", late(nil)), does("rollback", slow(nodeTimeout/2))) // the next round waits for that
			var r claimReply
			assert.Greater(t, takes(func() { r = s.mustAcquire(claim("a-1")) }), nodeTimeout/2+5*time.Millisecond)
			assert.Equal(t, guardstore.ClaimHeld, r.Status)
			require.Equal(t, "a-1~2", r.Owner)
			s.counts("acquire a-1~2", 1, 1, 1)
			assert.Equal(t, first, s.firstAsked("acquire a-1~2"))
		})
	}
}

// The server that the first round got is taken in the second one: no other is asked, and there is no third.
func TestRound_InOrderEndsAtAServerThatIsTaken(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.each(taken, does("acquire", late(nil)))
		s.nodes[1].set(wiped, does("acquire", nil), does("rollback", func(context.Context) error {
			s.nodes[1].set(taken)
			return nil
		}))
		assert.Equal(t, guardstore.ClaimBusy, s.mustAcquire(claim("a-1")).Status)
		s.counts("acquire", 1, 2, 1)
	})
}

// All servers always let the first of them be taken only.
func TestRound_IsTriedAFewTimes(t *testing.T) {
	for name, k := range map[string]guardstore.Claim{"does not wait": claim("a-1"), "waits": queued("a-1")} {
		run(t, name, 3, false, func(t *testing.T, s *fakeQuorum) {
			s.each(does("acquire", late(nil)), says(claimReply{Status: guardstore.ClaimBusy}), sees(claimReply{Ticket: 5}))
			s.nodes[0].set(sees(claimReply{Remaining: time.Second, Ticket: 5}))
			s.nodes[1].set(does("acquire", nil), says(claimReply{Status: guardstore.ClaimHeld, Fence: 7})) // its vote is in before it is decided
			r := s.mustAcquire(k)
			assert.Equal(t, guardstore.ClaimBusy, r.Status)
			synctest.Wait()
			assert.Equal(t, mostRounds, s.nodes[1].count("acquire"))
			assert.Equal(t, mostRounds, s.nodes[1].count("rollback"))
			if k.Queue {
				assert.EqualValues(t, 5, r.Ticket)
				peeks := s.nodes[1].calls("peek")
				require.Len(t, peeks, mostRounds)
				assert.Zero(t, peeks[0].claim.Ticket)
				assert.EqualValues(t, 5, peeks[1].claim.Ticket, "its place is kept")
			}
		})
	}
}

// What a round got, and what it may get, is taken back. What may come yet needs a tombstone.
func TestRound_ThatFailedIsTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		err       error
		rollbacks int
	}{
		"in doubt":   {errBroken, 1},
		"never sent": {errDial, 0},
	} {
		run(t, name, 3, false, func(t *testing.T, s *fakeQuorum) {
			s.nodes[0].set(does("acquire", late(c.err)))
			s.nodes[1].set(does("acquire", late(errBroken)))
			s.acquireFails(t.Context(), claim("a-1"), "2 of 3 servers failed")
			s.counts("rollback a-1~1", c.rollbacks, 1, 1)
			s.counts("rollback a-1~1 tombstone", c.rollbacks, 1, 0)
			s.holders("", "", "")
		})
	}
}

// A server that did not vote is not waited for, though it may grant the round yet.
func TestRound_InVainIsTakenBackBeforeItIsBusy(t *testing.T) {
	run(t, "all", 3, true, func(t *testing.T, s *fakeQuorum) {
		s.script(does("rollback", slow(nodeTimeout/2)), both(taken, does("acquire", late(nil))), taken)
		assert.GreaterOrEqual(t, takes(func() {
			assert.Equal(t, guardstore.ClaimBusy, s.mustAcquire(claim("a-1")).Status)
		}), nodeTimeout/2)
		s.holders("", "x-1~1", "x-1~1")
	})
	run(t, "one is in doubt", 3, false, func(t *testing.T, s *fakeQuorum) {
		s.script(does("rollback", slow(nodeTimeout/2)), taken, both(does("acquire", fails(errBroken)), does("rollback", hangs)))
		one := s.newRound(claim("a-1"))
		s.runRound(t.Context(), one, nil)
		assert.Equal(t, nodeTimeout/2, takes(func() { s.abandon(t.Context(), one) }))
	})
}

func TestView_SumsUpWhatServersSee(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		for i, f := range s.nodes {
			f.set(sees(claimReply{
				Remaining: []time.Duration{3 * time.Second, 0, 5 * time.Second}[i], Holder: fmt.Sprint("holder ", i),
				Ticket: []uint64{7, 9, 8}[i], Ahead: []int{1, 3, 2}[i], Done: i > 0,
			}))
		}
		assert.Equal(t, claimReply{
			Status: guardstore.ClaimBusy, Remaining: 3 * time.Second, Holder: "holder 2", Ticket: 9, Ahead: 1, Done: true,
		}, s.mustAcquire(waiting("a-1")))
		s.counts("acquire", 0, 0, 0)
		assert.EqualValues(t, 3, s.nodes[0].lastCall("peek a-1").claim.Ticket)
	})
}

// A claim that waits looks first. It asks the servers in order if a majority is free, each in its time.
func TestView_OfAClaimThatWaits(t *testing.T) {
	peekLate, peekFails, acquireLate := does("peek", late(nil)), does("peek", fails(errBroken)), does("acquire", late(nil))
	down, hung := does("acquire", fails(errBroken)), does("acquire", hangs)
	for name, c := range map[string]struct {
		servers [3]change
		want    guardstore.ClaimStatus // 0 if too few answer
		takes   time.Duration
		asked   [3]int
	}{
		"a majority is free":             {[3]change{taken, acquireLate, peekLate}, guardstore.ClaimHeld, 2 * time.Millisecond, [3]int{1, 1, 1}},
		"the last to answer is taken":    {[3]change{both(taken, does("peek", hangs)), acquireLate, nothing}, guardstore.ClaimHeld, time.Millisecond, [3]int{1, 1, 1}},
		"a server says that it is over":  {[3]change{sees(finished), peekLate, peekLate}, guardstore.ClaimFinished, 0, [3]int{}},
		"too few answer":                 {[3]change{peekFails, nothing, peekFails}, 0, 0, [3]int{}},
		"the first one hangs":            {[3]change{hung, nothing, peekLate}, guardstore.ClaimHeld, nodeTimeout, [3]int{2, 1, 1}},
		"the first says that it is over": {[3]change{says(finished), nothing, peekLate}, guardstore.ClaimFinished, 0, [3]int{1, 0, 0}},
		"the last could not decide":      {[3]change{down, down, peekLate}, 0, 0, [3]int{1, 1, 0}},
	} {
		run(t, name, 3, false, func(t *testing.T, s *fakeQuorum) {
			s.script(c.servers[:]...)
			assert.Equal(t, c.takes, takes(func() {
				if c.want == 0 {
					s.acquireFails(t.Context(), waiting("a-1"), "2 of 3 servers failed")
				} else {
					assert.Equal(t, c.want, s.mustAcquire(waiting("a-1")).Status)
				}
			}))
			s.counts("acquire", c.asked[:]...)
			if c.want == 0 {
				s.counts("rollback a-1~1 tombstone", c.asked[:]...)
			}
			if c.want == guardstore.ClaimHeld && s.nodes[0].holder == "x-1~1" {
				assert.Equal(t, 1, s.firstAsked("acquire"), "the first that is free")
			}
		})
	}
}

// A claim waits after a round that failed. Each server takes back what it got before it looks, so
// that the claim does not see itself. A server that did not answer does so later, and notifies then.
func TestView_AfterARoundThatFailed(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.each(taken, does("acquire", late(nil)))
		s.nodes[2].set(wiped, does("acquire", nil), does("rollback", fails(errBroken)))
		assert.Equal(t, guardstore.ClaimBusy, s.mustAcquire(queued("a-1")).Status)
		synctest.Wait()
		calls := s.nodes[2].calls("")
		require.Len(t, calls, 3)
		assert.Equal(t, "rollback a-1~1", calls[1].what)
		assert.Equal(t, "peek a-1", calls[2].what)
		s.nodes[2].set(does("rollback", nil))
		time.Sleep(nodeTimeout)
		s.holders("x-1~1", "x-1~1", "")
		s.counts("rollback a-1~1 notify", 0, 0, 1)
	})
}

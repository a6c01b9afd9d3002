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

// With a ttl it is a renewal, without one only the depth is set.
func TestRenew_NeedsAMajority(t *testing.T) {
	yes, no, revoked := says(renewed), says(renewLost), says(renewRevoked)
	down, hung, lateNo := does("renew", fails(errBroken)), does("renew", hangs), both(no, does("renew", late(nil)))
	lateYes := does("renew", late(nil))
	const noWait = time.Duration(0)
	for name, c := range map[string]struct {
		servers [3]change
		want    renewReply
		err     string
		takes   time.Duration
	}{
		"two, one lost it":        {[3]change{yes, no, yes}, renewed, "", noWait},
		"two, one hangs":          {[3]change{yes, yes, hung}, renewed, "", noWait},
		"two later, one down":     {[3]change{down, lateYes, lateYes}, renewed, "", time.Millisecond},
		"two, one is revoked":     {[3]change{revoked, yes, yes}, renewed, "", noWait},
		"one, one lost, one down": {[3]change{yes, no, down}, renewLost, "1 of 3 servers failed", noWait},
		"one, two down":           {[3]change{yes, down, down}, renewLost, "2 of 3 servers failed", noWait},
		"one, two lost":           {[3]change{yes, no, no}, renewLost, "", noWait},
		"two lost, one hangs":     {[3]change{hung, no, no}, renewLost, "", noWait},
		"two lost later":          {[3]change{lateNo, down, lateNo}, renewLost, "", time.Millisecond},
		"two lost, one revoked":   {[3]change{hung, revoked, no}, renewRevoked, "", noWait},
		"one revoked, two down":   {[3]change{revoked, down, down}, renewLost, "2 of 3 servers failed", noWait},
		"two down, one hangs":     {[3]change{down, hung, down}, renewLost, "3 of 3 servers failed", nodeTimeout},
	} {
		for _, ttl := range []time.Duration{leaseTTL, 0} {
			run(t, fmt.Sprint(name, ", ttl ", ttl), 3, false, func(t *testing.T, s *fakeQuorum) {
				g := s.hold()
				g.Depth, g.TTL, g.Metadata = 2, ttl, "new"
				s.each(does("acquire", hangs)) // no repair
				s.script(c.servers[:]...)
				var got renewReply
				assert.Equal(t, c.takes, takes(func() { got = s.renewOne(g) }))
				if c.err != "" {
					require.ErrorContains(t, got.Err, c.err)
					got.Err = nil
				}
				assert.Equal(t, c.want, got)
				s.counts("renew a-1~1", 1, 1, 1)
				g.Fence = s.nodes[2].fence // as the server has it
				assert.Equal(t, g, s.nodes[2].lastCall("renew").grant)
			})
		}
	}
}

// A grant of a batch is decided by the last server, others before.
func TestRenew_WaitsForEachOfABatch(t *testing.T) {
	run(t, "of five", 5, false, func(t *testing.T, s *fakeQuorum) {
		for i, f := range s.nodes {
			f.set(does("renew", func(context.Context) error {
				time.Sleep(time.Duration(i) * time.Millisecond)
				return nil
			}))
			f.renew = func(g guardstore.Grant) renewReply {
				return renewReply{Held: g.Key == "all" || g.Key == "most" && i != 1 && i != 3}
			}
		}
		all, most := guardstore.Grant{Key: "all", Owner: "a-1~1", Fence: 1}, guardstore.Grant{Key: "most", Owner: "a-2~2", Fence: 1}
		none := guardstore.Grant{Key: "none", Owner: "a-3~3", Fence: 1}
		assert.Equal(t, []renewReply{renewed, renewed}, s.Renew(t.Context(), []guardstore.Grant{all, most}))
		assert.Equal(t, []renewReply{renewLost, renewed}, s.Renew(t.Context(), []guardstore.Grant{none, most}))
	})
}

func TestRenew_IsOfTheRoundAndItsFence(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold()
		g.Owner = "a-1" // means its round, too
		assert.Equal(t, renewed, s.renewOne(g))
		s.each(says(renewed))
		g.Fence++
		assert.Equal(t, renewLost, s.renewOne(g))
		s.each(says(renewRevoked))
		g.Owner = "b-1~1" // this store does not know it
		assert.Equal(t, renewRevoked, s.renewOne(g))
		lateNo := both(says(renewLost), does("renew", late(nil)))
		s.script(says(renewRevoked), lateNo, lateNo)
		assert.Equal(t, renewRevoked, s.renewOne(g), "by one server")
	})
}

func TestRenew_OfACallerThatLeavesHasItsErrorForEachGrant(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold()
		s.each(does("renew", hangs))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(nodeTimeout/4, cancel)
		assert.Equal(t, nodeTimeout/4, takes(func() {
			want := renewReply{Err: context.Canceled}
			assert.Equal(t, []renewReply{want, want}, s.Renew(ctx, []guardstore.Grant{g, g}))
		}))
	})
}

// A server lost its data. It holds the lock again, above the fence of the round, and is renewed from then on.
func TestRepair_HasAServerHoldAgainWhatItLost(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold()
		s.nodes[0].set(wiped)
		s.forget()
		s.renewHeld(g)
		s.counts("acquire a-1~1", 1, 0, 0)
		again := s.nodes[0].lastCall("acquire").claim
		assert.Equal(t, g.Fence, again.FenceAbove)
		assert.Equal(t, leaseTTL, again.TTL)
		assert.Greater(t, s.nodes[0].fence, g.Fence)
		s.forget()
		s.renewHeld(g)
		s.counts("renew", 1, 1, 1)
		assert.Equal(t, s.nodes[0].fence, s.nodes[0].lastCall("renew").grant.Fence)
		s.counts("acquire", 0, 0, 0)
	})
}

func TestRepair_IsForServersThatLostTheHold(t *testing.T) {
	for name, c := range map[string]struct {
		server              change
		ttl                 time.Duration
		renewals, acquires0 int
	}{
		"it has no ttl, so that no expiry moves": {wiped, 0, 1, 0},
		"it does not answer, and may hold it":    {does("renew", fails(errBroken)), leaseTTL, 2, 0},
		"another claim has it: each time":        {func(f *fake) { f.holder, f.fence = "x-1~1", 1 }, leaseTTL, 1, 2},
	} {
		run(t, name, 3, false, func(_ *testing.T, s *fakeQuorum) {
			g := s.hold()
			g.TTL = c.ttl
			s.nodes[0].set(c.server)
			s.forget()
			s.renewHeld(g)
			s.renewHeld(g)
			s.counts("renew", c.renewals, 2, 2)
			s.counts("acquire", c.acquires0, 0, 0)
		})
	}
}

// A repair is repeated until it is answered, for a third of the ttl, and not beyond the end of the hold.
func TestRepair_Ends(t *testing.T) {
	lost := func(s *fakeQuorum) guardstore.Grant {
		g := s.hold()
		s.nodes[0].set(wiped, does("acquire", fails(errBroken)))
		s.forget()
		s.renewHeld(g)
		time.Sleep(nodeTimeout / 2)
		require.Greater(s.t, s.nodes[0].count("acquire a-1~1"), 2)
		return g
	}
	quiet := func(s *fakeQuorum) {
		s.forget()
		time.Sleep(time.Minute)
		s.counts("acquire", 0, 0, 0)
	}
	run(t, "in time", 3, false, func(t *testing.T, s *fakeQuorum) {
		begun := time.Now()
		lost(s)
		time.Sleep(time.Minute)
		took := s.nodes[0].lastCall("acquire").at.Sub(begun)
		assert.InDelta(t, nodeTimeout+leaseTTL/3, took, float64(2*outboxLongestPause))
	})
	run(t, "answered, once for all that were asked for", 3, false, func(t *testing.T, s *fakeQuorum) {
		g := lost(s)
		s.renewHeld(g)
		s.renewHeld(g)
		s.nodes[0].set(does("acquire", nil))
		s.forget()
		time.Sleep(2 * outboxLongestPause)
		s.counts("acquire", 1, 0, 0)
		s.holders("a-1~1", "a-1~1", "a-1~1")
		quiet(s)
	})
	run(t, "released", 3, false, func(t *testing.T, s *fakeQuorum) {
		g := lost(s)
		s.forget()
		s.mustRelease(g)
		synctest.Wait()
		assert.True(t, s.nodes[0].lastCall("release").release.Tombstone, "it may be granted yet")
		quiet(s)
	})
	run(t, "confirmed lost", 3, false, func(t *testing.T, s *fakeQuorum) {
		g := lost(s)
		b := s.begin(g.Key, "a-1") // a call of the claim is still under way
		s.each(wiped, does("acquire", fails(errBroken)))
		require.Equal(t, finished, s.mustAcquire(claim("a-1")))
		quiet(s)
		s.end("a-1", b)
		s.known(0)
	})
}

// Many repairs go out together, and what a server does not answer goes one by one.
func TestRepair_OfManyAtOnce(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		const many = outboxAtOnce
		var batch []guardstore.Grant
		for i := range many {
			s.each(func(f *fake) { f.holder = "" })
			r := s.mustAcquire(claim(fmt.Sprint("a-", i)))
			synctest.Wait()
			batch = append(batch, guardstore.Grant{Key: "k", Owner: r.Owner, Fence: r.Fence, TTL: leaseTTL})
		}
		s.each(says(renewed))
		s.nodes[0].set(wiped, says(renewLost), does("acquire", slow(10*time.Millisecond)))
		s.forget()
		s.Renew(t.Context(), batch)
		time.Sleep(25 * time.Millisecond)
		s.counts("acquire", many, 0, 0)
	})
}

// A hold was revoked on one server, then the others lost it: it was revoked. Its release is repeated there, too.
func TestRenew_RemembersARevocation(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold()
		s.nodes[0].set(says(renewRevoked))
		s.forget()
		s.renewHeld(g)
		s.renewHeld(g)
		s.counts("acquire", 0, 0, 0) // there is nothing to repair
		for _, f := range s.nodes[1:] {
			f.set(wiped, does("acquire", fails(errBroken)))
		}
		require.Equal(t, renewRevoked, s.renewOne(g))
		synctest.Wait()
		s.nodes[0].set(does("release", fails(errBroken)))
		s.mustRelease(g)
		time.Sleep(nodeTimeout)
		releases := s.nodes[0].calls("release")
		assert.Greater(t, len(releases), 1, "it is asked until it answers")
		assert.False(t, releases[0].release.Tombstone, "nothing is on its way")
	})
}

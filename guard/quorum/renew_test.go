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

// What three servers say of a hold, and what that comes to. Nobody waits for a server that
// hangs beside two that decide.
func TestRenew_RenewalNeedsAMajority(t *testing.T) {
	yes := func(f *fake) {
		f.renew = func(guardstore.Grant) guardstore.RenewReply { return guardstore.RenewReply{Held: true} }
	}
	no := func(f *fake) {
		f.renew = func(guardstore.Grant) guardstore.RenewReply { return guardstore.RenewReply{} }
	}
	revoked := func(f *fake) {
		f.renew = func(guardstore.Grant) guardstore.RenewReply { return guardstore.RenewReply{Revoked: true} }
	}
	down := func(f *fake) { f.before["renew"] = fails(errBroken) }
	hung := func(f *fake) { f.before["renew"] = hangs }
	for name, c := range map[string]struct {
		servers [3]func(*fake)
		want    guardstore.RenewReply
		err     string
		late    bool
	}{
		"all":                     {servers: [3]func(*fake){yes, yes, yes}, want: guardstore.RenewReply{Held: true}},
		"two, one lost it":        {servers: [3]func(*fake){yes, no, yes}, want: guardstore.RenewReply{Held: true}},
		"two, one hangs":          {servers: [3]func(*fake){yes, yes, hung}, want: guardstore.RenewReply{Held: true}},
		"two, one is revoked":     {servers: [3]func(*fake){revoked, yes, yes}, want: guardstore.RenewReply{Held: true}},
		"one, one lost, one down": {servers: [3]func(*fake){yes, no, down}, err: "1 of 3 servers failed"},
		"one, two down":           {servers: [3]func(*fake){yes, down, down}, err: "2 of 3 servers failed"},
		"one, two hang":           {servers: [3]func(*fake){yes, hung, hung}, err: "2 of 3 servers failed", late: true},
		"one, two lost":           {servers: [3]func(*fake){yes, no, no}},
		"two lost, one down":      {servers: [3]func(*fake){down, no, no}},
		"two lost, one hangs":     {servers: [3]func(*fake){hung, no, no}},
		"two lost, one revoked":   {servers: [3]func(*fake){hung, revoked, no}, want: guardstore.RenewReply{Revoked: true}},
		"all down":                {servers: [3]func(*fake){down, down, down}, err: "3 of 3 servers failed"},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, s *fakeQuorum) {
				g := s.hold(t)
				for i, f := range s.nodes {
					f.on("acquire", hangs) // no repair
					f.set(c.servers[i])
				}
				var replies []guardstore.RenewReply
				took := takes(func() { replies = s.Renew(t.Context(), []guardstore.Grant{g}) })
				require.Len(t, replies, 1)
				if c.late {
					assert.Equal(t, nodeTimeout, took)
				} else {
					assert.Zero(t, took)
				}
				if c.err != "" {
					require.ErrorContains(t, replies[0].Err, c.err)
					replies[0].Err = nil
				}
				assert.Equal(t, c.want, replies[0])
			})
		})
	}
}

// Each grant of a batch has its own answer, in its own place, and is renewed as it is asked for.
func TestRenew_RenewalOfABatch(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		for _, f := range s.nodes {
			f.acquire = func(c guardstore.Claim) guardstore.ClaimReply {
				return guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: uint64(len(c.Key))} //nolint:gosec // small
			}
			f.renew = func(g guardstore.Grant) guardstore.RenewReply {
				return guardstore.RenewReply{Held: g.Key != "lost" && g.Owner != "unknown-1"}
			}
		}
		var batch []guardstore.Grant
		for _, key := range []string{"a", "lost", "abc"} {
			c := claim(key + "-1")
			c.Key = key
			r, err := s.Acquire(t.Context(), c)
			require.NoError(t, err)
			batch = append(batch, guardstore.Grant{Key: key, Owner: r.Owner, Fence: r.Fence, TTL: time.Minute, Depth: 5, Metadata: "new"})
		}
		synctest.Wait()
		batch = append(batch, guardstore.Grant{Key: "abc", Owner: "unknown-1", Fence: 3})
		s.each(func(f *fake) { f.before["acquire"] = fails(errBroken) }) // no repair
		assert.Equal(t, []guardstore.RenewReply{{Held: true}, {}, {Held: true}, {}}, s.Renew(t.Context(), batch))
		synctest.Wait()
		calls := s.nodes[0].calls("renew")
		require.Len(t, calls, 4)
		assert.Equal(t, batch[2], calls[2].grant)
		assert.Equal(t, batch[3], calls[3].grant, "as it is")
	})
}

// A grant of a batch is decided by the last server, others before.
func TestRenew_RenewalWaitsForEachOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeQuorum(t, 5, false)
		for i, f := range s.nodes {
			f.on("renew", func(context.Context) error {
				time.Sleep(time.Duration(i) * time.Millisecond)
				return nil
			})
			f.renew = func(g guardstore.Grant) guardstore.RenewReply {
				return guardstore.RenewReply{Held: g.Key == "all" || i != 1 && i != 3}
			}
		}
		batch := []guardstore.Grant{{Key: "all", Owner: "a-1~1", Fence: 1}, {Key: "most", Owner: "a-2~2", Fence: 1}}
		assert.Equal(t, []guardstore.RenewReply{{Held: true}, {Held: true}}, s.Renew(t.Context(), batch))
	})
}

// A grant whose fence is not that of the round is not held.
func TestRenew_RenewalOfAnotherFence(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold(t)
		g.Fence++
		for _, f := range s.nodes {
			f.renew = func(guardstore.Grant) guardstore.RenewReply { return guardstore.RenewReply{Held: true} }
		}
		assert.Equal(t, []guardstore.RenewReply{{}}, s.Renew(t.Context(), []guardstore.Grant{g}))
	})
}

// Who leaves has the error of its context, for each grant.
func TestRenew_RenewalItsCallerLeaves(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold(t)
		s.each(func(f *fake) { f.before["renew"] = hangs })
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(nodeTimeout/4, cancel)
		assert.Equal(t, nodeTimeout/4, takes(func() {
			replies := s.Renew(ctx, []guardstore.Grant{g, g})
			require.Len(t, replies, 2)
			for _, r := range replies {
				assert.False(t, r.Held)
				assert.ErrorIs(t, r.Err, context.Canceled)
			}
		}))
	})
}

// A server lost its data: it holds the lock again, above the fence of the round, and is
// renewed from then on.
func TestRenew_RenewalRepairs(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold(t)
		s.nodes[0].wipe()
		s.forget()
		renew := func() {
			require.True(t, s.Renew(t.Context(), []guardstore.Grant{g})[0].Held)
			synctest.Wait()
		}
		renew()
		assert.Equal(t, []int{1, 0, 0}, s.counts("acquire a-1~1"))
		again := s.nodes[0].calls("acquire")[0].claim
		assert.Equal(t, g.Fence, again.FenceAbove)
		assert.Equal(t, leaseTTL, again.TTL)
		assert.Greater(t, s.nodes[0].fence, g.Fence)
		s.forget()
		renew()
		assert.Equal(t, []int{1, 1, 1}, s.counts("renew"))
		assert.Equal(t, s.nodes[0].fence, s.nodes[0].calls("renew")[0].grant.Fence)
		assert.Equal(t, []int{0, 0, 0}, s.counts("acquire"))
	})
}

// A renewal without a ttl sets the counter, and moves no expiry on any server.
func TestRenew_RenewalWithoutATTLRepairsNobody(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold(t)
		s.nodes[0].wipe()
		s.forget()
		g.TTL = 0
		require.True(t, s.Renew(t.Context(), []guardstore.Grant{g})[0].Held)
		synctest.Wait()
		assert.Equal(t, []int{0, 0, 0}, s.counts("acquire"))
	})
}

// A server that does not answer a renewal may well hold the lock.
func TestRenew_RenewalRepairsNobodyWhoDoesNotAnswer(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold(t)
		s.nodes[0].on("renew", fails(errBroken))
		s.forget()
		for range 2 {
			require.True(t, s.Renew(t.Context(), []guardstore.Grant{g})[0].Held)
			synctest.Wait()
		}
		assert.Equal(t, []int{0, 0, 0}, s.counts("acquire"))
		assert.Equal(t, []int{2, 2, 2}, s.counts("renew"), "and it is asked each time")
	})
}

// A server that lost the hold is not asked to renew it: it is asked to hold it again, each time.
func TestRenew_RenewalOfWhatAServerLost(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold(t)
		s.nodes[0].set(func(f *fake) { f.holder, f.fence = "x-1~1", 1 })
		s.forget()
		for range 2 {
			require.True(t, s.Renew(t.Context(), []guardstore.Grant{g})[0].Held)
			synctest.Wait()
		}
		assert.Equal(t, []int{1, 2, 2}, s.counts("renew"))
		assert.Equal(t, []int{2, 0, 0}, s.counts("acquire"))
	})
}

// A repair is not answered, and asked for again: for a third of the ttl at the longest, until
// it is answered, and not beyond the end of the hold.
func TestRenew_RenewalsRepairEnds(t *testing.T) {
	lose := func(t *testing.T, s *fakeQuorum) guardstore.Grant {
		t.Helper()
		g := s.hold(t)
		s.nodes[0].wipe()
		s.nodes[0].on("acquire", fails(errBroken))
		s.forget()
		require.True(t, s.Renew(t.Context(), []guardstore.Grant{g})[0].Held)
		time.Sleep(nodeTimeout / 2)
		require.Greater(t, s.nodes[0].count("acquire a-1~1"), 2)
		return g
	}
	t.Run("in time", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			begun := time.Now()
			lose(t, s)
			time.Sleep(time.Minute)
			calls := s.nodes[0].calls("acquire")
			took := calls[len(calls)-1].at.Sub(begun)
			assert.InDelta(t, nodeTimeout+leaseTTL/3, took, float64(2*outboxLongestPause))
		})
	})
	t.Run("answered", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			lose(t, s)
			s.nodes[0].on("acquire", nil)
			time.Sleep(2 * outboxLongestPause)
			s.forget()
			time.Sleep(time.Minute)
			assert.Equal(t, []int{0, 0, 0}, s.counts("acquire"))
			assert.Equal(t, "a-1~1", s.nodes[0].heldBy())
		})
	})
	t.Run("twice", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			g := lose(t, s)
			for range 2 { // as many repairs: the first one that is answered will do
				require.True(t, s.Renew(t.Context(), []guardstore.Grant{g})[0].Held)
			}
			s.nodes[0].on("acquire", nil)
			s.forget()
			time.Sleep(2 * outboxLongestPause)
			assert.Equal(t, 1, s.nodes[0].count("acquire"))
		})
	})
	t.Run("released", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			g := lose(t, s)
			s.forget()
			_, err := s.Release(t.Context(), releaseOf(g))
			require.NoError(t, err)
			synctest.Wait()
			releases := s.nodes[0].calls("release")
			require.NotEmpty(t, releases)
			assert.True(t, releases[0].release.Tombstone, "it may be granted yet")
			s.forget()
			time.Sleep(time.Minute)
			assert.Equal(t, []int{0, 0, 0}, s.counts("acquire"))
		})
	})
	t.Run("confirmed lost", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			g := lose(t, s)
			for _, f := range s.nodes[1:] {
				f.wipe()
				f.on("acquire", fails(errBroken))
			}
			r, err := s.Acquire(t.Context(), claim("a-1"))
			require.NoError(t, err)
			require.Equal(t, guardstore.ClaimFinished, r.Status)
			s.forget()
			time.Sleep(time.Minute)
			assert.Nil(t, s.round(g.Owner))
			assert.Equal(t, []int{0, 0, 0}, s.counts("acquire"))
		})
	})
}

// Many repairs go out together, and what a server does not answer goes one by one.
func TestRenew_RenewalRepairsManyAtOnce(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		const many = outboxAtOnce
		var batch []guardstore.Grant
		for i := range many {
			s.each(func(f *fake) { f.holder = "" })
			r, err := s.Acquire(t.Context(), claim(fmt.Sprint("a-", i)))
			require.NoError(t, err)
			synctest.Wait()
			batch = append(batch, guardstore.Grant{Key: "k", Owner: r.Owner, Fence: r.Fence, TTL: leaseTTL})
		}
		s.each(func(f *fake) {
			f.renew = func(guardstore.Grant) guardstore.RenewReply { return guardstore.RenewReply{Held: true} }
		})
		s.nodes[0].renew = nil
		s.nodes[0].wipe()
		s.nodes[0].on("acquire", slow(10*time.Millisecond))
		s.forget()
		s.Renew(t.Context(), batch)
		time.Sleep(25 * time.Millisecond)
		assert.Equal(t, many, s.nodes[0].count("acquire"))
	})
}

// A hold was revoked on one server, then the others lost it: it was revoked. Its release sees
// to it that the server lets go of it, too.
func TestRenew_RenewalRemembersARevocation(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold(t)
		s.nodes[0].renew = func(guardstore.Grant) guardstore.RenewReply { return guardstore.RenewReply{Revoked: true} }
		s.forget()
		for range 2 {
			require.Equal(t, []guardstore.RenewReply{{Held: true}}, s.Renew(t.Context(), []guardstore.Grant{g}))
			synctest.Wait()
		}
		assert.Zero(t, s.nodes[0].count("acquire"), "there is nothing to repair")
		for _, f := range s.nodes[1:] {
			f.wipe()
			f.on("acquire", fails(errBroken))
		}
		require.Equal(t, []guardstore.RenewReply{{Revoked: true}}, s.Renew(t.Context(), []guardstore.Grant{g}))
		synctest.Wait()
		s.nodes[0].on("release", fails(errBroken))
		_, err := s.Release(t.Context(), releaseOf(g))
		require.NoError(t, err)
		time.Sleep(nodeTimeout)
		assert.Greater(t, s.nodes[0].count("release"), 1, "it is asked until it answers")
		assert.False(t, s.nodes[0].calls("release")[0].release.Tombstone, "nothing is on its way")
	})
}

// A renewal that does not know is not a revocation.
func TestRenew_RenewalThatIsNotAnsweredIsNotRevoked(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold(t)
		s.nodes[0].renew = func(guardstore.Grant) guardstore.RenewReply { return guardstore.RenewReply{Revoked: true} }
		s.nodes[1].on("renew", fails(errBroken))
		s.nodes[2].on("renew", fails(errBroken))
		r := s.Renew(t.Context(), []guardstore.Grant{g})[0]
		require.Error(t, r.Err)
		assert.False(t, r.Revoked)
	})
}

// A hold is confirmed, and its counter set, where the round holds.
func TestRenew_ConfirmationNeedsAMajority(t *testing.T) {
	yes := func(*fake) {}
	no := func(f *fake) {
		f.renew = func(guardstore.Grant) guardstore.RenewReply { return guardstore.RenewReply{} }
	}
	down := func(f *fake) { f.before["renew"] = fails(errBroken) }
	hung := func(f *fake) { f.before["renew"] = hangs }
	lateNo := func(f *fake) {
		no(f)
		f.before["renew"] = late(nil)
	}
	for name, c := range map[string]struct {
		servers [3]func(*fake)
		held    bool
		err     string
		late    bool
	}{
		"all":                 {servers: [3]func(*fake){yes, yes, yes}, held: true},
		"two":                 {servers: [3]func(*fake){no, yes, yes}, held: true},
		"two, one hangs":      {servers: [3]func(*fake){yes, yes, hung}, held: true},
		"one":                 {servers: [3]func(*fake){no, no, yes}},
		"one, one down":       {servers: [3]func(*fake){no, down, yes}, err: "1 of 3 servers failed"},
		"two lost, one down":  {servers: [3]func(*fake){no, down, no}},
		"two lost, one hangs": {servers: [3]func(*fake){no, hung, no}},
		"two lost later":      {servers: [3]func(*fake){lateNo, down, lateNo}, late: true},
		"two down, one hangs": {servers: [3]func(*fake){down, hung, down}, err: "3 of 3 servers failed", late: true},
		"two down":            {servers: [3]func(*fake){down, down, yes}, err: "2 of 3 servers failed"},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, s *fakeQuorum) {
				g := s.hold(t)
				g.Depth, g.TTL = 2, 0
				for i, f := range s.nodes {
					f.set(c.servers[i])
				}
				var got guardstore.RenewReply
				took := takes(func() { got = s.Renew(t.Context(), []guardstore.Grant{g})[0] })
				assert.Equal(t, c.late, took > 0)
				assert.Equal(t, c.held, got.Held)
				if c.err != "" {
					require.ErrorContains(t, got.Err, c.err)
				} else {
					require.NoError(t, got.Err)
				}
				synctest.Wait()
				for _, call := range s.nodes[2].calls("renew a-1~1") {
					g.Fence = call.grant.Fence // as the server has it
					assert.Equal(t, g, call.grant)
				}
				assert.Equal(t, []int{1, 1, 1}, s.counts("renew a-1~1"))
			})
		})
	}
}

// A renewal is asked for by the claim's owner or by that of its round: both mean the round.
func TestRenew_RenewalIsThatOfTheRound(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold(t)
		g.Owner = "a-1"
		require.Equal(t, []guardstore.RenewReply{{Held: true}}, s.Renew(t.Context(), []guardstore.Grant{g}))
	})
}

// A claim that this store does not know may have been revoked, too.
func TestRenew_RenewalOfAnUnknownClaimThatWasRevoked(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		for _, f := range s.nodes {
			f.renew = func(guardstore.Grant) guardstore.RenewReply { return guardstore.RenewReply{Revoked: true} }
		}
		g := guardstore.Grant{Key: "k", Owner: "a-1~1", Fence: 1, TTL: leaseTTL}
		assert.Equal(t, []guardstore.RenewReply{{Revoked: true}}, s.Renew(t.Context(), []guardstore.Grant{g}))
	})
}

package quorum

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
)

// A claim that somebody else keeps from so many servers. What it got in vain is free again.
func TestAcquire_RoundNeedsAMajority(t *testing.T) {
	for _, c := range []struct {
		servers, taken int
		all, held      bool
	}{
		{3, 0, false, true},
		{3, 1, false, true},
		{3, 2, false, false},
		{5, 2, false, true},
		{5, 3, false, false},
		{7, 3, false, true},
		{7, 4, false, false},
		{3, 0, true, true},
		{3, 1, true, false},
	} {
		t.Run(fmt.Sprintf("%d of %d taken, all %t", c.taken, c.servers, c.all), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeQuorum(t, c.servers, c.all)
				for i := range c.taken {
					s.take(i)
				}
				r, err := s.Acquire(t.Context(), claim("a-1"))
				require.NoError(t, err)
				assert.Equal(t, c.held, r.Status == guardstore.ClaimHeld)
				synctest.Wait()
				ours := 0
				for _, owner := range s.holders() {
					if strings.HasPrefix(owner, "a-1") {
						ours++
					}
				}
				if c.held {
					assert.Equal(t, c.servers-c.taken, ours)
					assert.True(t, strings.HasPrefix(r.Owner, "a-1~"))
				} else {
					assert.Equal(t, guardstore.ClaimBusy, r.Status)
					assert.Zero(t, ours)
				}
			})
		})
	}
}

// One server says what it says at once, the last one says nothing: nobody waits for it.
func TestAcquire_RoundDoesNotWaitForMoreThanDecide(t *testing.T) {
	for name, c := range map[string]struct {
		reply guardstore.ClaimReply
		from  int
	}{
		"held":     {guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: 7}, 2},
		"busy":     {guardstore.ClaimReply{Status: guardstore.ClaimBusy, Remaining: time.Second}, 2},
		"finished": {guardstore.ClaimReply{Status: guardstore.ClaimFinished}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, s *fakeQuorum) {
				for i, f := range s.nodes {
					if i < c.from {
						f.acquire = func(guardstore.Claim) guardstore.ClaimReply { return c.reply }
					} else {
						f.on("acquire", hangs)
					}
				}
				assert.Zero(t, takes(func() {
					r, err := s.Acquire(t.Context(), claim("a-1"))
					require.NoError(t, err)
					assert.Equal(t, c.reply.Status, r.Status)
				}))
			})
		})
	}
}

// Two of three servers fail: the third one is not waited for.
func TestAcquire_RoundThatFailedDoesNotWait(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.nodes[0].on("acquire", fails(errBroken))
		s.nodes[1].on("acquire", fails(errBroken))
		s.nodes[2].on("acquire", hangs)
		assert.Zero(t, takes(func() {
			_, err := s.Acquire(t.Context(), claim("a-1"))
			assert.ErrorContains(t, err, "2 of 3 servers failed")
		}))
	})
}

// Some servers do not answer, some are taken. It is busy only if a majority may say so.
func TestAcquire_RoundThatTooFewAnsweredIsAnError(t *testing.T) {
	t.Run("two of three", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			s.nodes[0].on("acquire", late(errBroken))
			s.nodes[1].on("acquire", late(errBroken))
			_, err := s.Acquire(t.Context(), claim("a-1"))
			require.ErrorContains(t, err, "2 of 3 servers failed")
			require.ErrorContains(t, err, "broken")
			synctest.Wait()
			assert.Equal(t, []int{1, 1, 1}, s.counts("rollback a-1~1"), "what it got, and what it may get")
			assert.Equal(t, []int{1, 1, 0}, s.counts("rollback a-1~1 tombstone"), "what it may get")
			assert.Equal(t, []string{"", "", ""}, s.holders())
		})
	})
	t.Run("one of three", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			s.take(1, 2)
			s.nodes[0].on("acquire", fails(errBroken))
			r, err := s.Acquire(t.Context(), claim("a-1"))
			require.NoError(t, err)
			assert.Equal(t, guardstore.ClaimBusy, r.Status)
		})
	})
}

// A majority does not answer, and one of the others holds the lock for somebody: nobody knows
// whether it is busy, whichever answer comes first, and also while others are yet to come.
func TestAcquire_RoundWithoutAMajorityIsNeverBusy(t *testing.T) {
	for name, c := range map[string]struct {
		servers, taken int
		all            bool
		down           func(context.Context) error
	}{
		"one of three, two refuse":    {3, 1, false, fails(errDial)},
		"one of three, two fail":      {3, 1, false, late(errBroken)},
		"one of three, two hang":      {3, 1, false, hangs},
		"two of five, three refuse":   {5, 2, false, fails(errDial)},
		"two of five, three fail":     {5, 2, false, late(errBroken)},
		"two of five, three hang":     {5, 2, false, hangs},
		"all: two of three, one hang": {3, 2, true, hangs},
		"all: two of three, one fail": {3, 2, true, fails(errBroken)},
	} {
		for _, queue := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, queue %t", name, queue), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newFakeQuorum(t, c.servers, c.all)
					for i, f := range s.nodes {
						if i < c.taken {
							s.take(i)
						} else {
							f.on("", func(ctx context.Context) error {
								time.Sleep(time.Duration(i) * time.Microsecond) // one after the other
								return c.down(ctx)
							})
						}
					}
					k := claim("a-1")
					k.Queue = queue
					r, err := s.Acquire(t.Context(), k)
					require.ErrorContains(t, err, fmt.Sprintf("%d of %d servers failed", c.servers-c.taken, c.servers))
					assert.Zero(t, r)
				})
			})
		}
	}
}

// The servers that were free a moment ago are gone when it is their turn.
func TestAcquire_RoundInOrderWithoutAMajorityIsNeverBusy(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.nodes[0].on("acquire", fails(errBroken))
		s.nodes[1].on("acquire", fails(errBroken))
		s.nodes[2].acquire = func(guardstore.Claim) guardstore.ClaimReply {
			return guardstore.ClaimReply{Status: guardstore.ClaimBusy, Remaining: time.Second}
		}
		r, err := s.Acquire(t.Context(), waiting("a-1"))
		require.ErrorContains(t, err, "2 of 3 servers failed")
		assert.Zero(t, r)
	})
}

// Nobody holds the lock, its MinHold is not over, and one server is down, lost it, or has it for
// a round of somebody else. As long as no majority can be anybody's, that is what callers hear.
func TestAcquire_RoundOfALockThatNobodyHoldsSaysSo(t *testing.T) {
	done := func(f *fake) {
		f.before["acquire"] = late(nil)
		f.acquire = func(guardstore.Claim) guardstore.ClaimReply {
			return guardstore.ClaimReply{Status: guardstore.ClaimBusy, Remaining: time.Second, Done: true}
		}
	}
	taken := func(f *fake) { f.holder = "x-1~1" }
	last := func(f *fake) { f.holder, f.before["acquire"] = "x-1~1", slow(2*time.Millisecond) }
	down := func(f *fake) { f.before[""] = fails(errBroken) }
	hung := func(f *fake) { f.before[""] = hangs }
	free := func(*fake) {}
	for name, c := range map[string]struct {
		servers []func(*fake)
		all     bool
		done    bool
	}{
		"all":                     {[]func(*fake){done, done, done}, false, true},
		"one is down":             {[]func(*fake){down, done, done}, false, true},
		"one hangs":               {[]func(*fake){done, hung, done}, false, true},
		"one is taken":            {[]func(*fake){last, done, done}, false, true},
		"two are taken":           {[]func(*fake){taken, done, taken}, false, false},
		"one is taken, one hangs": {[]func(*fake){done, taken, hung}, false, false},
		"two of five are down":    {[]func(*fake){done, down, done, done, down}, false, true},
		"all are needed":          {[]func(*fake){done, done, done}, true, true},
		"two of five are free":    {[]func(*fake){free, free, last, last, done}, false, true},
		"all, one is taken":       {[]func(*fake){last, free, free}, true, false},
		"all, one lost it":        {[]func(*fake){done, free, done}, true, true},
		"all, one keeps it alone": {[]func(*fake){taken, done, taken}, true, true},
		"all, and it is held":     {[]func(*fake){taken, taken, taken}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeQuorum(t, len(c.servers), c.all)
				for i, set := range c.servers {
					s.nodes[i].set(set)
				}
				r, err := s.Acquire(t.Context(), claim("a-1"))
				require.NoError(t, err)
				assert.Equal(t, guardstore.ClaimBusy, r.Status)
				assert.Equal(t, c.done, r.Done)
			})
		})
	}
}

// The third server answers when the round is won: what it granted is renewed like the rest.
func TestAcquire_RoundTakesInLaterAnswers(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.nodes[2].on("acquire", slow(nodeTimeout/2))
		g := s.hold(t)
		assert.Equal(t, uint64(201), g.Fence, "the highest of the two")
		time.Sleep(nodeTimeout)
		require.Equal(t, []guardstore.RenewReply{{Held: true}}, s.Renew(t.Context(), []guardstore.Grant{g}))
		synctest.Wait()
		for i, f := range s.nodes {
			calls := f.calls("renew a-1~1")
			require.Len(t, calls, 1)
			assert.Equal(t, f.fence, calls[0].grant.Fence, "its own")
			assert.Equal(t, 1, f.count("acquire"), "server %d was asked anew", i)
		}
	})
}

// Whoever called has its answer; the call to the third server goes on.
func TestAcquire_RoundGoesOnBehindItsCaller(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.nodes[2].on("acquire", slow(nodeTimeout/2))
		ctx, cancel := context.WithCancel(t.Context())
		r, err := s.Acquire(ctx, claim("a-1"))
		cancel()
		require.NoError(t, err)
		time.Sleep(nodeTimeout)
		assert.Equal(t, r.Owner, s.nodes[2].heldBy())
	})
}

// A caller leaves at once. Nobody knows of what it got then: its release gives all back.
func TestAcquire_RoundItsCallerLeaves(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		for _, f := range s.nodes {
			f.on("acquire", slow(nodeTimeout/2))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(nodeTimeout/4, cancel)
		assert.Equal(t, nodeTimeout/4, takes(func() {
			_, err := s.Acquire(ctx, claim("a-1"))
			assert.ErrorIs(t, err, context.Canceled)
		}))
		time.Sleep(nodeTimeout)
		assert.Equal(t, []string{"a-1~1", "a-1~1", "a-1~1"}, s.holders())
		_, err := s.Release(t.Context(), guardstore.Release{Key: "k", Owner: "a-1", TTL: leaseTTL, Tombstone: true})
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, []string{"", "", ""}, s.holders())
	})
}

// A caller's deadline is before the servers' time is up, or after it.
func TestAcquire_AskEndsInTime(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{
		nodeTimeout / 2: nodeTimeout * 3 / 8, // a quarter is left to tell the caller
		5 * nodeTimeout: nodeTimeout,
	} {
		t.Run(limit.String(), func(t *testing.T) {
			virtually(t, func(t *testing.T, s *fakeQuorum) {
				for _, f := range s.nodes {
					f.on("", hangs)
				}
				ctx := clock.WithDeadline(context.Background(), time.Now().Add(limit))
				defer ctx.Cancel()
				assert.Equal(t, want, takes(func() {
					_, err := s.Acquire(ctx, claim("a-1"))
					assert.Error(t, err)
				}))
			})
		})
	}
}

// One server hangs, the others say that the lock is busy: its caller hears so before it leaves.
func TestAcquire_ViewIsInTimeForItsCaller(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.take(1, 2)
		s.nodes[0].on("", hangs)
		ctx, cancel := context.WithTimeout(t.Context(), nodeTimeout/10)
		defer cancel()
		r, err := s.Acquire(ctx, waiting("a-1"))
		require.NoError(t, err)
		assert.Equal(t, guardstore.ClaimBusy, r.Status)
	})
}

// Each try of a claim has an owner of its own, and waits for nothing on a server.
func TestAcquire_RoundHasItsOwnOwner(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.take(0, 1, 2)
		c := claim("a-1")
		c.Queue = true
		for range 2 {
			_, err := s.Acquire(t.Context(), c)
			require.NoError(t, err)
			synctest.Wait()
		}
		calls := s.nodes[0].calls("acquire")
		require.Len(t, calls, 2)
		for i, call := range calls {
			want := claim("a-1~" + fmt.Sprint(i+1))
			assert.Equal(t, want, call.claim)
		}
		assert.Equal(t, "a-1", claimOf(calls[1].claim.Owner))
		assert.Zero(t, s.known())
	})
}

// Two calls for one claim: the second finds it held, and asks the servers.
func TestAcquire_RoundsOfOneClaimGoOneAtATime(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		for _, f := range s.nodes {
			f.on("acquire", slow(nodeTimeout/2))
		}
		replies := make(chan guardstore.ClaimReply, 2)
		for range 2 {
			go func() {
				r, err := s.Acquire(t.Context(), claim("a-1"))
				assert.NoError(t, err)
				replies <- r
			}()
		}
		ctx := clock.WithDeadline(context.Background(), time.Now().Add(nodeTimeout/4))
		defer ctx.Cancel()
		synctest.Wait()
		assert.Equal(t, nodeTimeout/4, takes(func() {
			_, err := s.Acquire(ctx, claim("a-1"))
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		}))
		first, second := <-replies, <-replies
		assert.Equal(t, guardstore.ClaimHeld, first.Status)
		assert.Equal(t, first, second)
		synctest.Wait()
		assert.Equal(t, []int{0, 0, 0}, s.counts("acquire a-1~2"))
		assert.NotEqual(t, []int{0, 0, 0}, s.counts("renew a-1~1"))
	})
}

// A claim that holds is asked for again.
func TestAcquire_ClaimThatHoldsIsConfirmed(t *testing.T) {
	t.Run("it does", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			g := s.hold(t)
			r, err := s.Acquire(t.Context(), claim("a-1"))
			require.NoError(t, err)
			assert.Equal(t, guardstore.ClaimReply{Status: guardstore.ClaimHeld, Owner: g.Owner, Fence: g.Fence}, r)
			synctest.Wait()
			renewed := s.nodes[1].calls("renew")
			require.Len(t, renewed, 1)
			assert.Equal(t, g.TTL, renewed[0].grant.TTL)
			assert.Equal(t, 1, renewed[0].grant.Depth)
			assert.Equal(t, "meta", renewed[0].grant.Metadata)
		})
	})
	t.Run("too few answer", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			g := s.hold(t)
			s.nodes[0].on("renew", fails(errBroken))
			s.nodes[1].on("renew", fails(errBroken))
			_, err := s.Acquire(t.Context(), claim("a-1"))
			require.ErrorContains(t, err, "2 of 3 servers failed")
			s.nodes[0].on("renew", nil)
			r, err := s.Acquire(t.Context(), claim("a-1"))
			require.NoError(t, err)
			assert.Equal(t, g.Owner, r.Owner, "it still does")
		})
	})
	t.Run("it does not", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			g := s.hold(t)
			s.nodes[0].wipe()
			s.nodes[1].wipe()
			s.nodes[0].on("acquire", fails(errBroken)) // no repair
			s.nodes[1].on("acquire", fails(errBroken))
			r, err := s.Acquire(t.Context(), claim("a-1"))
			require.NoError(t, err)
			assert.Equal(t, guardstore.ClaimFinished, r.Status)
			synctest.Wait()
			assert.Nil(t, s.round(g.Owner))
			assert.Zero(t, s.known())
			assert.Empty(t, s.nodes[2].heldBy(), "taken back")
		})
	})
}

// A claim is released while a round of it is under way, and another one waits for that.
func TestAcquire_ClaimThatIsReleasedDuringItsRound(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		for _, f := range s.nodes {
			f.on("acquire", slow(nodeTimeout/2))
		}
		replies := make(chan guardstore.ClaimReply, 2)
		for range 2 {
			go func() {
				r, err := s.Acquire(t.Context(), claim("a-1"))
				assert.NoError(t, err)
				replies <- r
			}()
		}
		time.Sleep(nodeTimeout / 4)
		_, err := s.Release(t.Context(), guardstore.Release{Key: "k", Owner: "a-1", TTL: leaseTTL, Tombstone: true})
		require.NoError(t, err)
		for range 2 {
			assert.Equal(t, guardstore.ClaimReply{Status: guardstore.ClaimFinished}, <-replies)
		}
		time.Sleep(nodeTimeout)
		assert.Equal(t, []int{1, 1, 1}, s.counts("acquire"))
		assert.Equal(t, []string{"", "", ""}, s.holders())
		assert.Zero(t, s.known())
	})
}

// A claim is released while another call asks whether it holds.
func TestAcquire_ClaimThatIsReleasedDuringItsConfirmation(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold(t)
		for _, f := range s.nodes {
			f.on("renew", slow(nodeTimeout/2))
		}
		confirmed := make(chan guardstore.ClaimReply, 1)
		go func() {
			r, err := s.Acquire(t.Context(), claim("a-1"))
			assert.NoError(t, err)
			confirmed <- r
		}()
		time.Sleep(nodeTimeout / 4)
		_, err := s.Release(t.Context(), releaseOf(g))
		require.NoError(t, err)
		assert.Nil(t, s.round(g.Owner), "it does not hold any more")
		assert.Equal(t, guardstore.ClaimFinished, (<-confirmed).Status)
		synctest.Wait()
		assert.Zero(t, s.known())
	})
}

// Nothing is left of claims that came to nothing, or are over.
func TestAcquire_ClaimsAreForgotten(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold(t)
		assert.Equal(t, 1, s.known())
		r, err := s.Acquire(t.Context(), claim("b-1"))
		require.NoError(t, err)
		assert.Equal(t, guardstore.ClaimBusy, r.Status)
		assert.Equal(t, 1, s.known())
		_, err = s.Release(t.Context(), releaseOf(g))
		require.NoError(t, err)
		assert.Zero(t, s.known())
	})
}

// One of the servers was to be had, and nobody got the others. The next round begins with
// that server, and goes on to the others when it has it.
func TestAcquire_RoundAfterASplitGoesInOrder(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.take(0, 2)
		for _, i := range []int{0, 2} { // free from the second round on
			tries := 0
			s.nodes[i].on("acquire", func(context.Context) error {
				if tries++; tries > 1 {
					s.nodes[i].wipe()
				}
				time.Sleep(time.Millisecond)
				return nil
			})
		}
		s.nodes[1].on("rollback", slow(nodeTimeout/2)) // the next round waits for that
		r, err := s.Acquire(t.Context(), claim("a-1"))
		require.NoError(t, err)
		assert.Equal(t, guardstore.ClaimHeld, r.Status)
		require.Equal(t, "a-1~2", r.Owner)
		synctest.Wait()
		assert.Equal(t, 1, s.order("acquire a-1~2")[0])
		assert.Equal(t, []int{1, 1, 1}, s.counts("acquire a-1~2"), "the first one is not asked again")
	})
}

// All servers always let the first of them be taken only.
func TestAcquire_RoundsAreTriedAFewTimes(t *testing.T) {
	for _, queue := range []bool{false, true} {
		t.Run(fmt.Sprint("queue ", queue), func(t *testing.T) {
			virtually(t, func(t *testing.T, s *fakeQuorum) {
				for i, f := range s.nodes {
					if i != 1 {
						f.on("acquire", late(nil)) // the vote is in before it is decided
					}
					f.acquire = func(guardstore.Claim) guardstore.ClaimReply {
						if i == 1 {
							return guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: 7}
						}
						return guardstore.ClaimReply{Status: guardstore.ClaimBusy}
					}
					f.peek = func(guardstore.Claim) guardstore.ClaimReply {
						if i == 0 {
							return guardstore.ClaimReply{Remaining: time.Second, Ticket: 5}
						}
						return guardstore.ClaimReply{Ticket: 5}
					}
				}
				c := claim("a-1")
				c.Queue = queue
				r, err := s.Acquire(t.Context(), c)
				require.NoError(t, err)
				assert.Equal(t, guardstore.ClaimBusy, r.Status)
				synctest.Wait()
				assert.Equal(t, mostRounds, s.nodes[1].count("acquire"))
				assert.Equal(t, mostRounds, s.nodes[1].count("rollback"))
				if queue {
					assert.EqualValues(t, 5, r.Ticket)
					peeks := s.nodes[1].calls("peek")
					require.Len(t, peeks, mostRounds)
					assert.Zero(t, peeks[0].claim.Ticket)
					assert.EqualValues(t, 5, peeks[1].claim.Ticket, "its place is kept")
				}
			})
		})
	}
}

// A round that got nothing is not repeated: somebody else holds the lock.
func TestAcquire_RoundOfATakenLockIsNotRepeated(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.take(0, 1, 2)
		s.nodes[2].on("acquire", late(nil)) // it is decided before
		for _, f := range s.nodes {
			f.acquire = func(guardstore.Claim) guardstore.ClaimReply {
				return guardstore.ClaimReply{Status: guardstore.ClaimBusy, Remaining: time.Second, Holder: "other", Done: true}
			}
		}
		r, err := s.Acquire(t.Context(), claim("a-1"))
		require.NoError(t, err)
		assert.Equal(t, guardstore.ClaimReply{Status: guardstore.ClaimBusy, Remaining: time.Second, Holder: "other", Done: true}, r)
		synctest.Wait()
		assert.Equal(t, []int{1, 1, 1}, s.counts("acquire"))
		assert.Equal(t, []int{0, 0, 1}, s.counts("rollback"), "two of them have nothing to take back")
		assert.Equal(t, []int{0, 0, 0}, s.counts("peek"), "it does not wait")
	})
}

// What was taken in vain is given back before the caller hears that it is busy. A server that
// has nothing to give back is not waited for.
func TestAcquire_RoundInVainIsTakenBackFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeQuorum(t, 3, true)
		s.take(1, 2)
		s.nodes[1].on("acquire", late(nil))
		s.nodes[2].on("acquire", slow(nodeTimeout/4))
		s.nodes[0].on("rollback", slow(nodeTimeout/2))
		s.nodes[2].on("rollback", hangs) // its acquire may be on its way
		took := takes(func() {
			r, err := s.Acquire(t.Context(), claim("a-1"))
			require.NoError(t, err)
			assert.Equal(t, guardstore.ClaimBusy, r.Status)
		})
		assert.GreaterOrEqual(t, took, nodeTimeout/2)
		one := s.newRound(claim("a-2"))
		s.runRound(t.Context(), one, nil)
		assert.Equal(t, nodeTimeout/2, takes(func() { s.abandon(t.Context(), one) }))
		assert.Empty(t, s.nodes[0].heldBy())
	})
}

// waiting is a claim that has a place in the list of those who wait.
func waiting(owner string) guardstore.Claim {
	c := claim(owner)
	c.Queue, c.Ticket = true, 3
	return c
}

// What a server says in a round that goes from one to the next.
func TestAcquire_RoundInOrder(t *testing.T) {
	t.Run("the first is taken", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			s.nodes[0].acquire = func(guardstore.Claim) guardstore.ClaimReply {
				return guardstore.ClaimReply{Status: guardstore.ClaimBusy, Remaining: time.Minute}
			}
			one := s.newRound(claim("a-1"))
			r, err := s.outcome(t.Context(), nil, one, s.runRoundInOrder(t.Context(), one, 0))
			require.NoError(t, err)
			assert.Equal(t, guardstore.ClaimReply{Status: guardstore.ClaimBusy, Remaining: time.Minute}, r)
			assert.Equal(t, []int{1, 0, 0}, s.counts("acquire"))
		})
	})
	t.Run("the first does not answer", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			s.nodes[0].on("acquire", hangs)
			s.nodes[1].acquire = func(guardstore.Claim) guardstore.ClaimReply {
				return guardstore.ClaimReply{Status: guardstore.ClaimBusy, Remaining: time.Second}
			}
			one := s.newRound(claim("a-1"))
			tally := s.runRoundInOrder(t.Context(), one, 0)
			assert.Equal(t, []int{1, 1, 0}, s.counts("acquire"))
			assert.Zero(t, tally.held)
			assert.Equal(t, time.Second, one.busy(s.Store).Remaining, "what the second said")
			<-s.abandonBehind(t.Context(), one)
			synctest.Wait()
			assert.Equal(t, []int{1, 0, 0}, s.counts("rollback a-1~1 tombstone"), "it may grant it yet")
		})
	})
	t.Run("it is over", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			s.nodes[0].acquire = func(guardstore.Claim) guardstore.ClaimReply {
				return guardstore.ClaimReply{Status: guardstore.ClaimFinished}
			}
			s.nodes[2].on("peek", late(nil)) // so that the first one counts
			r, err := s.Acquire(t.Context(), waiting("a-1"))
			require.NoError(t, err)
			assert.Equal(t, guardstore.ClaimFinished, r.Status)
			assert.Equal(t, []int{1, 0, 0}, s.counts("acquire"))
		})
	})
	t.Run("nobody answers", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			for _, f := range s.nodes {
				f.on("acquire", fails(errBroken))
			}
			_, err := s.Acquire(t.Context(), waiting("a-1"))
			require.ErrorContains(t, err, "2 of 3 servers failed")
			require.ErrorContains(t, err, "broken")
			assert.Len(t, s.order("acquire"), 2, "the last one could not make a majority")
			assert.Zero(t, s.known())
		})
	})
	t.Run("in time", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			for _, f := range s.nodes {
				f.on("acquire", hangs)
			}
			ctx := clock.WithDeadline(context.Background(), time.Now().Add(nodeTimeout/2))
			defer ctx.Cancel()
			assert.Less(t, takes(func() {
				_, err := s.Acquire(ctx, waiting("a-1"))
				assert.ErrorContains(t, err, "2 of 3 servers failed")
			}), nodeTimeout/2)
		})
	})
	t.Run("each in its time", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			s.nodes[0].on("acquire", hangs)
			s.nodes[2].on("peek", late(nil)) // so that the first one counts
			assert.Equal(t, nodeTimeout, takes(func() {
				r, err := s.Acquire(t.Context(), waiting("a-1"))
				require.NoError(t, err)
				assert.Equal(t, guardstore.ClaimHeld, r.Status)
			}))
		})
	})
}

// Who waits looks first.
func TestAcquire_ViewOfThoseWhoWait(t *testing.T) {
	t.Run("a majority is taken", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			for i, f := range s.nodes {
				f.peek = func(guardstore.Claim) guardstore.ClaimReply {
					return guardstore.ClaimReply{
						Remaining: []time.Duration{3 * time.Second, 0, 5 * time.Second}[i], Holder: fmt.Sprint("holder ", i),
						Ticket: []uint64{7, 9, 8}[i], Ahead: 3 - i, Done: i > 0,
					}
				}
			}
			r, err := s.Acquire(t.Context(), waiting("a-1"))
			require.NoError(t, err)
			assert.Equal(t, guardstore.ClaimReply{
				Status: guardstore.ClaimBusy, Remaining: 3 * time.Second, Holder: "holder 2", Ticket: 9, Ahead: 1, Done: true,
			}, r)
			assert.Equal(t, []int{0, 0, 0}, s.counts("acquire"))
			assert.EqualValues(t, 3, s.nodes[0].calls("peek a-1")[0].claim.Ticket)
		})
	})
	t.Run("a minority is done", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			for i, f := range s.nodes {
				f.peek = func(guardstore.Claim) guardstore.ClaimReply {
					return guardstore.ClaimReply{Remaining: time.Second, Done: i == 0, Ahead: i}
				}
			}
			r, err := s.Acquire(t.Context(), waiting("a-1"))
			require.NoError(t, err)
			assert.False(t, r.Done)
			assert.Zero(t, r.Ahead)
		})
	})
	t.Run("a majority is free", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			s.take(0)
			s.nodes[2].on("peek", late(nil)) // the last to answer, not the first free
			r, err := s.Acquire(t.Context(), waiting("a-1"))
			require.NoError(t, err)
			assert.Equal(t, guardstore.ClaimHeld, r.Status)
			synctest.Wait()
			assert.Equal(t, 1, s.order("acquire")[0])
		})
	})
	t.Run("the last to answer is taken", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			s.take(0)
			s.nodes[0].on("peek", hangs) // not waited for
			assert.Zero(t, takes(func() {
				r, err := s.Acquire(t.Context(), waiting("a-1"))
				require.NoError(t, err)
				assert.Equal(t, guardstore.ClaimHeld, r.Status)
			}))
		})
	})
	t.Run("it is over", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			s.nodes[0].peek = func(guardstore.Claim) guardstore.ClaimReply {
				return guardstore.ClaimReply{Status: guardstore.ClaimFinished}
			}
			s.nodes[1].on("peek", late(nil))
			s.nodes[2].on("peek", late(nil))
			r, err := s.Acquire(t.Context(), waiting("a-1"))
			require.NoError(t, err)
			assert.Equal(t, guardstore.ClaimReply{Status: guardstore.ClaimFinished}, r)
			assert.Equal(t, []int{0, 0, 0}, s.counts("acquire"))
		})
	})
	t.Run("too few answer", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			s.nodes[0].on("peek", fails(errBroken))
			s.nodes[2].on("peek", fails(errBroken))
			_, err := s.Acquire(t.Context(), waiting("a-1"))
			require.ErrorContains(t, err, "2 of 3 servers failed")
			assert.Equal(t, []int{0, 0, 0}, s.counts("acquire"))
		})
	})
	t.Run("enough answer", func(t *testing.T) {
		virtually(t, func(t *testing.T, s *fakeQuorum) {
			s.take(1, 2)
			s.nodes[0].on("peek", fails(errBroken))
			r, err := s.Acquire(t.Context(), waiting("a-1"))
			require.NoError(t, err)
			assert.Equal(t, guardstore.ClaimBusy, r.Status)
			assert.Equal(t, time.Second, r.Remaining)
		})
	})
}

// A round failed, and its claim waits: each server takes back what it got before it looks, so
// that the claim does not see itself. One that did not answer does so later, and tells those
// who found the lock taken.
func TestAcquire_ViewAfterARoundThatFailed(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.take(0, 1)
		s.nodes[0].on("acquire", late(nil))
		s.nodes[1].on("acquire", late(nil))
		s.nodes[2].on("rollback", fails(errBroken))
		c := claim("a-1")
		c.Queue = true
		r, err := s.Acquire(t.Context(), c)
		require.NoError(t, err)
		assert.Equal(t, guardstore.ClaimBusy, r.Status)
		synctest.Wait()
		calls := s.nodes[2].calls("")
		require.Len(t, calls, 3)
		assert.Equal(t, "rollback a-1~1", calls[1].what)
		assert.Equal(t, "peek a-1", calls[2].what)
		s.nodes[2].on("rollback", nil)
		time.Sleep(nodeTimeout)
		assert.Empty(t, s.nodes[2].heldBy())
		assert.Equal(t, 1, s.nodes[2].count("rollback a-1~1 notify"))
	})
}

// A round that failed for good, too, is taken back where a server did not answer at first.
func TestAcquire_RoundThatFailedIsTakenBackLater(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.nodes[0].on("acquire", late(errBroken))
		s.nodes[1].on("acquire", late(errBroken))
		s.nodes[2].on("rollback", fails(errBroken))
		_, err := s.Acquire(t.Context(), claim("a-1"))
		require.Error(t, err)
		synctest.Wait()
		assert.Equal(t, "a-1~1", s.nodes[2].heldBy())
		s.nodes[2].on("rollback", nil)
		time.Sleep(nodeTimeout)
		assert.Empty(t, s.nodes[2].heldBy())
		assert.Equal(t, 1, s.nodes[2].count("rollback a-1~1 notify"))
	})
}

// The fences of the servers are near each other or not, and ahead of their clocks or not.
func TestAcquire_FenceIsTheHighestAndAMajorityKnowsIt(t *testing.T) {
	apart := uint64(leaseTTL.Microseconds()) / 2 //nolint:gosec // not negative
	for name, c := range map[string]struct {
		fences       [3]uint64
		ahead        [3]bool
		told, ahead1 bool
	}{
		"near":              {fences: [3]uint64{1000, 1002, 1001}},
		"at the bound":      {fences: [3]uint64{1000, 1000 + apart, 1001}},
		"apart":             {fences: [3]uint64{1000, 1001 + apart, 1001}, told: true, ahead1: true},
		"a low one ahead":   {fences: [3]uint64{1000, 1002, 1001}, ahead: [3]bool{0: true}, told: true, ahead1: true},
		"the highest ahead": {fences: [3]uint64{1000, 1002, 1001}, ahead: [3]bool{1: true}, ahead1: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeQuorum(t, 3, true)
				for i, f := range s.nodes {
					f.acquire = func(k guardstore.Claim) guardstore.ClaimReply {
						f.holder, f.fence = k.Owner, c.fences[i]
						return guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: f.fence, FenceAhead: c.ahead[i]}
					}
				}
				r, err := s.Acquire(t.Context(), claim("a-1"))
				require.NoError(t, err)
				assert.Equal(t, guardstore.ClaimReply{
					Status: guardstore.ClaimHeld, Owner: "a-1~1", Fence: c.fences[1], FenceAhead: c.ahead1,
				}, r)
				told := []int{0, 0, 0}
				if c.told {
					told = []int{1, 1, 1}
				}
				assert.Equal(t, told, s.counts(fmt.Sprint("raise a-1~1 ", c.fences[1])))
				again, err := s.Acquire(t.Context(), claim("a-1"))
				require.NoError(t, err)
				assert.Equal(t, r, again, "confirmed as it was")
			})
		})
	}
}

// A fence is far ahead, and too few servers can be told: the round is given up.
func TestAcquire_FenceThatTooFewKnowIsNone(t *testing.T) {
	for name, c := range map[string]struct {
		raised func(f *fake)
		says   string
		held   bool
	}{
		"one lost it":  {func(f *fake) { f.raised = func() bool { return false } }, "no longer held on enough servers", false},
		"one is down":  {func(f *fake) { f.before["raise"] = fails(errBroken) }, "1 of 3 servers failed", false},
		"all are told": {func(*fake) {}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeQuorum(t, 3, true)
				s.nodes[1].last = 1 << 50
				c.raised(s.nodes[2])
				r, err := s.Acquire(t.Context(), claim("a-1"))
				if c.held {
					require.NoError(t, err)
					assert.Equal(t, guardstore.ClaimHeld, r.Status)
					return
				}
				require.ErrorContains(t, err, c.says)
				synctest.Wait()
				assert.Equal(t, []string{"", "", ""}, s.holders(), "taken back")
				assert.Zero(t, s.known())
			})
		})
	}
}

// A majority suffices to know it; who did not vote for the round is not told.
func TestAcquire_FenceIsToldToThoseWhoVoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeQuorum(t, 5, false)
		s.take(0)
		s.nodes[1].on("acquire", hangs)
		s.nodes[4].last = 1 << 50
		s.hold(t)
		assert.Equal(t, []int{0, 0, 1, 1, 1}, s.counts("raise"))
	})
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.take(0)
		s.nodes[1].on("acquire", late(nil))
		s.nodes[2].on("acquire", late(nil))
		s.each(func(f *fake) { f.last = 1 << 50 })
		s.hold(t)
		assert.Equal(t, []int{0, 0, 0}, s.counts("raise"), "its fence is not 0")
	})
}

// Nothing listens on a server: the next calls do not ask it, but those after a moment do.
func TestAcquire_BreakerRests(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.nodes[0].on("", fails(errDial))
		cycle := func() {
			g := s.hold(t)
			_, err := s.Release(t.Context(), releaseOf(g))
			require.NoError(t, err)
			synctest.Wait()
		}
		for range 5 {
			cycle()
		}
		assert.Equal(t, 1, s.nodes[0].count(""), "asked once")
		time.Sleep(20 * time.Millisecond)
		s.nodes[0].on("", nil)
		cycle()
		assert.Equal(t, 2, s.nodes[0].count("acquire"))
	})
}

// A server that answers in any other way, or not at all, is asked.
func TestAcquire_BreakerIsForServersThatDoNotListen(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.nodes[0].on("acquire", fails(errBroken))
		s.hold(t)
		s.nodes[0].on("acquire", nil)
		_, err := s.Acquire(t.Context(), claim("b-1"))
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, 1, s.nodes[0].count("acquire b-1~2"))
	})
}

// What a server never saw needs no tombstone there.
func TestAcquire_RoundThatWasNotSentIsNotInDoubt(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.nodes[0].on("acquire", fails(errDial))
		s.nodes[1].on("acquire", late(errBroken))
		_, err := s.Acquire(t.Context(), claim("a-1"))
		require.Error(t, err)
		synctest.Wait()
		assert.Equal(t, []int{0, 1, 1}, s.counts("rollback"))
	})
}

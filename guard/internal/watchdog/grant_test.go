package watchdog_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// A reply about a grant that was dropped, or has another holder by then, is out of date.
func TestGrant_AGrantThatWasDroppedHearsNothing(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script) {
		s.OnRenew = func(_ context.Context, n int) guardstore.RenewReply {
			if n == 1 {
				time.Sleep(500 * time.Millisecond)
				return guardstore.RenewReply{}
			}
			return held
		}
		g := granted(w, "o", ttl)
		h := watch(g, 0)
		pass(ttl/3 + 100*time.Millisecond)
		require.Len(t, s.Batches(), 1)
		require.NoError(t, g.Drop(h))
		pass(time.Second)
		assert.Empty(t, h.causes)
		assert.Empty(t, h.renewed)
	})
}

// A renewal of a grant that was dropped before it was sent is not sent. Four batches hang.
func TestGrant_AGrantThatWasDroppedIsNotSent(t *testing.T) {
	const short = 3 * time.Second
	watched(t, func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script) {
		s.OnRenew = silence
		var last *watchdog.Grant
		h := &holder{}
		for _, owner := range []string{"1", "2", "3", "4", "5"} {
			last = granted(w, owner, short)
			last.Watch(h, 0, "")
			time.Sleep(100 * time.Millisecond)
		}
		pass(950 * time.Millisecond) // 1.45 s after the first: the last one is due
		require.Len(t, s.Batches(), 4)
		require.NoError(t, last.Drop(h))
		pass(short)
		for _, g := range s.Renewals {
			assert.NotEqual(t, "5", g.Owner)
		}
		w.EndAll(errors.New("enough"))
	})
}

// A failure is past once a renewal succeeds: it is not why the lease ends.
func TestGrant_AGrantForgetsAFailureThatIsPast(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script) {
		s.OnRenew = func(_ context.Context, n int) guardstore.RenewReply {
			switch n {
			case 1:
				return guardstore.RenewReply{Err: errors.New("down")}
			case 2:
				return held
			}
			time.Sleep(2 * ttl) // as if the machine stood still
			return held
		}
		h := watch(granted(w, "o", ttl), 0)
		pass(4 * ttl)
		require.Len(t, h.causes, 1)
		assert.Equal(t, "not renewed in time", h.causes[0].Error())
	})
}

// The command for a grant, and until when it is certain. The work may end while a renewal is on its way: no command
// has a depth of 0.
func TestGrant_Request(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, _ *testenv.Script) {
		c := guardstore.Claim{Key: "k", Owner: "o", TTL: ttl, Limit: 3, Metadata: "claim's", Once: &guardstore.Once{Keep: time.Hour}}
		r := guardstore.ClaimReply{Status: guardstore.ClaimHeld, Owner: "o~2", Fence: 7, FenceAhead: true}
		sent := clock.Now().Add(-time.Second)
		g := w.NewGrant(c, r, sent, true)
		for depth, want := range []int{1, 1, 2} {
			g.SetDepth(depth)
			assert.Equal(t, guardstore.Grant{Key: "k", Owner: "o~2", Fence: 7, TTL: ttl, Depth: want, Limit: 3, Keep: time.Hour}, g.Request())
		}
		assert.True(t, g.FenceAhead)
		assert.True(t, g.Tombstone)
		assert.Equal(t, sent.Add(ttl-ttl/10-2*time.Millisecond), g.Deadline())
	})
}

// A renewal counts from its sending: the reply takes a while.
func TestTrust_ASlowReplyMakesNoLeaseLonger(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script) {
		s.OnRenew = after(900 * time.Millisecond)
		g := granted(w, "o", ttl)
		h := watch(g, 0)
		sent := clock.Now().Add(ttl / 3)
		pass(ttl/3 + time.Second)
		require.Len(t, s.Batches(), 1)
		until := g.Deadline().Sub(sent.Add(ttl - ttl/10 - 2*time.Millisecond))
		assert.LessOrEqual(t, until, time.Duration(0))
		assert.Greater(t, until, -ttl/60, "a renewal may go out a little early")
		require.NoError(t, g.Drop(h))
	})
}

// Renewals take a while, and their schedule does not drift.
func TestGrant_AGrantIsRenewedOnSchedule(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script) {
		s.OnRenew = after(900 * time.Millisecond)
		g := granted(w, "o", ttl)
		h := watch(g, 0)
		pass(10*ttl + time.Second)
		assert.InDelta(t, 30, len(s.Batches()), 1)
		require.NoError(t, g.Drop(h))
	})
}

// A holder has its MaxHold from when it got the grant, and no other's.
func TestGrant_AGrantHasTheMaxHoldOfItsHolder(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, _ *testenv.Script) {
		g, first := granted(w, "o", ttl), &holder{begun: time.Now()}
		time.Sleep(5 * time.Second)
		g.Watch(first, ttl, "")
		time.Sleep(ttl - time.Second)
		require.NoError(t, g.Err())
		require.NoError(t, g.Drop(first))
		second := &holder{begun: time.Now()}
		g.Watch(second, 0, "")
		pass(3 * ttl)
		assert.Empty(t, second.causes)
		require.NoError(t, g.Drop(second))
		g.EndAt(clock.Now().Add(-time.Second)) // nothing is watched
		g.Watch(second, 0, "")
		pass(ttl)
		assert.Empty(t, second.causes)
		require.NoError(t, g.Drop(second))
		endless := &holder{}
		g.Watch(endless, math.MaxInt64, "")
		pass(ttl)
		require.NoError(t, g.Drop(endless))
		third := &holder{begun: time.Now()}
		g.Watch(third, ttl, "")
		pass(2 * ttl)
		require.Len(t, third.causes, 1)
		assert.Equal(t, ttl, third.lostAt)
		assert.Empty(t, first.causes)
	})
}

// At the deadline a grant has ended, whether or not the watchdog came first.
func TestGrant_EndsAtItsDeadline(t *testing.T) {
	for range 30 {
		watched(t, func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script) {
			says(s, guardstore.RenewReply{Err: errors.New("down")})
			g := granted(w, "o", ttl)
			h := watch(g, 0)
			time.Sleep(g.Deadline().Until())
			assert.Empty(t, w.All())
			require.Error(t, g.Drop(h))
		})
	}
}

// A holder has the lease since the one before it ended its work.
func TestGrant_AGrantIsHeldSince(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, _ *testenv.Script) {
		g, h, begun := granted(w, "o", ttl), &holder{}, clock.Now()
		g.Watch(h, 0, "")
		require.Len(t, w.All(), 1)
		assert.Equal(t, begun, w.All()[0].Since)
		time.Sleep(time.Second)
		require.NoError(t, g.Drop(h))
		g.Watch(h, 0, "")
		assert.Equal(t, begun.Add(time.Second), w.All()[0].Since)
		require.NoError(t, g.Drop(h))
	})
}

// slowHolder is slow to handle a loss, as a machine may be: the watchdog waits for it.
type slowHolder struct{ holder }

func (h *slowHolder) Cancel(cause error) bool {
	time.Sleep(3 * ttl)
	return h.holder.Cancel(cause)
}

// A renewal succeeds when the grant has expired by the clock, and no one has found out yet. It comes
// too late.
func TestGrant_AGrantIsNotRenewedTooLate(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script) {
		s.OnRenew = after(ttl)
		g := granted(w, "o", ttl)
		h := watch(g, 0)
		granted(w, "other", 2*ttl).Watch(&slowHolder{}, ttl/3+time.Second, "")
		pass(ttl/3 + ttl + time.Second)
		require.Len(t, s.Batches(), 1)
		assert.Len(t, h.causes, 1)
		assert.Empty(t, h.renewed)
		assert.Error(t, g.Err())
	})
}

// A grant that is given an end soon ends then, not at the watchdog's next pulse.
func TestGrant_AGrantThatIsGivenAnEndSoon(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, _ *testenv.Script) {
		g := granted(w, "o", ttl)
		h := watch(g, 0)
		time.Sleep(100 * time.Millisecond)
		g.EndAt(clock.Now().Add(10 * time.Millisecond))
		pass(time.Second)
		require.Len(t, h.causes, 1)
		assert.Equal(t, 110*time.Millisecond, h.lostAt)
		require.ErrorIs(t, h.causes[0], watchdog.ErrMaxHold)
	})
}

// A grant that is not renewed ends at its deadline, not at the watchdog's next pulse, though the
// MaxHold of its holder is later.
func TestGrant_AGrantEndsAtItsDeadlineBeforeItsMaxHold(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script) {
		s.OnRenew = silence
		g := granted(w, "o", ttl)
		h := watch(g, 10*ttl)
		end := g.Deadline().Until()
		pass(ttl)
		require.Len(t, h.causes, 1)
		assert.Equal(t, end, h.lostAt)
	})
}

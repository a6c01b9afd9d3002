package model

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/model/replay"
)

// The store in memory is the third that keeps the rules. What the model says of a call is
// replayed on it, too, in a bubble, where the clock stands still. It has no back door: what
// a call finds is brought about by earlier calls, and what is there after it shows in the
// answers to further ones. Where the model and Redis tell the two in front only once that
// they are, it does so each time.

// memoryVariants are those of which the store in memory knows anything.
var memoryVariants = []variant{
	{name: "plain", unaware: true},
	{name: "a deaf one in front", ghost: "deaf", unaware: true},
	{name: "a stale one in front", ghost: "stale", unaware: true},
	{name: "a deaf one in second place", ghost: "deaf", second: true, unaware: true},
	{name: "places ahead of the clock", farPlaces: true, unaware: true},
}

// reachable says whether earlier calls lead there: nobody waits for a lock that was released
// last, as a release grants it; and nobody holds it for longer than a claim may be silent.
func (s *script) reachable() bool {
	waits := s.places != [owners]uint8{}
	held := s.holder != nobody
	return (!held || s.last == s.fence && s.ghost != "stale") && (s.released == nobody || !held && !waits && s.ghost == "")
}

// replayInMemory says what is not as it should be.
func replayInMemory(t *testing.T, r *rules, c call, v *variant) (wrong string, done bool) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	defer synctest.Wait()
	defer end()
	at := time.Now().Add(50 * time.Second)
	s := write(r, c, v, at.UnixMicro(), 8)
	if !s.reachable() {
		return "", false
	}
	m := replay.InMemory(ctx, append(replay.Instances(owners), "g")...)
	synctest.Wait()
	s.bringAbout(t, m, at)
	m.Forget()
	if s.release {
		wrong = s.releasesIn(t, m)
	} else {
		wrong = s.acquiresIn(t, m)
	}
	if wrong == "" {
		wrong = s.leftIn(t, m)
	}
	if wrong != "" {
		wrong = fmt.Sprintf("%+v\n%s\n%s", s.call, s.variant.name, wrong)
	}
	return wrong, true
}

func (s *script) uintOf(v uint8) uint64    { return uint64(s.fenceOf(v)) } //nolint:gosec // not negative
func (s *script) uintPlace(p uint8) uint64 { return uint64(s.placeOf(p)) } //nolint:gosec // not negative
func atMicro(n int64) time.Time            { return time.UnixMicro(n) }

// bringAbout makes what the call finds.
func (s *script) bringAbout(t *testing.T, m *replay.Memory, at time.Time) {
	t.Helper()
	before, holder := "r-1", guardstore.Claim{Owner: "r-1", TTL: time.Hour}
	if s.released != nobody {
		before = s.name(s.released)
	}
	switch {
	case s.holder != nobody:
		holder = guardstore.Claim{Owner: s.name(s.holder), FenceAbove: s.uintOf(s.fence) - 1, TTL: time.Hour}
		if !s.granted {
			holder.Metadata = s.meta(s.holder)
		}
	case s.last > 0:
		holder = guardstore.Claim{Owner: before, FenceAbove: s.uintOf(s.last) - 1, TTL: time.Hour}
	}
	for o := range owner(owners) {
		if s.tombstone[o] && o != s.released {
			m.GiveBack(t, guardstore.Release{Owner: s.name(o), TTL: ttl, Tombstone: true})
		}
	}
	if s.holder != nobody {
		left := ownLeft
		if s.granted {
			left = ackLeft
		}
		if !s.ahead {
			time.Sleep(time.Until(atMicro(s.fenceOf(s.fence))))
			holder.FenceAbove = 0
		} else {
			time.Sleep(time.Until(at.Add(-time.Second)))
		}
		holder.TTL = time.Until(at) + left
	}
	s.queueUp(t, m, holder)
	if s.holder == nobody {
		time.Sleep(time.Until(at.Add(-time.Second)))
		s.waitIn(t, m, func(o owner) bool { return s.mute[o] })
		if s.released != nobody || len(replay.InOrder(s.before.Queue)) == 0 {
			tombstone := s.released != nobody && s.tombstone[s.released]
			m.GiveBack(t, guardstore.Release{Owner: holder.Owner, TTL: ttl, Tombstone: tombstone})
		} else {
			m.Drop(replay.MemoryKey)
		}
	}
	time.Sleep(time.Until(at))
	require.Equal(t, s.at, time.Now().UnixMicro())
}

func (s *script) ghostClaim() guardstore.Claim {
	return guardstore.Claim{Owner: s.dead(), TTL: ttl, Queue: true, Ticket: uint64(s.before.Queue[s.dead()])}
}

// queueUp has the holder take the lock, and the others wait for it.
func (s *script) queueUp(t *testing.T, m *replay.Memory, holder guardstore.Claim) {
	t.Helper()
	require.Equal(t, guardstore.ClaimHeld, m.Ask(t, holder).Status, "%+v", s.call)
	if s.ghost != "" {
		m.Ask(t, s.ghostClaim())
	}
	if s.holder == nobody {
		time.Sleep(28 * time.Second)
	}
	s.waitIn(t, m, func(owner) bool { return true })
}

// waitIn has some of those who wait ask. Whoever has no subscription does so each second.
func (s *script) waitIn(t *testing.T, m *replay.Memory, asks func(owner) bool) {
	t.Helper()
	for o := range owner(owners) {
		if s.places[o] > 0 && asks(o) {
			m.Ask(t, guardstore.Claim{Owner: s.name(o), TTL: ttl, Queue: true, Ticket: s.uintPlace(s.places[o]), Unsubscribed: s.mute[o]})
		}
	}
}

func (s *script) acquiresIn(t *testing.T, m *replay.Memory) string {
	t.Helper()
	c := guardstore.Claim{Owner: s.name(0), TTL: ttl, Metadata: s.meta(0), Queue: s.queue, FenceAbove: s.uintOf(s.floor), Unsubscribed: s.unsubscribed}
	if s.queue && s.place > 0 {
		c.Ticket = s.uintPlace(s.place)
	}
	return s.replies("acquire", s.claimReply(), m.Ask(t, c))
}

// claimReply is what the script answers, as a claim's reply.
func (s *script) claimReply() guardstore.ClaimReply {
	switch s.said.word {
	case isOver:
		return guardstore.ClaimReply{Status: guardstore.ClaimFinished}
	case isHeld:
		return guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: s.uintOf(s.over.fence), FenceAhead: s.over.ahead}
	}
	place := uint64(0)
	if s.queue {
		place = uint64(s.after.Queue[s.name(0)])
	}
	return guardstore.ClaimReply{
		Status: guardstore.ClaimBusy, Remaining: s.after.LockTTL, Holder: s.reply[1].(string),
		Ticket: place, Ahead: int(s.reply[3].(int64)),
	}
}

func (s *script) replies(what string, want, got any) string {
	if want == got {
		return ""
	}
	return fmt.Sprintf("  %s: model %+v\n    store %+v", what, want, got)
}

func (s *script) releasesIn(t *testing.T, m *replay.Memory) string {
	t.Helper()
	r := guardstore.Release{Owner: s.name(0), Fence: s.uintOf(s.above), TTL: ttl, Tombstone: s.inDoubt}
	got := m.GiveBack(t, r)
	want := guardstore.ReleaseReply{Status: map[word]guardstore.ReleaseStatus{
		isFreed: guardstore.ReleaseDone, isAlready: guardstore.ReleaseAlready, isLost: guardstore.ReleaseLost,
	}[s.said.word]}
	return s.replies("release", want, got)
}

// leftIn looks at what is left.
func (s *script) leftIn(t *testing.T, m *replay.Memory) string {
	t.Helper()
	var wrong []string
	check := func(what string, want, got any) {
		if text := s.replies(what, fmt.Sprint(want), fmt.Sprint(got)); text != "" {
			wrong = append(wrong, text)
		}
	}
	var told []string
	for _, who := range s.heard {
		if !strings.HasPrefix(who, "+") {
			told = append(told, who)
		}
	}
	check("told", told, m.Granted())
	queue := m.Queue(replay.MemoryKey)
	check("queue", slices.Concat([]string{}, replay.InOrder(s.after.Queue)), slices.Concat([]string{}, queue))
	if s.over.holder != nobody {
		g := guardstore.Grant{Key: replay.MemoryKey, Owner: s.name(s.over.holder), Fence: s.uintOf(s.over.fence), TTL: time.Millisecond, Depth: 1}
		check("held", true, m.Renew(t.Context(), []guardstore.Grant{g})[0].Held)
		check("for", s.after.LockTTL, m.Ask(t, guardstore.Claim{Owner: "p-1", TTL: ttl}).Remaining)
	} else {
		check("free", 0, m.Depth(replay.MemoryKey))
	}
	for o := range owner(owners) {
		over := s.over.tombstone[o] || s.over.released == o
		if o != s.over.holder && (over || s.over.holder != nobody) {
			reply := m.Ask(t, guardstore.Claim{Owner: s.name(o), TTL: ttl})
			check(s.name(o)+" is over", over, reply.Status == guardstore.ClaimFinished)
		}
	}
	if len(queue) == 0 {
		if s.over.holder != nobody {
			m.Drop(replay.MemoryKey)
		}
		fence := uint64(max(s.at, s.fenceOf(s.over.last)+1)) //nolint:gosec // not negative
		check("the next fence", fence, m.Ask(t, guardstore.Claim{Owner: "p-2", TTL: ttl}).Fence)
	}
	return strings.Join(wrong, "\n")
}

// withoutRest are the calls that know no MinHold and no revocation: guardtest.TestStore has rows for these.
func withoutRest() map[call]struct{} {
	all := maps.Clone(small())
	maps.DeleteFunc(all, func(c call, _ struct{}) bool { return c.resting || c.revoked || c.keep })
	return all
}

// TestReplayInMemory replays what the model says on the store in memory.
func TestReplayInMemory(t *testing.T) {
	t.Parallel()
	all := withoutRest()
	synctest.Test(t, func(t *testing.T) {
		n, skipped := 0, 0
		for c := range all {
			for i := range memoryVariants {
				v := &memoryVariants[i]
				if !v.fits(c) {
					continue
				}
				wrong, done := replayInMemory(t, &rules{}, c, v)
				require.Empty(t, wrong, "store and model differ")
				if n++; !done {
					skipped++
				}
			}
		}
		t.Logf("%d calls, and %d that no call leads to", n-skipped, skipped)
		assert.Less(t, 4*skipped, n+skipped)
	})
}

// TestRulesOfTheStoreInMemory takes rules out of the model: each time, the store does
// something else.
func TestRulesOfTheStoreInMemory(t *testing.T) {
	t.Parallel()
	all := withoutRest()
	synctest.Test(t, func(t *testing.T) {
		for name, r := range scriptRules {
			if r.restIsIgnored || r.restGrants || r.lostKeeps || r.revokedRests || r.confirmsRevoked {
				continue
			}
			found := ""
			for c := range all {
				said, over := r.outcome(c)
				if was, before := (&rules{}).outcome(c); said != was || over != before {
					if found, _ = replayInMemory(t, r, c, &memoryVariants[0]); found != "" {
						break
					}
				}
			}
			assert.NotEmpty(t, found, name)
		}
	})
}

package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
)

// TestStore runs the contract of guardstore.Store as subtests. It calls newStore for each of them,
// one after the other. newStore returns a Store whose keys no other test uses, and cleans up with
// tb.Cleanup. The subtests then run in parallel, so do not flush a server that they share.
// They run in real time: ttls are short, and a store that is slower than 100 ms fails.
// TestStore returns when the last subtest has ended.
func TestStore(t *testing.T, newStore func(tb testing.TB) guardstore.Store) {
	t.Helper()
	run(t, "store", newStore, contract)
}

type contractRow struct {
	name string
	test func(s *storeTest)
}

// run runs rows in parallel, in a group of their own, which waits for them.
func run(t *testing.T, part string, newStore func(tb testing.TB) guardstore.Store, rows []contractRow) {
	t.Helper()
	t.Run(part, func(t *testing.T) {
		for _, c := range rows {
			t.Run(c.name, func(t *testing.T) {
				s := &storeTest{T: t, store: newStore(t), key: "contract:" + c.name}
				t.Parallel()
				c.test(s)
			})
		}
	})
}

var contract = []contractRow{
	{"a free key is held, a held one is busy", (*storeTest).heldAndBusy},
	{"acquiring twice is acquiring once", (*storeTest).acquireTwice},
	{"acquiring again never shortens", (*storeTest).acquireNeverShortens},
	{"a hold lapses with its ttl", (*storeTest).lapse},
	{"fences grow", (*storeTest).fences},
	{"a fence ahead of the clock is said to be, and one more each time", (*storeTest).fenceAhead},
	{"the counter is absolute and the owner's", (*storeTest).depth},
	{"renewing keeps, never creates, never shortens", (*storeTest).renew},
	{"renewing names the present holder", (*storeTest).renewHolder},
	{"renewals of a batch do not depend on each other", (*storeTest).renewBatch},
	{"releasing twice is releasing once", (*storeTest).releaseTwice},
	{"releasing frees only one's own", (*storeTest).releaseOthers},
	{"an owner with a tombstone cannot come back, and the key is free", (*storeTest).tombstones},
	{"a MinHold keeps the key for the rest of it, and no longer", (*storeTest).minHold},
	{"releasing twice keeps no longer than once", (*storeTest).minHoldTwice},
	{"who lost a hold keeps nothing", (*storeTest).minHoldLost},
	{"a MinHold may end before the release, before the ttl, or after it", (*storeTest).minHoldAndTTL},
	{"a MinHold is of the clock, whatever the fence", (*storeTest).minHoldAhead},
	{"any key is a key", (*storeTest).keys},
	{"one owner at a time", (*storeTest).race},
	{"a call ends with its ctx", (*storeTest).endsWithItsContext},
}

// contractTTL is long enough for the slowest of steps that expect a hold to be there.
const contractTTL = 10 * time.Second

type storeTest struct {
	*testing.T
	store guardstore.Store
	key   string
}

func (s *storeTest) check(ok bool, format string, args ...any) {
	s.Helper()
	if !ok {
		s.Fatalf(format, args...)
	}
}

// claim is a claim of the key. The owner is named for its instance: "a-1", or just "a", is one of instance "a".
func (s *storeTest) claim(owner string) guardstore.Claim {
	return guardstore.Claim{Key: s.key, Owner: owner, TTL: contractTTL, Metadata: "of " + owner}
}

func queued(c guardstore.Claim) guardstore.Claim { c.Queue = true; return c }

func (s *storeTest) asks(c guardstore.Claim) guardstore.ClaimReply {
	s.Helper()
	r, err := s.store.Acquire(s.Context(), c)
	s.check(err == nil, "acquire of %s: %v", c.Owner, err)
	return r
}

func grantOf(c guardstore.Claim, r guardstore.ClaimReply) guardstore.Grant {
	return guardstore.Grant{Key: c.Key, Owner: c.Owner, Fence: r.Fence, TTL: c.TTL, Depth: 1, Limit: c.Limit, Metadata: c.Metadata}
}

// gets asks for a claim that has to get in.
func (s *storeTest) gets(c guardstore.Claim) guardstore.Grant {
	s.Helper()
	r := s.asks(c)
	s.check(r.Status == guardstore.ClaimHeld, "%s: %+v, want held", c.Owner, r)
	return grantOf(c, r)
}

// getsWithin is gets for a claim that gets in once others have left.
func (s *storeTest) getsWithin(d time.Duration, c guardstore.Claim) guardstore.Grant {
	s.Helper()
	for end := time.Now().Add(d); ; time.Sleep(5 * time.Millisecond) {
		r := s.asks(c)
		if r.Status == guardstore.ClaimHeld {
			return grantOf(c, r)
		}
		s.check(time.Now().Before(end), "%s does not get in within %v", c.Owner, d)
		c.Ticket = r.Ticket
	}
}

func (s *storeTest) hold(owner string, ttl time.Duration) guardstore.Grant {
	s.Helper()
	c := s.claim(owner)
	c.TTL = ttl
	return s.gets(c)
}

func (s *storeTest) busy(owner string) guardstore.ClaimReply {
	s.Helper()
	r := s.asks(s.claim(owner))
	s.check(r.Status == guardstore.ClaimBusy, "%s: status %d, want busy", owner, r.Status)
	return r
}

// finished asks for a claim that must not come back.
func (s *storeTest) finished(c guardstore.Claim) {
	s.Helper()
	r := s.asks(c)
	s.check(r.Status == guardstore.ClaimFinished, "%s: %+v, want finished", c.Owner, r)
}

// releases sends a release of the key.
func (s *storeTest) releases(r guardstore.Release, want guardstore.ReleaseStatus) guardstore.ReleaseReply {
	s.Helper()
	r.Key, r.TTL = s.key, contractTTL
	got, err := s.store.Release(s.Context(), r)
	s.check(err == nil && got.Status == want, "release of %s: %+v, %v, want %d", r.Owner, got, err, want)
	return got
}

func (s *storeTest) release(g guardstore.Grant, tombstone bool, want guardstore.ReleaseStatus) {
	s.Helper()
	s.releases(guardstore.Release{Owner: g.Owner, Fence: g.Fence, Tombstone: tombstone, Limit: g.Limit}, want)
}

// leaves releases a grant that is held.
func (s *storeTest) leaves(g guardstore.Grant) {
	s.Helper()
	s.release(g, false, guardstore.ReleaseDone)
}

// again releases what was released before, while others hold the key.
func (s *storeTest) again(r guardstore.Release) {
	s.Helper()
	r.Key, r.TTL = s.key, contractTTL
	got, err := s.store.Release(s.Context(), r)
	s.check(err == nil && got.Status != guardstore.ReleaseDone && !got.HeldOver, "release of %s again: %+v, %v", r.Owner, got, err)
}

func (s *storeTest) renewed(t guardstore.Grant, want bool) {
	s.Helper()
	r := s.store.Renew(s.Context(), []guardstore.Grant{t})
	s.check(len(r) == 1 && r[0].Err == nil && r[0].Held == want, "renew of %s: %+v, want %v", t.Owner, r, want)
}

func (s *storeTest) setDepth(t guardstore.Grant, depth int, want bool) {
	s.Helper()
	t.Depth, t.TTL = depth, 0
	s.renewed(t, want)
}

func (s *storeTest) heldAndBusy() {
	s.hold("a", contractTTL)
	r := s.busy("b")
	s.check(r.Remaining > contractTTL-5*time.Second && r.Remaining <= contractTTL, "remaining %v", r.Remaining)
	s.check(r.Holder == "of a", "holder %q", r.Holder)
}

func (s *storeTest) acquireTwice() {
	first, second := s.hold("a", contractTTL), s.hold("a", contractTTL)
	s.check(first.Fence == second.Fence, "fences %d and %d", first.Fence, second.Fence)
	s.leaves(first)
	s.hold("b", contractTTL)
}

func (s *storeTest) acquireNeverShortens() {
	s.hold("a", contractTTL)
	s.hold("a", 100*time.Millisecond)
	s.check(s.busy("b").Remaining > contractTTL-5*time.Second, "shortened")
	s.hold("a", 2*contractTTL)
	s.check(s.busy("b").Remaining > contractTTL, "not extended")
}

func (s *storeTest) lapse() {
	a := s.hold("a", 100*time.Millisecond)
	remaining := s.busy("b").Remaining
	time.Sleep(remaining + 5*time.Millisecond)
	b := s.hold("b", contractTTL)
	s.renewed(a, false)
	s.setDepth(a, 2, false)
	s.release(a, false, guardstore.ReleaseLost)
	s.renewed(b, true)
}

func (s *storeTest) fences() {
	high := uint64(0)
	for i := range 10 {
		t := s.hold(fmt.Sprint("owner", i), contractTTL)
		s.check(t.Fence > high && t.Fence < 1<<53, "fence %d after %d", t.Fence, high)
		high = t.Fence + uint64(i)*1000 // as if it had been handed on locally meanwhile
		t.Fence = high
		s.leaves(t)
	}
}

func (s *storeTest) fenceAhead() {
	plain := s.claim("p")
	plain.Key += ":plain"
	s.check(!s.asks(plain).FenceAhead, "of the clock")
	floor := uint64(time.Now().Add(time.Hour).UnixMicro())
	ahead := guardstore.Claim{Key: s.key, Owner: "a", TTL: time.Second, FenceAbove: floor}
	first, again := s.asks(ahead), s.asks(ahead)
	s.check(first.FenceAhead && again.FenceAhead && again.Fence == first.Fence, "above %d: %+v, confirmed: %+v", floor, first, again)
	time.Sleep(s.busy("b").Remaining + 5*time.Millisecond) // its holder crashed
	second := s.asks(s.claim("b"))
	s.leaves(guardstore.Grant{Owner: "b", Fence: second.Fence})
	third := s.asks(s.claim("c"))
	s.check(second.FenceAhead && third.FenceAhead, "the second: %+v, the third: %+v", second, third)
	const most = 100 // tries that a store of several servers may need
	for _, f := range [][2]uint64{{floor, first.Fence}, {first.Fence, second.Fence}, {second.Fence, third.Fence}} {
		s.check(f[1] > f[0] && f[1] <= f[0]+most, "fence %d after %d", f[1], f[0])
	}
}

func (s *storeTest) depth() {
	a := s.hold("a", contractTTL)
	left := s.busy("b").Remaining
	until := time.Now().Add(left) // or sooner, as the answer took some time
	time.Sleep(20 * time.Millisecond)
	s.setDepth(a, 2, true)
	s.setDepth(a, 2, true)
	s.setDepth(a, 1, true)
	moved := func() bool {
		begun := time.Now() // before the answer, so that a late one shows no more time
		return begun.Add(s.busy("b").Remaining - 10*time.Millisecond).After(until)
	}
	for end := time.Now().Add(time.Second); moved(); { // of several servers, a late one has a later expiry
		s.check(time.Now().Before(end), "its expiry moved")
	}
	s.setDepth(guardstore.Grant{Key: s.key, Owner: "b"}, 7, false)
	s.leaves(a)
	s.setDepth(a, 1, false)
	s.hold("b", contractTTL)
}

// busyUntil asks for up to a second until the reply is the wanted one: of several
// servers, not all may have renewed yet.
func (s *storeTest) busyUntil(wanted func(guardstore.ClaimReply) bool) guardstore.ClaimReply {
	s.Helper()
	seen := s.busy("b")
	for late := time.Now().Add(time.Second); !wanted(seen) && time.Now().Before(late); {
		seen = s.busy("b")
	}
	return seen
}

func (s *storeTest) renew() {
	a := s.hold("a", contractTTL-5*time.Second)
	a.TTL = contractTTL
	s.renewed(a, true)
	extended := func(r guardstore.ClaimReply) bool { return r.Remaining > contractTTL-5*time.Second }
	s.check(extended(s.busyUntil(extended)), "not extended")
	a.TTL = 100 * time.Millisecond
	s.renewed(a, true)
	s.check(s.busy("b").Remaining > contractTTL-5*time.Second, "shortened")
	stale := a
	stale.Fence--
	s.renewed(stale, false)
	s.leaves(a)
	s.renewed(a, false)
	s.hold("b", contractTTL)
}

func (s *storeTest) renewHolder() {
	a := s.hold("a", contractTTL)
	for _, holder := range []string{"b", "", "of c"} {
		a.Metadata = holder
		s.renewed(a, true)
		seen := s.busyUntil(func(r guardstore.ClaimReply) bool { return r.Holder == holder }).Holder
		s.check(seen == holder, "holder %q, want %q", seen, holder)
	}
}

func (s *storeTest) renewBatch() {
	a := s.hold("a", contractTTL)
	gone := guardstore.Grant{Key: s.key + ":other", Owner: "x", Fence: 1, TTL: contractTTL, Depth: 1}
	r := s.store.Renew(s.Context(), []guardstore.Grant{gone, a, gone})
	s.check(len(r) == 3, "%d replies", len(r))
	for i, want := range []bool{false, true, false} {
		s.check(r[i].Err == nil && r[i].Held == want, "reply %d: %+v, want %v", i, r[i], want)
	}
}

func (s *storeTest) releaseTwice() {
	a := s.hold("a", contractTTL)
	s.leaves(a)
	s.release(a, false, guardstore.ReleaseLost)
	b := s.hold("b", contractTTL)
	s.again(guardstore.Release{Owner: a.Owner, Fence: a.Fence})
	s.renewed(b, true)
}

func (s *storeTest) releaseOthers() {
	a := s.hold("a", contractTTL)
	s.release(guardstore.Grant{Key: s.key, Owner: "b"}, false, guardstore.ReleaseLost)
	s.release(guardstore.Grant{Key: s.key, Owner: "c"}, true, guardstore.ReleaseLost)
	s.renewed(a, true)
}

func (s *storeTest) keys() {
	for _, key := range []string{
		"{", "}", "{}", "}{", "a{b}c", ":", "::", "\x00", "a\nb", `\`, `\)`, "订单", "%", "%7D", " ",
		strings.Repeat("k", guard.MaxKeyLength),
	} {
		s.key = key
		t := s.hold("a", contractTTL)
		s.busy("b")
		s.renewed(t, true)
		s.setDepth(t, 2, true)
		s.leaves(t)
		// On a majority, a's release may not have reached one server, nor the end of b's claim another.
		c := s.getsWithin(contractTTL/2, s.claim("c"))
		s.release(c, true, guardstore.ReleaseDone)
	}
}

func (s *storeTest) tombstones() {
	s.release(guardstore.Grant{Owner: "late"}, true, guardstore.ReleaseLost)
	s.release(s.hold("a", contractTTL), true, guardstore.ReleaseDone)
	s.leaves(s.hold("b", contractTTL))
	s.finished(s.claim("late"))
	s.finished(s.claim("a"))
	s.hold("c", contractTTL)
}

// endsWithItsContext makes calls with a ctx that has ended, or ends meanwhile: they return within a second. It ignores
// their other results.
func (s *storeTest) endsWithItsContext() {
	held := s.hold("a", contractTTL)
	confirmed := held
	confirmed.TTL = 0
	for name, call := range map[string]func(ctx context.Context){
		"Acquire":              func(ctx context.Context) { _, _ = s.store.Acquire(ctx, queued(s.claim("b"))) },
		"Renew":                func(ctx context.Context) { s.store.Renew(ctx, []guardstore.Grant{held}) },
		"Renew, without a TTL": func(ctx context.Context) { s.store.Renew(ctx, []guardstore.Grant{confirmed}) },
		"Release": func(ctx context.Context) {
			_, _ = s.store.Release(ctx, guardstore.Release{Key: s.key, Owner: "b", TTL: contractTTL})
		},
		"Listen": func(ctx context.Context) { s.store.Listen(ctx, "b", newListener(s)) },
	} {
		for _, after := range []time.Duration{0, time.Millisecond} {
			ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
			if after == 0 {
				cancel()
			}
			time.AfterFunc(after, cancel)
			returned := make(chan struct{})
			go func() {
				defer close(returned)
				call(ctx)
			}()
			select {
			case <-returned:
			case <-time.After(after + time.Second):
				s.Fatalf("%s runs for more than a second after the end of its ctx", name)
			}
		}
	}
	s.renewed(held, true)
	s.leaves(held)
}

// race has fifty owners want a key at once. The store may answer each that the key is busy, as several
// servers do for claims that came between each other. An owner that asks again gets the key in the end.
func (s *storeTest) race() {
	var inside, taken atomic.Int32
	var wg sync.WaitGroup
	ctx := context.WithoutCancel(s.Context())
	late := time.Now().Add(contractTTL)
	for i := range 50 {
		wg.Go(func() {
			c := s.claim(fmt.Sprint("owner", i))
			r, err := s.store.Acquire(ctx, c)
			for (err != nil || r.Status != guardstore.ClaimHeld) && taken.Load() == 0 && time.Now().Before(late) {
				r, err = s.store.Acquire(ctx, c)
			}
			if err != nil || r.Status != guardstore.ClaimHeld {
				return
			}
			taken.Add(1)
			if inside.Add(1) != 1 {
				s.Errorf("two owners at once")
			}
			inside.Add(-1)
			_, _ = s.store.Release(ctx, guardstore.Release{Key: s.key, Owner: c.Owner, Fence: r.Fence, TTL: contractTTL})
		})
	}
	wg.Wait()
	s.check(taken.Load() > 0, "no owner got it")
}

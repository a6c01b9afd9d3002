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
	{"an owner with a tombstone cannot come back", (*storeTest).tombstones},
	{"a tombstone for who holds frees the key", (*storeTest).tombstoneHeld},
	{"a MinHold keeps the key for the rest of it, and no longer", (*storeTest).minHold},
	{"a MinHold that has ended keeps nothing", (*storeTest).minHoldOver},
	{"releasing twice keeps no longer than once", (*storeTest).minHoldTwice},
	{"who lost a hold keeps nothing", (*storeTest).minHoldLost},
	{"a MinHold may end before the ttl, or after it", (*storeTest).minHoldAndTTL},
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

func (s *storeTest) acquire(owner string, ttl time.Duration) guardstore.ClaimReply {
	s.Helper()
	r, err := s.store.Acquire(s.Context(), guardstore.Claim{Key: s.key, Owner: owner, TTL: ttl, Metadata: "of " + owner})
	s.check(err == nil, "acquire: %v", err)
	return r
}

func (s *storeTest) hold(owner string, ttl time.Duration) guardstore.Grant {
	s.Helper()
	r := s.acquire(owner, ttl)
	s.check(r.Status == guardstore.ClaimHeld, "%s: status %d, want held", owner, r.Status)
	return guardstore.Grant{Key: s.key, Owner: owner, Fence: r.Fence, TTL: ttl, Depth: 1}
}

func (s *storeTest) busy(owner string) guardstore.ClaimReply {
	s.Helper()
	r := s.acquire(owner, contractTTL)
	s.check(r.Status == guardstore.ClaimBusy, "%s: status %d, want busy", owner, r.Status)
	return r
}

func (s *storeTest) release(t guardstore.Grant, tombstone bool, want guardstore.ReleaseStatus) {
	s.Helper()
	r, err := s.store.Release(s.Context(), guardstore.Release{
		Key: t.Key, Owner: t.Owner, Fence: t.Fence, TTL: contractTTL, Tombstone: tombstone,
	})
	s.check(err == nil && r.Status == want, "release of %s: %+v, %v, want %d", t.Owner, r, err, want)
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
	s.release(first, false, guardstore.ReleaseDone)
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
		s.release(t, false, guardstore.ReleaseDone)
	}
}

func (s *storeTest) fenceAhead() {
	plain, err := s.store.Acquire(s.Context(), guardstore.Claim{Key: s.key + ":plain", Owner: "p", TTL: contractTTL})
	s.check(err == nil && plain.Status == guardstore.ClaimHeld && !plain.FenceAhead, "of the clock: %+v, %v", plain, err)
	floor := uint64(time.Now().Add(time.Hour).UnixMicro())
	ahead := guardstore.Claim{Key: s.key, Owner: "a", TTL: 100 * time.Millisecond, FenceAbove: floor}
	first, err := s.store.Acquire(s.Context(), ahead)
	s.check(err == nil && first.Status == guardstore.ClaimHeld && first.Fence > floor && first.FenceAhead, "above %d: %+v, %v", floor, first, err)
	again, err := s.store.Acquire(s.Context(), ahead)
	s.check(err == nil && again.Fence == first.Fence && again.FenceAhead, "confirmed: %+v, %v", again, err)
	time.Sleep(s.busy("b").Remaining + 5*time.Millisecond) // its holder crashed
	second := s.acquire("b", contractTTL)
	s.check(second.Status == guardstore.ClaimHeld && second.FenceAhead, "the second: %+v", second)
	r, err := s.store.Release(s.Context(), guardstore.Release{
		Key: s.key, Owner: "b", Fence: second.Fence, TTL: contractTTL,
	})
	s.check(err == nil && r.Status == guardstore.ReleaseDone, "release: %+v, %v", r, err)
	third := s.acquire("c", contractTTL)
	s.check(third.Status == guardstore.ClaimHeld && third.FenceAhead, "the third: %+v", third)
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
	s.release(a, false, guardstore.ReleaseDone)
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
	s.release(a, false, guardstore.ReleaseDone)
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
	s.release(a, false, guardstore.ReleaseDone)
	s.release(a, false, guardstore.ReleaseLost)
	b := s.hold("b", contractTTL)
	r, err := s.store.Release(s.Context(), guardstore.Release{Key: a.Key, Owner: a.Owner, Fence: a.Fence, TTL: contractTTL})
	s.check(err == nil && r.Status != guardstore.ReleaseDone, "release of a third time: %+v, %v", r, err)
	s.renewed(b, true)
}

func (s *storeTest) releaseOthers() {
	a := s.hold("a", contractTTL)
	s.release(guardstore.Grant{Key: s.key, Owner: "b"}, false, guardstore.ReleaseLost)
	s.release(guardstore.Grant{Key: s.key, Owner: "c"}, true, guardstore.ReleaseLost)
	s.renewed(a, true)
}

func (s *storeTest) tombstones() {
	s.release(guardstore.Grant{Key: s.key, Owner: "late"}, true, guardstore.ReleaseLost)
	b := s.hold("b", contractTTL)
	s.release(b, false, guardstore.ReleaseDone)
	r := s.acquire("late", contractTTL)
	s.check(r.Status == guardstore.ClaimFinished, "status %d, want withdrawn", r.Status)
	s.hold("c", contractTTL)
}

func (s *storeTest) tombstoneHeld() {
	a := s.hold("a", contractTTL)
	s.release(a, true, guardstore.ReleaseDone)
	b := s.hold("b", contractTTL)
	s.release(b, false, guardstore.ReleaseDone)
	r := s.acquire("a", contractTTL)
	s.check(r.Status == guardstore.ClaimFinished, "status %d, want withdrawn", r.Status)
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
		s.release(t, false, guardstore.ReleaseDone)
		s.release(s.hold("c", contractTTL), true, guardstore.ReleaseDone)
	}
}

// callEnd is within what time a call returns after its ctx ended.
const callEnd = time.Second

// endsWithItsContext makes calls with a ctx that has ended, or ends meanwhile. It ignores their other
// results.
func (s *storeTest) endsWithItsContext() {
	held := s.hold("a", contractTTL)
	claim := guardstore.Claim{Key: s.key, Owner: "b", TTL: contractTTL, Queue: true}
	for name, call := range map[string]func(ctx context.Context){
		"Acquire": func(ctx context.Context) { _, _ = s.store.Acquire(ctx, claim) },
		"Renew":   func(ctx context.Context) { s.store.Renew(ctx, []guardstore.Grant{held}) },
		"Renew, without a TTL": func(ctx context.Context) {
			g := held
			g.TTL = 0
			s.store.Renew(ctx, []guardstore.Grant{g})
		},
		"Release": func(ctx context.Context) {
			_, _ = s.store.Release(ctx, guardstore.Release{Key: s.key, Owner: "b", TTL: contractTTL})
		},
		"Listen": func(ctx context.Context) {
			s.store.Listen(ctx, "b", &listener{s: s, wakes: make(chan guardstore.Notification, 100)})
		},
	} {
		for _, after := range []time.Duration{0, time.Millisecond} {
			ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
			if after == 0 {
				cancel()
			}
			returned := make(chan struct{})
			go func() {
				defer close(returned)
				call(ctx)
			}()
			time.Sleep(after)
			cancel()
			select {
			case <-returned:
			case <-time.After(callEnd):
				s.Fatalf("%s runs for more than %v after the end of its ctx", name, callEnd)
			}
		}
	}
	s.renewed(held, true)
	s.release(held, false, guardstore.ReleaseDone)
}

// race has fifty owners want a key at once. The store may answer each that the key is busy, as several
// servers do for claims that came between each other. An owner that asks again gets the key in the end.
func (s *storeTest) race() {
	var inside, taken atomic.Int32
	var wg sync.WaitGroup
	ctx := context.WithoutCancel(s.Context())
	late := time.Now().Add(contractTTL)
	contend := func(owner string) {
		c := guardstore.Claim{Key: s.key, Owner: owner, TTL: contractTTL}
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
		_, _ = s.store.Release(ctx, guardstore.Release{Key: s.key, Owner: owner, Fence: r.Fence, TTL: contractTTL})
	}
	for i := range 50 {
		wg.Go(func() { contend(fmt.Sprint("owner", i)) })
	}
	wg.Wait()
	s.check(taken.Load() > 0, "no owner got it")
}

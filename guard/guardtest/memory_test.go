package guardtest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardstore/storetest"
	"github.com/redlatch/redlatch/guard/guardtest"
)

func TestContract_MemoryStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	store := func(testing.TB) guardstore.Store { return guardtest.NewStore() }
	storetest.TestStore(t, store)
	storetest.TestQueue(t, store)
	storetest.TestLimits(t, store)
	storetest.TestRecords(t, store)
}

func TestMemoryGuard_OutageAndLose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, key := guardtest.NewMemoryGuard(t), guard.Keyf("order:%s", "a:b")
		lock := func(work func(context.Context)) error {
			return g.WithLock(t.Context(), key, func(ctx context.Context) error {
				work(ctx)
				return nil
			})
		}
		down := errors.New("down")
		guardtest.Outage(t, g, down)
		begun := time.Now()
		err := lock(func(context.Context) { t.Error("worked in an outage") })
		require.ErrorIs(t, err, guard.ErrStore)
		require.ErrorIs(t, err, down)
		assert.Equal(t, 2*time.Second, time.Since(begun))
		guardtest.Outage(t, g, nil)
		require.ErrorIs(t, lock(func(ctx context.Context) {
			guardtest.Lose(t, g, key)
			<-ctx.Done()
		}), guard.ErrLost)
	})
}

// fatal is a testing.TB whose Fatal ends the goroutine and fails no test.
type fatal struct {
	testing.TB
	text string
}

func (f *fatal) Helper() {}

func (f *fatal) Fatal(args ...any) {
	f.text = fmt.Sprint(args...)
	runtime.Goexit()
}

func (f *fatal) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

func TestMemoryGuard_BadArgumentsEndTheTest(t *testing.T) {
	t.Parallel()
	own, memory := guardtest.NewRedisGuard(t), guardtest.NewMemoryGuard(t)
	var ended *guard.Guard
	t.Run("a test", func(t *testing.T) { ended = guardtest.NewMemoryGuard(t) })
	require.ErrorIs(t, ended.WithLock(t.Context(), guard.Key("k"), func(context.Context) error { return nil }), guard.ErrClosed)
	for want, do := range map[string]func(tb testing.TB){
		"not from NewMemoryGuard": func(tb testing.TB) { guardtest.Lose(tb, own, guard.Key("k")) },
		"or its test has ended":   func(tb testing.TB) { guardtest.Outage(tb, ended, nil) },
		"TTL 0s is outside":       func(tb testing.TB) { guardtest.NewMemoryGuard(tb, guard.TTL(0)) },
		"no key": func(tb testing.TB) {
			guardtest.Lose(tb, memory, func(context.Context) (string, error) { return "", errors.New("no key") })
		},
	} {
		f, done := &fatal{TB: t}, make(chan struct{})
		go func() {
			defer close(done)
			do(f)
		}()
		<-done
		assert.Contains(t, f.text, want)
	}
}

func TestStore_CountsCalls(t *testing.T) {
	t.Parallel()
	s := guardtest.NewStore()
	g, err := guard.NewWithStore(s)
	require.NoError(t, err)
	defer g.Close()
	nothing := func(context.Context) error { return nil }
	for range 2 {
		require.NoError(t, g.WithLock(t.Context(), guard.Key("k"), nothing))
	}
	require.NoError(t, g.WithLock(t.Context(), guard.Key("l"), func(ctx context.Context) error { return g.WithLock(ctx, guard.Key("l"), nothing) }))
	assert.Equal(t, []int{3, 2, 3}, []int{s.Calls("acquire"), s.Calls("renew"), s.Calls("release")})
}

func TestStore_ARevokedHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := guardtest.NewStore()
		a, r := listens(t, s, "a"), acquires(t, s, guardstore.Claim{Owner: "a-1"})
		renews(t, s, r.Fence, time.Minute, 0)
		assert.False(t, s.Revoke("k", r.Fence+1))
		for mute, want := range map[bool][]guardstore.Notification{true: nil, false: {{Owner: "a-1", Revoked: true}}} {
			a.got = nil
			s.Mute(mute)
			assert.True(t, s.Revoke("k", r.Fence))
			assert.Equal(t, want, a.got)
		}
		assert.Equal(t, guardstore.ClaimFinished, acquires(t, s, guardstore.Claim{Owner: "a-1"}).Status)
		grant := guardstore.Grant{Key: "k", Owner: "a-1", Fence: r.Fence, TTL: time.Minute, Depth: 1}
		assert.Equal(t, []guardstore.RenewReply{{Revoked: true}}, s.Renew(t.Context(), []guardstore.Grant{grant}))
		assert.Equal(t, guardstore.ReleaseRevoked, releases(t, s, guardstore.Release{Owner: "a-1", Fence: r.Fence}).Status)
	})
}

// The outcome of a revoked owner counts with AtMostOnce only, if no other began.
func TestStore_TheRecordOfARevokedHold(t *testing.T) {
	t.Parallel()
	for atMostOnce, want := range map[bool]guardstore.RecordState{false: guardstore.RecordBegun, true: guardstore.RecordDone} {
		s, o := guardtest.NewStore(), guardstore.Once{Keep: time.Hour, AtMostOnce: atMostOnce}
		r := acquires(t, s, guardstore.Claim{Owner: "a-1", Once: &o})
		s.Revoke("k", r.Fence)
		releases(t, s, guardstore.Release{Owner: "a-1", Fence: r.Fence, Record: &guardstore.Outcome{Once: o, State: guardstore.RecordDone}})
		assert.Equal(t, want, recorded(t, s).State)
	}
}

// A claim that leaves the queue says nothing of the claim in front.
func TestStore_AClaimThatLeavesTheEndOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := guardtest.NewStore()
		a := acquires(t, s, guardstore.Claim{Owner: "a-1"})
		for _, owner := range []string{"b-1", "c-1"} {
			acquires(t, s, guardstore.Claim{Owner: owner, Queue: true, Unsubscribed: true})
		}
		time.Sleep(3 * time.Second)
		releases(t, s, guardstore.Release{Owner: "c-1"})
		time.Sleep(3 * time.Second)
		releases(t, s, guardstore.Release{Owner: "a-1", Fence: a.Fence})
		assert.Zero(t, s.Depth("k"), "b is dead: it did not ask for six seconds")
	})
}

func TestStore_AClaimWithTheTicketOfAnother(t *testing.T) {
	t.Parallel()
	s := guardtest.NewStore()
	acquires(t, s, guardstore.Claim{Owner: "a-1"})
	b := acquires(t, s, guardstore.Claim{Owner: "b-1", Queue: true})
	acquires(t, s, guardstore.Claim{Owner: "c-1", Queue: true})
	for owner, ticket := range map[string]uint64{"d-1": b.Ticket, "e-1": b.Ticket - 1} {
		acquires(t, s, guardstore.Claim{Owner: owner, Queue: true, Ticket: ticket})
	}
	assert.Equal(t, []string{"e-1", "b-1", "d-1", "c-1"}, s.Queue("k"))
}

// While an exclusive holder works, no claim loses its place. A claim that comes to the front while readers work is notified.
func TestStore_ASilentClaimInFront(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := guardtest.NewStore()
		acquires(t, s, guardstore.Claim{Owner: "a-1"})
		acquires(t, s, guardstore.Claim{Owner: "b-1", Queue: true, Unsubscribed: true})
		time.Sleep(6 * time.Second)
		acquires(t, s, guardstore.Claim{Owner: "c-1", Queue: true, Unsubscribed: true})
		assert.Equal(t, []string{"b-1", "c-1"}, s.Queue("k"))
	})
	synctest.Test(t, func(t *testing.T) {
		s := guardtest.NewStore()
		b := listens(t, s, "b")
		acquires(t, s, guardstore.Claim{Owner: "a-1", Limit: guardstore.Unlimited})
		acquires(t, s, guardstore.Claim{Owner: "c-1", Queue: true, Unsubscribed: true})
		acquires(t, s, guardstore.Claim{Owner: "b-1", Queue: true})
		time.Sleep(6 * time.Second)
		releases(t, s, guardstore.Release{Owner: "c-1"})
		assert.Equal(t, []string{"b-1"}, s.Queue("k"))
		assert.Equal(t, []guardstore.Notification{{Owner: "b-1", First: true}}, b.got)
		time.Sleep(4 * time.Second)
		assert.Equal(t, guardstore.ClaimBusy, acquires(t, s, guardstore.Claim{Owner: "d-1", Limit: guardstore.Unlimited}).Status, "its silence counts from there")
	})
}

// A claim that can share the lock waits for the first holder that leaves, another claim for the last.
func TestStore_WhatABusyClaimIsTold(t *testing.T) {
	for _, limits := range [][2]guardstore.Limit{{2, 3}, {3, 2}} {
		synctest.Test(t, func(t *testing.T) {
			s := guardtest.NewStore()
			acquires(t, s, guardstore.Claim{Owner: "a-1", Limit: limits[0], Metadata: "first"})
			time.Sleep(10 * time.Second)
			acquires(t, s, guardstore.Claim{Owner: "b-1", Limit: limits[1], Metadata: "last"})
			want := guardstore.ClaimReply{Status: guardstore.ClaimBusy, Limit: 2, Remaining: 50 * time.Second, Holder: "first"}
			assert.Equal(t, want, acquires(t, s, guardstore.Claim{Owner: "c-1", Limit: 2}))
			want.Remaining, want.Holder = time.Minute, "last"
			assert.Equal(t, want, acquires(t, s, guardstore.Claim{Owner: "d-1"}))
		})
	}
}

func TestStore_AnInstanceThatDoesNotListenAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := guardtest.NewStore()
		ctx, end := context.WithCancel(t.Context())
		go s.Listen(ctx, "b", &hears{})
		synctest.Wait()
		a := acquires(t, s, guardstore.Claim{Owner: "a-1"})
		acquires(t, s, guardstore.Claim{Owner: "b-1", Queue: true})
		end()
		synctest.Wait()
		releases(t, s, guardstore.Release{Owner: "a-1", Fence: a.Fence})
		assert.Zero(t, s.Depth("k"))
	})
}

func TestStore_DropOfAKeyThatWasNeverLocked(t *testing.T) {
	t.Parallel()
	s := guardtest.NewStore()
	s.Drop("k")
	assert.Zero(t, s.Depth("k"))
}

// A claim that arrives after its owner has left is refused for a minute.
func TestStore_TombstonesLastAMinute(t *testing.T) {
	for after, want := range map[time.Duration]guardstore.ClaimStatus{
		time.Minute - 1: guardstore.ClaimFinished, time.Minute: guardstore.ClaimHeld,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := guardtest.NewStore()
			releases(t, s, guardstore.Release{Owner: "a-1", Tombstone: true})
			time.Sleep(after)
			assert.Equal(t, want, acquires(t, s, guardstore.Claim{Owner: "a-1"}).Status)
		})
	}
}

// The work of an owner is done, and its MinHold keeps the key.
func TestStore_AClaimOfAnOwnerWhoseMinHoldRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := guardtest.NewStore()
		a := acquires(t, s, guardstore.Claim{Owner: "a-1"})
		assert.True(t, releases(t, s, guardstore.Release{Owner: "a-1", Fence: a.Fence, MinHold: time.Second}).HeldOver)
		assert.Equal(t, guardstore.ClaimFinished, acquires(t, s, guardstore.Claim{Owner: "a-1"}).Status)
		time.Sleep(time.Second)
		b := acquires(t, s, guardstore.Claim{Owner: "b-1", Limit: 2})
		assert.Equal(t, guardstore.ClaimHeld, b.Status)
		assert.False(t, releases(t, s, guardstore.Release{Owner: "b-1", Fence: b.Fence, MinHold: time.Second}).HeldOver, "a Limit has none")
	})
}

// A claim without a subscription asks each second. After five seconds of silence it is dead, and the next one gets in.
func TestStore_AWaitingClaimThatIsSilentIsDead(t *testing.T) {
	for silence, holder := range map[time.Duration]int{5 * time.Second: 1, 5*time.Second + 1: 0} {
		synctest.Test(t, func(t *testing.T) {
			s := guardtest.NewStore()
			a := acquires(t, s, guardstore.Claim{Owner: "a-1"})
			acquires(t, s, guardstore.Claim{Owner: "b-1", Queue: true, Unsubscribed: true})
			time.Sleep(silence)
			releases(t, s, guardstore.Release{Owner: "a-1", Fence: a.Fence})
			assert.Equal(t, holder, s.Depth("k"))
			assert.Empty(t, s.Queue("k"))
		})
	}
}

// hears is a Listener that notes its messages.
type hears struct{ got []guardstore.Notification }

func (h *hears) Notify(n guardstore.Notification) { h.got = append(h.got, n) }
func (h *hears) Waiting() bool                    { return true }

// listens has an instance listen for the test.
func listens(t *testing.T, s *guardtest.Store, instance string) *hears {
	t.Helper()
	h := &hears{}
	go s.Listen(t.Context(), instance, h)
	synctest.Wait()
	require.Equal(t, []guardstore.Notification{{}}, h.got, "the subscription began")
	h.got = nil
	return h
}

// A claim that gets messages is dead after 25 seconds of silence, or after five if it keeps others out.
func TestStore_AWaitingClaimThatGetsMessages(t *testing.T) {
	for silence, holders := range map[time.Duration]int{25 * time.Second: 1, 25*time.Second + 1: 0} {
		synctest.Test(t, func(t *testing.T) {
			s := guardtest.NewStore()
			listens(t, s, "b")
			a := acquires(t, s, guardstore.Claim{Owner: "a-1"})
			acquires(t, s, guardstore.Claim{Owner: "b-1", Queue: true})
			time.Sleep(silence)
			releases(t, s, guardstore.Release{Owner: "a-1", Fence: a.Fence})
			assert.Equal(t, holders, s.Depth("k"), silence)
		})
	}
	for silence, status := range map[time.Duration]guardstore.ClaimStatus{5 * time.Second: guardstore.ClaimBusy, 5*time.Second + 1: guardstore.ClaimHeld} {
		synctest.Test(t, func(t *testing.T) {
			s := guardtest.NewStore()
			listens(t, s, "b")
			acquires(t, s, guardstore.Claim{Owner: "a-1", Limit: guardstore.Unlimited})
			acquires(t, s, guardstore.Claim{Owner: "b-1", Queue: true})
			time.Sleep(silence)
			assert.Equal(t, status, acquires(t, s, guardstore.Claim{Owner: "c-1", Limit: guardstore.Unlimited}).Status, silence)
		})
	}
}

// acquires sends a claim of the key k for a minute.
func acquires(t *testing.T, s *guardtest.Store, c guardstore.Claim) guardstore.ClaimReply {
	t.Helper()
	c.Key, c.TTL = "k", time.Minute
	r, err := s.Acquire(t.Context(), c)
	require.NoError(t, err)
	return r
}

// releases sends a release of the key k, which is not refused.
func releases(t *testing.T, s *guardtest.Store, r guardstore.Release) guardstore.ReleaseReply {
	t.Helper()
	r.Key = "k"
	reply, err := s.Release(t.Context(), r)
	require.NoError(t, err)
	return reply
}

// recorded returns the record of the key k.
func recorded(t *testing.T, s *guardtest.Store) guardstore.RecordID {
	t.Helper()
	id, err := s.Recorded(t.Context(), "k")
	require.NoError(t, err)
	return id
}

func TestStore_FailFailsEachCommand(t *testing.T) {
	t.Parallel()
	s, down := guardtest.NewStore(), errors.New("down")
	a := acquires(t, s, guardstore.Claim{Owner: "a-1", Once: &guardstore.Once{Keep: time.Hour}})
	s.Fail(down)
	_, acquire := s.Acquire(t.Context(), guardstore.Claim{Key: "k", Owner: "b-1", TTL: time.Minute})
	renew := s.Renew(t.Context(), []guardstore.Grant{{Key: "k", Owner: "a-1", Fence: a.Fence, TTL: time.Minute}})[0].Err
	_, release := s.Release(t.Context(), guardstore.Release{Key: "k", Owner: "a-1", Fence: a.Fence})
	_, recorded := s.Recorded(t.Context(), "k")
	_, forget := s.Forget(t.Context(), guardstore.Forget{Key: "k"})
	for _, err := range []error{acquire, renew, release, recorded, forget} {
		assert.Same(t, down, err)
	}
	assert.Equal(t, 1, s.Depth("k"))
}

// A release that is repeated, because its reply was lost, keeps the record for as long as the first one.
func TestStore_ARepeatedReleaseKeepsTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := guardtest.NewStore(), &guardstore.Once{Keep: time.Hour}
		a := acquires(t, s, guardstore.Claim{Owner: "a-1", Once: o})
		for range 2 {
			releases(t, s, guardstore.Release{Owner: "a-1", Fence: a.Fence, Record: &guardstore.Outcome{Once: *o, State: guardstore.RecordDone}})
			time.Sleep(40 * time.Minute)
		}
		assert.Equal(t, guardstore.ClaimRecorded, acquires(t, s, guardstore.Claim{Owner: "b-1", Once: o}).Status)
	})
}

// Work that began, and of which nothing was heard since, has begun for as long as its record is there.
func TestStore_AgeOfWorkThatBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := guardtest.NewStore(), &guardstore.Once{Keep: time.Hour, AtMostOnce: true}
		acquires(t, s, guardstore.Claim{Owner: "a-1", Once: o})
		time.Sleep(10 * time.Minute)
		assert.Equal(t, 10*time.Minute, acquires(t, s, guardstore.Claim{Owner: "b-1", Once: o}).Record.Age)
	})
}

// renews renews the hold of a-1, with its record if it has one, or without.
func renews(t *testing.T, s *guardtest.Store, fence uint64, ttl, keep time.Duration) {
	t.Helper()
	grant := guardstore.Grant{Key: "k", Owner: "a-1", Fence: fence, TTL: ttl, Depth: 1, Keep: keep}
	require.Equal(t, []guardstore.RenewReply{{Held: true}}, s.Renew(t.Context(), []guardstore.Grant{grant}))
}

// A record of work in progress outlives the lease by Keep, counted from the last renewal that has a ttl.
func TestStore_RenewalsOfARecord(t *testing.T) {
	for lives, renewal := range map[time.Duration]guardstore.Grant{
		time.Hour + 90*time.Second: {TTL: time.Minute, Keep: time.Hour}, time.Hour + time.Minute: {Keep: time.Hour},
		time.Hour + time.Minute - 1: {TTL: time.Minute}, // to the nanosecond
	} {
		synctest.Test(t, func(t *testing.T) {
			s := guardtest.NewStore()
			a := acquires(t, s, guardstore.Claim{Owner: "a-1", Once: &guardstore.Once{Keep: time.Hour}})
			time.Sleep(30 * time.Second)
			renews(t, s, a.Fence, renewal.TTL, renewal.Keep)
			time.Sleep(lives - 30*time.Second - time.Nanosecond)
			assert.Equal(t, guardstore.RecordBegun, recorded(t, s).State)
			time.Sleep(2 * time.Nanosecond)
			assert.Equal(t, guardstore.RecordNone, recorded(t, s).State)
		})
	}
}

// A holder whose record has elapsed writes the outcome all the same.
func TestStore_AnOutcomeWithoutARecord(t *testing.T) {
	for _, state := range []guardstore.RecordState{guardstore.RecordDone, guardstore.RecordNone} {
		synctest.Test(t, func(t *testing.T) {
			s, o := guardtest.NewStore(), guardstore.Once{Keep: time.Second}
			a := acquires(t, s, guardstore.Claim{Owner: "a-1", Once: &o})
			for range 3 {
				time.Sleep(30 * time.Second)
				renews(t, s, a.Fence, time.Minute, 0)
			}
			renews(t, s, a.Fence, time.Minute, time.Hour)
			releases(t, s, guardstore.Release{Owner: "a-1", Fence: a.Fence, Record: &guardstore.Outcome{Once: o, State: state}})
			want := guardstore.RecordID{State: state}
			if state == guardstore.RecordDone {
				want.Fence = a.Fence
			}
			assert.Equal(t, want, recorded(t, s))
		})
	}
}

func TestStore_ARecordIsNotShared(t *testing.T) {
	t.Parallel()
	s, o := guardtest.NewStore(), guardstore.Once{Keep: time.Hour}
	a := acquires(t, s, guardstore.Claim{Owner: "a-1", Once: &o})
	releases(t, s, guardstore.Release{Owner: "a-1", Fence: a.Fence, Record: &guardstore.Outcome{Once: o, State: guardstore.RecordDone, Result: []byte("paid")}})
	b := guardstore.Claim{Owner: "b-1", Once: &o}
	acquires(t, s, b).Record.Result[0] = 'x'
	assert.Equal(t, "paid", string(acquires(t, s, b).Record.Result))
}

func TestStore_AClaimWithOtherInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := guardtest.NewStore(), guardstore.Once{Keep: time.Hour, Fingerprint: "one"}
		a := acquires(t, s, guardstore.Claim{Owner: "a-1", Once: &o})
		time.Sleep(time.Second)
		other := acquires(t, s, guardstore.Claim{Owner: "b-1", Once: &guardstore.Once{Keep: time.Hour, Fingerprint: "other"}})
		assert.Equal(t, &guardstore.Record{State: guardstore.RecordOtherInput, Fence: a.Fence, Age: time.Second}, other.Record)
	})
}

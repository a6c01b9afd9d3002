package watchdog_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

const ttl = 30 * time.Second

var held = guardstore.RenewReply{Held: true}

// says has the store answer all renewals from now on alike.
func says(s *testenv.Script, r guardstore.RenewReply) {
	s.Change(func() { s.OnRenew = func(context.Context, int) guardstore.RenewReply { return r } })
}

// silence is a renewal that is not answered.
func silence(ctx context.Context, _ int) guardstore.RenewReply {
	<-ctx.Done()
	return guardstore.RenewReply{Err: ctx.Err()}
}

// after answers a renewal late.
func after(d time.Duration) func(context.Context, int) guardstore.RenewReply {
	return func(context.Context, int) guardstore.RenewReply {
		time.Sleep(d)
		return held
	}
}

// holder notes its losses and renewals, and when it lost its grant.
type holder struct {
	begun    time.Time
	mu       sync.Mutex
	causes   []error
	notified int // calls of ReportLoss
	lostAt   time.Duration
	renewed  []error
}

func (h *holder) Cancel(cause error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.causes = append(h.causes, cause)
	h.lostAt = time.Since(h.begun)
	return true
}

func (h *holder) ReportLoss() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notified++
}

func (h *holder) Renewed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renewed = append(h.renewed, err)
}

// watched runs a test on a watchdog in virtual time, whose store renews everything unless the test
// says otherwise.
func watched(t *testing.T, test func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, tasks := new(testenv.Script), task.NewGroup()
		w := watchdog.New(watchdog.Config{Store: s, Tasks: tasks, Awake: func(clock.Instant) {}})
		defer func() {
			w.Close()
			<-tasks.Close()
		}()
		test(t, w, s)
	})
}

// granted is a grant that is not watched yet.
func granted(w *watchdog.Watchdog, owner string, ttl time.Duration) *watchdog.Grant {
	c, r := guardstore.Claim{Key: "k", Owner: owner, TTL: ttl}, guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: 7}
	g := w.NewGrant(c, r, clock.Now(), false)
	g.SetDepth(1)
	return &g
}

// watch has a holder get a grant.
func watch(g *watchdog.Grant, maxHold time.Duration) *holder {
	h := &holder{begun: time.Now()}
	g.Watch(h, maxHold, "me")
	return h
}

// pass lets time go by, and what follows happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestWatchdog_AGrantIsRenewedEveryThirdOfItsTTL(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script) {
		g := granted(w, "o", ttl)
		h := watch(g, 0)
		g.SetDepth(2)
		pass(10 * ttl)
		assert.InDelta(t, 30, len(s.Renewals), 1)
		assert.Equal(t, guardstore.Grant{Key: "k", Owner: "o", Fence: 7, TTL: ttl, Depth: 2, Metadata: "me"}, s.Renewals[0])
		assert.Len(t, h.renewed, len(s.Renewals))
		require.NoError(t, g.Err())
		assert.Greater(t, g.Deadline(), clock.Now().Add(ttl/2))
		require.Len(t, w.All(), 1)

		require.NoError(t, g.Drop(h))
		asked := len(s.Renewals)
		pass(ttl)
		assert.Len(t, s.Renewals, asked, "nothing renews what was dropped")
		assert.Empty(t, h.causes)
		assert.Empty(t, w.All())
	})
}

// Something broke: all grants are renewed at once in one bundle, and the next bundle goes
// out a second later, however often something breaks.
func TestWatchdog_RenewAllIsOneBundleASecond(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script) {
		a, b, c := granted(w, "a", ttl), granted(w, "b", ttl), granted(w, "f", ttl)
		holders := []*holder{watch(a, 0), watch(b, 0), watch(c, 0)}
		for range 2 {
			w.RenewAll()
			pass(0)
			assert.Equal(t, []int{3}, s.Batches())
		}
		pass(1001 * time.Millisecond)
		assert.Equal(t, []int{3, 3}, s.Batches(), "the second break was after the first bundle")
		for range 2 {
			w.RenewAll()
			pass(350 * time.Millisecond)
			assert.Equal(t, []int{3, 3}, s.Batches())
		}
		pass(300 * time.Millisecond)
		assert.Equal(t, []int{3, 3, 3}, s.Batches(), "a second after the second bundle")
		pass(5 * time.Second)
		assert.Equal(t, []int{3, 3, 3}, s.Batches())
		for _, request := range s.Renewals {
			assert.Equal(t, ttl, request.TTL)
		}
		assert.Len(t, holders[0].renewed, 3)
		says(s, guardstore.RenewReply{})
		w.RenewAll()
		pass(0)
		for _, h := range holders {
			require.Len(t, h.causes, 1)
			require.ErrorIs(t, h.causes[0], watchdog.ErrNotHeld)
		}
	})
}

// A break while nothing is held delays no bundle.
func TestWatchdog_RenewAllOfNothing(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script) {
		w.RenewAll()
		h := watch(granted(w, "o", ttl), 0)
		w.RenewAll()
		pass(0)
		assert.Len(t, h.renewed, 1)
		w.EndAll(errors.New("enough"))
	})
}

// A bundle that has to wait for its second does not delay a renewal that is due before.
func TestWatchdog_RenewAllDelaysNoRenewal(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, _ *testenv.Script) {
		watch(granted(w, "o", ttl), 0)
		w.RenewAll()
		soon := watch(granted(w, "soon", 900*time.Millisecond), 0)
		w.RenewAll()
		pass(2 * time.Second)
		assert.Empty(t, soon.causes)
		w.EndAll(errors.New("enough"))
	})
}

// Locks that come and go do not wake the watchdog each, also not those that are gone before it looks.
func TestWatchdog_ShortHoldsDoNotWakeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks, tasks := 0, task.NewGroup()
		w := watchdog.New(watchdog.Config{Store: new(testenv.Script), Tasks: tasks, Awake: func(clock.Instant) { looks++ }})
		for range 1000 {
			g, h := granted(w, "o", ttl), &holder{}
			g.Watch(h, 0, "")
			pass(time.Millisecond)
			require.NoError(t, g.Drop(h))
		}
		assert.LessOrEqual(t, looks, 6, "four times a second, and at the beginning")
		pass(time.Second)
		looks = 0
		g, h := granted(w, "o", ttl), &holder{}
		for range 2 {
			g.Watch(h, 0, "")
			require.NoError(t, g.Drop(h))
			pass(0)
		}
		g.Watch(h, 0, "")
		pass(0)
		assert.Zero(t, looks, "the first hold was gone when it looked, and it is awake")
		require.NoError(t, g.Drop(h))
		w.Close()
		<-tasks.Close()
	})
}

// The deadline is before the key can expire, by a clock that runs 8.3 % too fast.
func TestWatchdog_AGrantEndsBeforeTheStoreLetsGo(t *testing.T) {
	down := guardstore.RenewReply{Err: errors.New("down")}
	for name, test := range map[string]struct {
		maxHold time.Duration
		reply   guardstore.RenewReply
		silent  bool
		cause   error
		text    string
		after   time.Duration
	}{
		"renewals fail":   {0, down, false, nil, "not renewed in time: down", ttl - ttl/10 - 2*time.Millisecond},
		"renewals hang":   {0, down, true, nil, "not renewed in time", ttl - ttl/10 - 2*time.Millisecond},
		"for so long":     {ttl / 2, guardstore.RenewReply{Held: true}, false, watchdog.ErrMaxHold, "", ttl / 2},
		"gone from there": {0, guardstore.RenewReply{}, false, watchdog.ErrNotHeld, "", ttl / 3},
		"revoked":         {0, guardstore.RenewReply{Revoked: true}, false, watchdog.ErrRevoked, "", ttl / 3},
	} {
		t.Run(name, func(t *testing.T) {
			watched(t, func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script) {
				says(s, test.reply)
				if test.silent {
					s.OnRenew = silence
				}
				g := granted(w, "o", ttl)
				h := watch(g, test.maxHold)
				pass(2 * ttl)
				require.Len(t, h.causes, 1)
				if test.cause != nil {
					require.ErrorIs(t, h.causes[0], test.cause)
				} else {
					require.ErrorContains(t, h.causes[0], test.text)
					require.NotErrorIs(t, h.causes[0], test.reply.Err, "a lost lease does not look like a failed call")
				}
				assert.LessOrEqual(t, h.lostAt, test.after)
				assert.GreaterOrEqual(t, h.lostAt, test.after-ttl/60, "renewals that are due soon go together")
				if test.maxHold == 0 {
					assert.Less(t, h.lostAt*1_083_333/1_000_000, ttl)
				}
				assert.Equal(t, h.causes[0], g.Err())
				says(s, guardstore.RenewReply{Held: true})
				pass(ttl)
				assert.Len(t, h.causes, 1, "it is told once")
				assert.Equal(t, 1, h.notified)
				g.EndAt(clock.Now().Add(ttl))
				assert.Equal(t, h.causes[0], g.Drop(h), "and never comes back")
			})
		})
	}
}

func TestWatchdog_EndNotifiesTheHolderOrTheNext(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script) {
		closed, denied := errors.New("closed"), errors.New("denied")
		g := granted(w, "o", ttl)
		h := watch(g, 0)
		g.End(closed)
		g.End(denied)
		assert.Equal(t, []error{closed}, h.causes)
		require.ErrorIs(t, g.Err(), closed)

		g = granted(w, "o", ttl)
		h = watch(g, 0)
		require.NoError(t, g.Drop(h))
		assert.Positive(t, g.Ended())
		g.End(denied)
		require.ErrorIs(t, g.Err(), denied)
		assert.Empty(t, h.causes)
		next := &holder{}
		g.Watch(next, 0, "next")
		assert.Equal(t, []error{denied}, next.causes)
		assert.Equal(t, 1, next.notified)

		h = watch(granted(w, "o", ttl), 0)
		other := watch(granted(w, "o", ttl), 0)
		w.EndAll(closed)
		assert.Equal(t, []error{closed}, h.causes)
		assert.Equal(t, []error{closed}, other.causes)
		pass(2 * ttl)
		assert.Empty(t, s.Batches(), "nothing renews what has ended")
		assert.Equal(t, 1, h.notified)
		assert.Equal(t, 1, next.notified, "nothing watches it")
	})
}

// The watchdog looks at the clock four times a second while anything is held: a timer stands still while the
// machine is suspended.
func TestWatchdog_ItIsAwakeWhileAnythingIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks []time.Duration
		begun, tasks := time.Now(), task.NewGroup()
		w := watchdog.New(watchdog.Config{Store: new(testenv.Script), Tasks: tasks, Awake: func(clock.Instant) {
			looks = append(looks, time.Since(begun))
		}})
		pass(time.Hour)
		assert.Empty(t, looks, "nothing is held")
		begun = time.Now()
		h := &holder{}
		g := granted(w, "o", time.Hour)
		g.Watch(h, 0, "")
		pass(time.Second)
		assert.Equal(t, []time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond, time.Second}, looks)
		require.NoError(t, g.Drop(h))
		pass(time.Hour)
		assert.Len(t, looks, 5)
		w.Close()
		<-tasks.Close()
	})
}

// blocked is an observer that does not return until it may.
type blocked struct {
	holder
	mayReturn chan struct{}
}

func (h *blocked) ReportLoss() { <-h.mayReturn }

func TestWatchdog_AnObserverThatBlocksDelaysNoOtherLoss(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, _ *testenv.Script) {
		h := &blocked{mayReturn: make(chan struct{})}
		defer close(h.mayReturn)
		granted(w, "first", ttl).Watch(h, time.Second, "")
		second := watch(granted(w, "second", ttl), 2*time.Second)
		pass(3 * time.Second)
		assert.Len(t, h.causes, 1)
		assert.Equal(t, 2*time.Second, second.lostAt)
	})
}

// After Close, a loss is announced on the goroutine that ends the work.
func TestWatchdog_EndAllNotifiesAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks := task.NewGroup()
		w := watchdog.New(watchdog.Config{Store: new(testenv.Script), Tasks: tasks, Awake: func(clock.Instant) {}})
		h := watch(granted(w, "o", ttl), 0)
		w.Close()
		<-tasks.Close()
		w.EndAll(errors.New("closed"))
		assert.Equal(t, 1, h.notified)
	})
}

// Several have a grant at the same time. It is renewed until the last of them drops it, and its loss is
// announced to each holder that has not left, and to the next one.
func TestWatchdog_AGrantOfSeveral(t *testing.T) {
	watched(t, func(t *testing.T, w *watchdog.Watchdog, s *testenv.Script) {
		g := granted(w, "o", ttl)
		first := watch(g, 0)
		second, third := &holder{}, &holder{}
		g.Watch(second, 0, "")
		g.Watch(third, 0, "")
		require.Len(t, w.All(), 3)
		require.NoError(t, g.Drop(first))
		assert.Zero(t, g.Ended())
		pass(ttl)
		assert.Empty(t, first.renewed)
		assert.NotEmpty(t, second.renewed)
		assert.Equal(t, second.renewed, third.renewed)

		says(s, guardstore.RenewReply{})
		pass(ttl)
		late := &holder{}
		g.Watch(late, 0, "")
		for _, h := range []*holder{second, third, late} {
			assert.Equal(t, []error{watchdog.ErrNotHeld}, h.causes)
		}
		assert.Empty(t, first.causes)
		assert.Empty(t, w.All())
		require.ErrorIs(t, g.Drop(third), watchdog.ErrNotHeld)
	})
}

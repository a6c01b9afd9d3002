package redisstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// mute is a memory store whose messages flow only if, and when, a test says so.
type mute struct {
	*guardtest.Store
	far   bool                         // every place in its queue is far from the front
	wakes chan guardstore.Notification // for the listener
	asks  chan time.Time               // when a claim asked
}

func (s *mute) Acquire(ctx context.Context, c guardstore.Claim) (guardstore.ClaimReply, error) {
	select {
	case s.asks <- time.Now():
	default:
	}
	r, err := s.Store.Acquire(ctx, c)
	if s.far && r.Status == guardstore.ClaimBusy {
		r.Ahead = 100
	}
	return r, err
}

func (s *mute) Listen(ctx context.Context, _ string, l guardstore.Listener) {
	for {
		select {
		case w := <-s.wakes:
			l.Notify(w)
		case <-ctx.Done():
			return
		}
	}
}

func onMute(t *testing.T, test func(t *testing.T, g *guard.Guard, s *mute)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &mute{Store: guardtest.NewStore(), wakes: make(chan guardstore.Notification, 1), asks: make(chan time.Time, 100)}
		g, err := guard.NewWithStore(s, guard.StoreTimeout(10*time.Second))
		require.NoError(t, err)
		defer func() { require.NoError(t, g.Close()) }()
		test(t, g, s)
	})
}

var errMute = errors.New("NOPERM")

// A caller that may wait has the subscription opened first. It does so for no longer than
// it may wait, and together with others no longer than a second.
func TestSubscribe_NobodyWaitsLongForMessagesToFlow(t *testing.T) {
	for name, test := range map[string]struct {
		wait, want time.Duration
		says       *guardstore.Notification
	}{
		"forever":                {guard.Forever, time.Second, nil},
		"a minute":               {time.Minute, time.Second, nil},
		"shortly":                {50 * time.Millisecond, 50 * time.Millisecond, nil},
		"not at all":             {0, 0, nil},
		"they flow":              {time.Minute, 0, &guardstore.Notification{}},
		"they are refused":       {time.Minute, 0, &guardstore.Notification{Err: errMute}},
		"they are refused again": {50 * time.Millisecond, 0, &guardstore.Notification{Err: errMute}},
	} {
		t.Run(name, func(t *testing.T) {
			onMute(t, func(t *testing.T, g *guard.Guard, s *mute) {
				if test.says != nil {
					s.wakes <- *test.says
				}
				begun := time.Now()
				require.NoError(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.Wait(test.wait)))
				assert.Equal(t, test.want, time.Since(begun))
			})
		})
	}
}

// Callers of many keys come one after the other, while it is not known yet whether messages
// flow. All of them wait for it until the same moment, and nobody after that.
func TestSubscribe_WaitingForMessagesIsSharedByAll(t *testing.T) {
	onMute(t, func(t *testing.T, g *guard.Guard, _ *mute) {
		begun := time.Now()
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				came := time.Now()
				require.NoError(t, g.WithLock(t.Context(), guard.Keyf("k%d", i), testenv.Nothing, guard.Wait(50*time.Millisecond)))
				assert.Equal(t, min(50*time.Millisecond, max(begun.Add(time.Second).Sub(came), 0)), time.Since(came))
			})
		}
		all.Wait()
	})
}

// The end of a context, and of the Guard, end that wait, too.
func TestSubscribe_WaitingForMessagesEnds(t *testing.T) {
	onMute(t, func(t *testing.T, g *guard.Guard, _ *mute) {
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, g.WithLock(ctx, testenv.Order, testenv.Nothing), context.DeadlineExceeded)
		assert.Equal(t, 20*time.Millisecond, time.Since(begun))
		acquired := make(chan error, 1)
		go func() { acquired <- g.WithLock(t.Context(), testenv.Order, testenv.Nothing) }()
		synctest.Wait()
		require.NoError(t, g.Close())
		require.ErrorIs(t, <-acquired, guard.ErrClosed)
		assert.Equal(t, 20*time.Millisecond, time.Since(begun))
	})
}

// A claim far back in the queue asks every ten seconds or more while messages flow. It
// asks each second once it is known that they do not, also if they did before.
func TestSubscribe_ClaimsAskMoreOftenWhereNoMessagesFlow(t *testing.T) {
	onMute(t, func(t *testing.T, g *guard.Guard, s *mute) {
		held, err := s.Store.Acquire(t.Context(), guardstore.Claim{Key: "order:42", Owner: "other-1", TTL: 24 * time.Hour})
		require.NoError(t, err)
		require.Equal(t, guardstore.ClaimHeld, held.Status)
		s.far = true
		s.wakes <- guardstore.Notification{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- g.WithLock(ctx, testenv.Order, testenv.Nothing) }()
		asks := func(during time.Duration) int {
			for len(s.asks) > 0 {
				<-s.asks
			}
			time.Sleep(during)
			synctest.Wait()
			return len(s.asks)
		}
		time.Sleep(time.Minute) // it is wary at first
		assert.LessOrEqual(t, asks(time.Minute), 6)
		s.wakes <- guardstore.Notification{Err: errMute}
		synctest.Wait()
		assert.GreaterOrEqual(t, asks(time.Minute), 55)
		s.wakes <- guardstore.Notification{}
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, asks(time.Minute), 6)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

// ear is a Listener that keeps what it is told.
type ear struct{ told chan guardstore.Notification }

func (e ear) Notify(w guardstore.Notification) { e.told <- w }
func (e ear) Waiting() bool                    { return true }

// listening listens on a store until t ends.
func listening(t *testing.T, s guardstore.Store) ear {
	t.Helper()
	e := ear{make(chan guardstore.Notification, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	var listens sync.WaitGroup
	listens.Go(func() { s.Listen(ctx, "instance", e) })
	t.Cleanup(listens.Wait)
	t.Cleanup(cancel)
	return e
}

func (e ear) next(t *testing.T) guardstore.Notification {
	t.Helper()
	select {
	case w := <-e.told:
		return w
	case <-time.After(testenv.Patience):
		require.FailNow(t, "told nothing")
		panic("not reached")
	}
}

// mutes are the rights to hear messages that may be missing, and how to give them.
var mutes = map[string]struct{ without, with []string }{
	"no channel":   {[]string{"~*", "resetchannels", "+@all"}, []string{"&*"}},
	"no subscribe": {[]string{"~*", "&*", "+@all", "-subscribe"}, []string{"+subscribe"}},
}

// Redis refuses the subscription: that is told at once, and is tried again. A right that is
// given later is noticed.
func TestSubscribe_ARefusedSubscriptionIsTold(t *testing.T) {
	t.Parallel()
	for name, rights := range mutes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			admin := s.Client(t)
			allow := func(rights ...string) {
				args := []any{"acl", "setuser", "limited", "on", ">pw"}
				for _, right := range rights {
					args = append(args, right)
				}
				require.NoError(t, admin.Do(t.Context(), args...).Err())
			}
			allow(rights.without...)
			login := func(o *redis.Options) { o.Username, o.Password = "limited", "pw" }
			e := listening(t, testenv.RedisStore(t, s.Client(t, login), "guard"))
			assert.ErrorContains(t, e.next(t).Err, "NOPERM")

			// Callers get their locks all the same.
			g := testenv.GuardOn(t, s.Client(t, login))
			require.NoError(t, g.WithLock(t.Context(), guard.Key("k"), testenv.Nothing, guard.Wait(50*time.Millisecond)))

			allow(rights.with...)
			testenv.Eventually(t, func() bool { return e.next(t) == guardstore.Notification{} }, "the right is not noticed")
		})
	}
}

// Two servers of three refuse the subscription. The third one tells who is to ask: no
// refusal is told.
func TestSubscribe_MessagesOfAQuorumFlowAsLongAsThoseOfOneServer(t *testing.T) {
	t.Parallel()
	type server struct {
		admin *redis.Client
		mute  bool
	}
	refusals := func(s server) (n int64) {
		entries, err := s.admin.ACLLog(t.Context(), 10).Result()
		require.NoError(t, err)
		for _, e := range entries {
			if e.Username == "limited" && e.Reason == "channel" {
				n += e.Count
			}
		}
		return n
	}
	for name, speaking := range map[string]int{"one speaks": 1, "none does": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var clients []redis.UniversalClient
			var servers []server
			for i := range 3 {
				s, rights := redistest.Start(t), mutes["no channel"].without
				if i == speaking {
					rights = []string{"~*", "&*", "+@all"}
				}
				admin := s.Client(t)
				args := []any{"acl", "setuser", "limited", "on", ">pw"}
				for _, right := range rights {
					args = append(args, right)
				}
				require.NoError(t, admin.Do(t.Context(), args...).Err())
				servers = append(servers, server{admin, i != speaking})
				clients = append(clients, s.Client(t, func(o *redis.Options) { o.Username, o.Password = "limited", "pw" }))
			}
			e := listening(t, testenv.QuorumStore(t, clients))
			if speaking < 0 {
				assert.ErrorContains(t, e.next(t).Err, "NOPERM")
				return
			}
			assert.Equal(t, guardstore.Notification{}, e.next(t))
			for _, s := range servers { // the second time, the first one was told, or not
				testenv.Eventually(t, func() bool { return !s.mute || refusals(s) > 1 }, "not tried again")
			}
			for len(e.told) > 0 {
				assert.NoError(t, (<-e.told).Err)
			}
		})
	}
}

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
	wakes chan guardstore.Notification // for the listener
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
		s := &mute{Store: guardtest.NewStore(), wakes: make(chan guardstore.Notification, 1)}
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

// listener keeps its notifications.
type listener struct{ received chan guardstore.Notification }

func (e listener) Notify(w guardstore.Notification) { e.received <- w }
func (e listener) Waiting() bool                    { return true }

// listening listens on a store until t ends.
func listening(t *testing.T, s guardstore.Store) listener {
	t.Helper()
	e := listener{make(chan guardstore.Notification, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	var listens sync.WaitGroup
	listens.Go(func() { s.Listen(ctx, "instance", e) })
	t.Cleanup(listens.Wait)
	t.Cleanup(cancel)
	return e
}

func (e listener) next(t *testing.T) guardstore.Notification {
	t.Helper()
	select {
	case w := <-e.received:
		return w
	case <-time.After(testenv.Patience):
		require.FailNow(t, "no notification")
		panic("not reached")
	}
}

// mutes are the rights to hear messages that may be missing, and how to give them.
var mutes = map[string]struct{ without, with []string }{
	"no channel":   {[]string{"~*", "resetchannels", "+@all"}, []string{"&*"}},
	"no subscribe": {[]string{"~*", "&*", "+@all", "-subscribe"}, []string{"+subscribe"}},
}

// Redis refuses the subscription: the Listener learns so at once, and the store tries again. A right that is
// given later is noticed.
func TestSubscribe_ARefusedSubscriptionIsReported(t *testing.T) {
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
			refused := 0
			testenv.Eventually(t, func() bool {
				n := e.next(t)
				if n.Err != nil {
					refused++
				}
				return n == guardstore.Notification{}
			}, "the right is not noticed")
			assert.LessOrEqual(t, refused, 1, "it rests between tries")
		})
	}
}

// No message comes any more over a connection that stays open. The subscription is replaced, and the
// Listener learns that messages flow when Redis has the new one, not before.
func TestSubscribe_ASilentSubscriptionIsReplaced(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy, direct := redistest.NewProxy(t, s.Addr()), s.Client(t)
	e := listening(t, testenv.RedisStore(t, proxy.Client(t), "guard"))
	require.Equal(t, guardstore.Notification{}, e.next(t))
	proxy.HalfOpen() // Redis goes on to believe in the old subscription
	assert.Equal(t, guardstore.Notification{}, e.next(t))
	const channel = "guard:grant:instance"
	assert.Equal(t, int64(2), direct.PubSubNumSub(t.Context(), channel).Val()[channel])
}

package redisstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

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
			e := listening(t, testenv.RedisStore(t, s.Client(t, login), "redlatch"))
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

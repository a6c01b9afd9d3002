package redisconn_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// In the tests of this file Redis does not answer at all.

// silences make Redis silent until end is called.
var silences = map[string]func(r *testenv.Env, d *dialer) (end func()){
	"the network is frozen": func(r *testenv.Env, _ *dialer) func() {
		r.Proxy.Freeze()
		return r.Proxy.Thaw
	},
	"nothing answers a dial": func(r *testenv.Env, d *dialer) func() {
		hole := make(chan struct{})
		d.hole.Store(&hole)
		r.Proxy.Cut()
		return func() {
			r.Proxy.Heal()
			d.hole.Store(nil)
			close(hole)
		}
	},
}

// Every kind of call is under way, or begins, when Redis falls silent, and its context is canceled. A caller that waits for
// the lock returns at once, any other at the end of its attempt. Then Redis answers again: what the calls took is given back.
func TestSilent_ACallerThatLeavesASilentRedis(t *testing.T) {
	const leavingTime = 100 * time.Millisecond // how long a call may take to return once its context has ended
	for name, silence := range silences {
		t.Run(name, func(t *testing.T) {
			r, d := newEnvWithDialer(t, redistest.Start(t), guard.StoreTimeout(2*testenv.Patience), guard.TTL(3*testenv.Patience))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			hold := func(key string) *guard.Lease {
				l, err := r.Acquire(t.Context(), guard.Key(key))
				require.NoError(t, err)
				return l
			}
			busy, entered, released := hold("busy"), hold("entered"), hold("released")
			working, end := make(chan struct{}), make(chan struct{})
			calls := map[string]func() error{
				"acquire": func() error { _, err := r.Acquire(ctx, guard.Key("acquired")); return err },
				"with lock": func() error {
					return r.WithLock(ctx, guard.Key("with lock"), func(context.Context) error { panic("ran") })
				},
				"wait": func() error {
					return r.WithLock(ctx, guard.Key("busy"), func(context.Context) error { panic("ran") })
				},
				"enter": func() error {
					<-end
					inner, cancel := context.WithCancel(entered.Context())
					defer context.AfterFunc(ctx, cancel)()
					return r.WithLock(inner, guard.Key("entered"), func(context.Context) error { panic("ran") })
				},
				"release": func() error { <-end; return released.Release(ctx) },
				"end of work": func() error {
					return r.WithLock(ctx, guard.Key("worked"), func(ctx context.Context) error {
						close(working)
						<-ctx.Done()
						return ctx.Err()
					})
				},
			}
			returned := make(map[string]func(*testing.T) error, len(calls))
			start := func(names ...string) {
				for _, name := range names {
					returned[name] = testenv.InBackground(calls[name])
				}
			}
			waits := r.Proxy.SwallowReply(testenv.RunsScript(t, "acquire"), 1)
			start("wait", "enter", "release", "end of work")
			testenv.Await(t, waits, working)
			speak := silence(r, d)
			defer func() { speak() }()
			close(end)
			start("acquire", "with lock")
			time.Sleep(leavingTime) // for them to be stuck: no signal says when that is
			cancel()
			atOnce, soon := testenv.Within(t, leavingTime), testenv.Within(t, leavingTime+time.Second+250*time.Millisecond)
			require.ErrorIs(t, returned["wait"](t), context.Canceled)
			atOnce()
			for name, err := range returned {
				if name != "wait" {
					assert.ErrorIs(t, err(t), context.Canceled, name)
				}
			}
			soon() // after an attempt, and the grace of a release
			speak()
			speak = func() {}
			for _, key := range []string{"released", "worked"} {
				r.Gone(t, key) // long before its ttl
			}
			for _, key := range []string{"acquired", "with lock"} {
				r.Tombstones(t, key, 1) // before it arrived or after
				r.Gone(t, key)
			}
			require.NoError(t, busy.Release(t.Context()))
			require.NoError(t, entered.Release(t.Context()))
			assert.Zero(t, r.Locks(t))
		})
	}
}

// The user's own commands occupy each connection of the client for a long time. Leases
// are renewed and released all the same.
func TestSilent_RenewalsDoNotNeedTheUsersConnections(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := s.Client(t, func(o *redis.Options) { o.PoolSize = 20; o.PoolTimeout = 200 * time.Millisecond })
	r := testenv.NewOn(t, s, nil, client, guard.StoreTimeout(time.Second))
	var blocked sync.WaitGroup
	err := r.WithLock(t.Context(), guard.Key("a"), func(ctx context.Context) error {
		for range 20 {
			blocked.Go(func() { assert.NoError(t, client.BLPop(t.Context(), 0, "never").Err()) })
		}
		testenv.Eventually(t, func() bool { return r.Stat(t, "blocked_clients:") == 20 }, "not all block")
		require.ErrorContains(t, client.Ping(t.Context()).Err(), "pool timeout")
		r.Seen.More(t, guard.EventRenewal, 2)
		return ctx.Err()
	}, guard.TTL(time.Second))
	require.NoError(t, err)
	assert.Zero(t, r.Locks(t))
	require.NoError(t, r.Direct.RPush(t.Context(), "never", make([]any, 20)...).Err())
	blocked.Wait()
}

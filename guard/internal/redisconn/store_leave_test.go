package redisconn_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// A call of a Store on a Redis that does not answer returns at its deadline: a lone call, a call that waits for others' writes,
// a call of a quorum.
func TestStoreLeave_ACallOfASilentStoreEndsWithItsContext(t *testing.T) {
	held := guardstore.Grant{Key: "k", Owner: "a-1", Fence: 1, TTL: time.Minute}
	calls := map[string]func(ctx context.Context, s guardstore.Store) error{
		"acquire": func(ctx context.Context, s guardstore.Store) error {
			_, err := s.Acquire(ctx, guardstore.Claim{Key: "k", Owner: "a-1", TTL: time.Minute})
			return err
		},
		"confirm": func(ctx context.Context, s guardstore.Store) error {
			g := held
			g.TTL = 0
			return s.Renew(ctx, []guardstore.Grant{g})[0].Err
		},
		"renew": func(ctx context.Context, s guardstore.Store) error {
			return s.Renew(ctx, []guardstore.Grant{held})[0].Err
		},
		"release": func(ctx context.Context, s guardstore.Store) error {
			_, err := s.Release(ctx, guardstore.Release{Key: "k", Owner: "a-1", Fence: 1, TTL: time.Minute})
			return err
		},
	}
	for name, servers := range map[string]int{"one Redis": 1, "a quorum": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxies, clients := make([]*redistest.Proxy, servers), make([]redis.UniversalClient, servers)
			for i := range proxies {
				proxies[i] = redistest.NewProxy(t, redistest.Start(t).Addr())
				clients[i] = proxies[i].Client(t)
			}
			store := testenv.RedisStore(t, clients[0], "redlatch")
			if servers > 1 {
				store = testenv.QuorumStore(t, clients)
			}
			_, _ = store.Acquire(t.Context(), guardstore.Claim{Key: "other", Owner: "b-1", TTL: time.Second})
			for _, p := range proxies {
				p.Freeze()
				defer p.Thaw()
			}
			for name, call := range calls {
				const callers = 8                                                    // more than have a write of their own
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // before the store gives up itself
				errs := make(chan error, callers)
				for range callers {
					go func() { errs <- call(ctx, store) }()
				}
				inTime := testenv.Within(t, 20*time.Millisecond+leavingTime*2)
				for range callers {
					assert.Regexp(t, "i/o timeout|deadline exceeded", fmt.Sprint(<-errs), name)
				}
				inTime()
				cancel()
			}
		})
	}
}

package quorum_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/guard/quorum"
)

func TestQuorum_StoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			q := testenv.NewQuorumEnv(t, n)
			guardtest.TestStore(t, func(tb testing.TB) guardstore.Store {
				return q.Store(tb, quorum.Prefix("contract-"+tb.Name()))
			})
		})
	}
}

func TestQuorum_NewRefusesWhatIsNoQuorum(t *testing.T) {
	q := testenv.NewQuorumEnv(t, 3)
	one := q.Clients(t)
	for name, c := range map[string]struct {
		clients []redis.UniversalClient
		want    string
	}{
		"none":         {nil, "has 0 servers, a quorum needs 3 at least"},
		"two":          {one[:2], "has 2 servers, a quorum needs 3 at least"},
		"even":         {append(q.Clients(t), one[0]), "has 4 servers: an even number survives no more failures than 3 do"},
		"nil":          {[]redis.UniversalClient{one[0], nil, one[1]}, "has no client at index 1"},
		"a twin":       {[]redis.UniversalClient{one[0], one[1], q.Clients(t)[0]}, "leads to the same server at index 0 and 2"},
		"a nil client": {[]redis.UniversalClient{one[0], one[1], (*redis.Client)(nil)}, "has no client at index 2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := quorum.New(c.clients)
			var option *guard.OptionError
			require.ErrorAs(t, err, &option)
			assert.Contains(t, err.Error(), c.want)
		})
	}
	for _, prefix := range []string{"", "a{b", "a}b", "\xff"} {
		_, err := quorum.New(one, quorum.Prefix(prefix))
		require.ErrorIs(t, err, guard.ErrOption)
		require.ErrorContains(t, err, "guard: Prefix ")
	}
	s, err := quorum.New(one, nil, quorum.Prefix("mine"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "once more")
}

// exclusion is a critical section that notices a second one inside, and fences that do
// not grow.
type exclusion struct {
	tb     testing.TB
	inside atomic.Int32
	count  atomic.Int64
	mu     sync.Mutex
	fence  uint64
}

func (x *exclusion) work(ctx context.Context) error {
	if x.inside.Add(1) != 1 {
		x.tb.Error("two inside")
	}
	fence, _ := guard.Fence(ctx)
	x.mu.Lock()
	if fence <= x.fence {
		x.tb.Errorf("fence %d after %d", fence, x.fence)
	}
	x.fence = fence
	x.mu.Unlock()
	x.count.Add(1)
	x.inside.Add(-1)
	return nil
}

func TestQuorum_OneAtATime(t *testing.T) {
	q := testenv.NewQuorumEnv(t, 3)
	x := &exclusion{tb: t}
	var all sync.WaitGroup
	const guards, callers, turns = 3, 4, 10
	for range guards {
		g := q.Guard(t)
		for range callers {
			all.Go(func() {
				for range turns {
					assert.NoError(t, g.WithLock(t.Context(), guard.Key("order:42"), x.work))
				}
			})
		}
	}
	all.Wait()
	assert.EqualValues(t, guards*callers*turns, x.count.Load())
	assert.Eventually(t, func() bool { return q.Holders(t, "order:42") == 0 }, testenv.Patience, 10*time.Millisecond)
}

// What is there and is not understood is somebody's.
func TestQuorum_WhatIsNotUnderstoodIsBusyOnAQuorum(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(ctx context.Context, c redis.Cmdable, key string) error{
		"a hash": func(ctx context.Context, c redis.Cmdable, key string) error {
			return c.HSet(ctx, key, "somebody", 1).Err()
		},
		"a string": func(ctx context.Context, c redis.Cmdable, key string) error { return c.Set(ctx, key, "token", 0).Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var clients []redis.UniversalClient
			for range 3 {
				clients = append(clients, guardtest.NewRedis(t))
			}
			store := testenv.QuorumStore(t, clients)
			for i := range 2 {
				require.NoError(t, put(t.Context(), clients[i], testenv.LockOf("k")))
			}
			place := uint64(0)
			for range 3 {
				c := guardstore.Claim{Key: "k", Owner: "x-1", TTL: 10 * time.Second, Queue: true, Ticket: place}
				r, err := store.Acquire(t.Context(), c)
				require.NoError(t, err)
				require.Equal(t, guardstore.ClaimBusy, r.Status)
				require.Greater(t, r.Remaining, time.Hour)
				place = r.Ticket
			}
			require.NoError(t, clients[0].Del(t.Context(), testenv.LockOf("k")).Err())
			r, err := store.Acquire(t.Context(), guardstore.Claim{Key: "k", Owner: "x-2", TTL: 10 * time.Second})
			require.NoError(t, err)
			require.Equal(t, guardstore.ClaimHeld, r.Status)
		})
	}
}

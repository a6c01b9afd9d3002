package redisconn_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// Hundreds of callers of three Guards want hundreds of keys, most of them free, some held:
// what goes out together is of both kinds. One is in at a time, fences grow, and nothing is
// left.
func TestBatchLoad_ManyCallersOfManyKeys(t *testing.T) {
	t.Parallel()
	const callers, keys, rounds = 100, 150, 30 // callers of each Guard
	s := testenv.NewRedis(t)
	guards := []*guard.Guard{s.Guard(), s.Guard(guard.HandoverWindow(0)), s.Guard()}
	var all sync.WaitGroup
	for i, g := range guards {
		for c := range callers {
			rnd := rand.New(rand.NewPCG(uint64(i), uint64(c)))
			all.Go(func() {
				for range rounds {
					key := fmt.Sprint("k", rnd.IntN(keys))
					err := g.WithLock(t.Context(), guard.Key(key), func(ctx context.Context) error {
						s.Book.Enter(ctx, key, fmt.Sprintf("%d of %d", c, i))()
						return ctx.Err()
					})
					assert.NoError(t, err)
				}
			})
		}
	}
	all.Wait()
	assert.Len(t, s.Book.Entered(), len(guards)*callers*rounds)
	for i, g := range guards {
		s.Eventually(func() bool { return testenv.Remembered(g) == 0 }, "Guard %d forgets its keys and claims", i)
	}
	for k := range keys {
		key := fmt.Sprint("k", k)
		s.AwaitFree(key)
		assert.Zero(t, s.Admin.HLen(t.Context(), testenv.LockOf(key)+":seen").Val(), "seen in the queue of %s", key)
	}
}

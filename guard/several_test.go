package guard_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

const (
	severalForEnv = "REDLATCH_SEVERAL_FOR" // for how long (make several FOR=1m)
	severalKeys   = 6
)

func severalFor(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(severalForEnv)
	if text == "" {
		return 300 * time.Millisecond
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, severalForEnv)
	return d
}

// Callers of several Guards take 1 to 3 of 6 keys at once, in any order: each is served, and nobody
// is inside of a key beside another one.
func TestSeveral_KeysOfSeveralGuards(t *testing.T) {
	t.Parallel()
	patient := guard.StoreTimeout(30 * time.Second) // a busy machine is no outage
	for name, connect := range map[string]func(t *testing.T) (made func() *guard.Guard, left func(key string) bool){
		"one": func(t *testing.T) (func() *guard.Guard, func(string) bool) {
			s := redistest.Start(t)
			rdb := s.Client(t)
			return func() *guard.Guard { return testenv.GuardOn(t, s.Client(t), patient) }, func(key string) bool {
				lock := testenv.LockOf(key)
				return rdb.Exists(t.Context(), lock).Val()+rdb.ZCount(t.Context(), lock+":queue", "(0", "+inf").Val() > 0
			}
		},
		"cluster": func(t *testing.T) (func() *guard.Guard, func(string) bool) {
			c := redistest.StartCluster(t)
			primaries := map[*redistest.Server]bool{}
			for i := range severalKeys {
				primaries[c.Primary(fmt.Sprintf("{several:%d}", i))] = true
			}
			require.Greater(t, len(primaries), 1, "the keys are on several servers")
			rdb := c.Client(t)
			return func() *guard.Guard { return testenv.GuardOn(t, c.Client(t), patient) }, func(key string) bool {
				return rdb.Exists(t.Context(), testenv.LockOf(key)).Val() > 0
			}
		},
		"quorum": func(t *testing.T) (func() *guard.Guard, func(string) bool) {
			q := testenv.NewQuorumEnv(t, 3)
			return func() *guard.Guard { return q.Guard(t, patient) }, func(key string) bool { return q.Holders(t, key) > 0 }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made, left := connect(t)
			var inside [severalKeys]atomic.Int32
			var callers sync.WaitGroup
			end := time.Now().Add(severalFor(t))
			for range 3 {
				g := made()
				for range 12 {
					callers.Go(func() {
						for first := true; first || time.Now().Before(end); first = false {
							some := rand.Perm(severalKeys)[:1+rand.IntN(3)]
							var keys []guard.KeyFunc
							for _, i := range some {
								keys = append(keys, guard.Keyf("several:%d", i))
							}
							assert.NoError(t, g.WithLocks(t.Context(), keys, func(ctx context.Context) error {
								for _, i := range some {
									assert.EqualValues(t, 1, inside[i].Add(1), "two are inside of one key")
									_, held := guard.Held(ctx, fmt.Sprintf("several:%d", i))
									assert.True(t, held)
								}
								time.Sleep(time.Millisecond)
								for _, i := range some {
									inside[i].Add(-1)
								}
								return nil
							}, guard.Wait(2*time.Minute)))
						}
					})
				}
			}
			callers.Wait()
			for i := range severalKeys {
				key := fmt.Sprintf("several:%d", i)
				testenv.Eventually(t, func() bool { return !left(key) }, "left behind: "+key)
			}
		})
	}
}

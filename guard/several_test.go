package guard_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Callers of several Guards take 1 to 3 of 6 keys at once, in any order: each is served, and no caller
// is inside of a key beside another one. REDLATCH_SEVERAL_FOR says for how long (make several FOR=1m).
func TestSeveral_KeysOfSeveralGuards(t *testing.T) {
	t.Parallel()
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv("REDLATCH_SEVERAL_FOR"), "300ms"))
	require.NoError(t, err)
	patient := guard.StoreTimeout(30 * time.Second) // a busy machine is no outage
	keys := manyKeys(6)
	for name, connect := range map[string]func(t *testing.T) (made func() *guard.Guard, servers []redis.UniversalClient){
		"one": func(t *testing.T) (func() *guard.Guard, []redis.UniversalClient) {
			s := redistest.Start(t)
			return func() *guard.Guard { return testenv.GuardOn(t, s.Client(t), patient) }, []redis.UniversalClient{s.Client(t)}
		},
		"cluster": func(t *testing.T) (func() *guard.Guard, []redis.UniversalClient) {
			c := redistest.StartCluster(t)
			return func() *guard.Guard { return testenv.GuardOn(t, c.Client(t), patient) }, []redis.UniversalClient{c.Client(t)}
		},
		"quorum": func(t *testing.T) (func() *guard.Guard, []redis.UniversalClient) {
			q := testenv.NewQuorumEnv(t, 3)
			return func() *guard.Guard { return q.Guard(t, patient) }, q.Clients(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made, servers := connect(t)
			inside := make([]atomic.Int32, len(keys))
			var callers sync.WaitGroup
			end := time.Now().Add(lasts)
			for range 3 {
				g := made()
				for range 12 {
					callers.Go(func() {
						for first := true; first || time.Now().Before(end); first = false {
							some := rand.Perm(len(keys))[:1+rand.IntN(3)]
							var wanted []guard.KeyFunc
							for _, i := range some {
								wanted = append(wanted, keys[i])
							}
							assert.NoError(t, g.WithLocks(t.Context(), wanted, func(context.Context) error {
								for _, i := range some {
									assert.EqualValues(t, 1, inside[i].Add(1), "two are inside of one key")
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
			for i := range keys {
				lock := testenv.LockOf(fmt.Sprintf("key:%03d", i))
				for _, s := range servers {
					testenv.Eventually(t, func() bool { return s.Exists(t.Context(), lock).Val() == 0 }, "left behind: "+lock)
				}
			}
		})
	}
}

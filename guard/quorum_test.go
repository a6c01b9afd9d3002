package guard_test

import (
	"context"
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
	"github.com/redlatch/redlatch/internal/redistest"
)

// quorumRig is a number of servers, and Guards on them.
type quorumRig struct {
	servers []*redistest.Server
}

func newQuorumRig(tb testing.TB, n int) *quorumRig {
	tb.Helper()
	rig := &quorumRig{}
	for range n {
		rig.servers = append(rig.servers, redistest.Start(tb))
	}
	return rig
}

func (rig *quorumRig) clients(tb testing.TB) []redis.UniversalClient {
	tb.Helper()
	clients := make([]redis.UniversalClient, 0, len(rig.servers))
	for _, s := range rig.servers {
		clients = append(clients, s.Client(tb))
	}
	return clients
}

func (rig *quorumRig) guard(tb testing.TB, opts ...guard.Option) *guard.Guard {
	tb.Helper()
	g, err := guard.NewQuorum(rig.clients(tb), opts...)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = g.Close() })
	return g
}

// holders are the servers that say that a key is held.
func (rig *quorumRig) holders(tb testing.TB, key string) int {
	tb.Helper()
	n := 0
	for _, client := range rig.clients(tb) {
		exists, err := client.Exists(context.Background(), "guard:{"+key+"}").Result()
		if err == nil {
			n += int(exists)
		}
	}
	return n
}

func TestQuorumStoreKeepsTheContract(t *testing.T) {
	for _, n := range []int{3, 5} {
		rig := newQuorumRig(t, n)
		guardtest.TestStore(t, func(tb testing.TB) guardstore.Store {
			return guard.QuorumStore(tb, rig.clients(tb), "contract-"+tb.Name())
		})
	}
}

func TestNewQuorumRefusesWhatIsNone(t *testing.T) {
	rig := newQuorumRig(t, 3)
	one := rig.clients(t)
	for name, c := range map[string]struct {
		clients []redis.UniversalClient
		want    string
	}{
		"none":         {nil, "has 0 servers, a quorum needs 3 at least"},
		"two":          {one[:2], "has 2 servers, a quorum needs 3 at least"},
		"even":         {append(rig.clients(t), one[0]), "has 4 servers: an even number survives no more failures than 3 do"},
		"nil":          {[]redis.UniversalClient{one[0], nil, one[1]}, "has no client at index 1"},
		"a twin":       {[]redis.UniversalClient{one[0], one[1], rig.clients(t)[0]}, "leads to the same server at index 0 and 2"},
		"a nil client": {[]redis.UniversalClient{one[0], one[1], (*redis.Client)(nil)}, "has no client at index 2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := guard.NewQuorum(c.clients)
			var option *guard.OptionError
			require.ErrorAs(t, err, &option)
			assert.Contains(t, err.Error(), c.want)
		})
	}
	_, err := guard.New(one[0], guard.QuorumAll())
	require.ErrorContains(t, err, "QuorumAll")
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

func TestQuorumOneAtATime(t *testing.T) {
	rig := newQuorumRig(t, 3)
	x := &exclusion{tb: t}
	var all sync.WaitGroup
	const guards, callers, turns = 3, 4, 10
	for range guards {
		g := rig.guard(t)
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
	assert.Eventually(t, func() bool { return rig.holders(t, "order:42") == 0 }, 5*time.Second, 10*time.Millisecond)
}

package guard_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
)

// A release does not bury what the servers beyond the majority are about to answer: the
// tombstones would slow down whatever comes within the next minute.
func TestQuorumBuriesNothingInPeace(t *testing.T) {
	t.Parallel()
	rig := newQuorumRig(t, 5)
	g := rig.guard(t)
	for range 100 {
		require.NoError(t, g.WithLock(t.Context(), guard.Key("order:42"), nothing))
	}
	require.Eventually(t, func() bool { return rig.holders(t, "order:42") == 0 }, 5*time.Second, 10*time.Millisecond)
	for _, client := range rig.clients(t) {
		assert.Zero(t, client.Exists(t.Context(), "guard:{order:42}:queue").Val())
	}
}

// A server that is gone does not cost every cycle its dials.
func TestQuorumDialsADeadServerNowAndThen(t *testing.T) {
	t.Parallel()
	rig := newQuorumRig(t, 3)
	var dials atomic.Int64
	clients := rig.clients(t)
	clients[1] = rig.servers[1].Client(t, func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
	})
	g, err := guard.NewQuorum(clients)
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Close() })
	rig.servers[1].Kill()
	require.NoError(t, g.WithLock(t.Context(), guard.Key("order:42"), nothing))
	before, begun := dials.Load(), time.Now()
	const cycles = 200
	for range cycles {
		require.NoError(t, g.WithLock(t.Context(), guard.Key("order:42"), nothing))
	}
	// What is owed is asked for on top, and calls at the same time do not know of each other.
	assert.LessOrEqual(t, dials.Load()-before, 10+3*int64(time.Since(begun)/(20*time.Millisecond)))
}

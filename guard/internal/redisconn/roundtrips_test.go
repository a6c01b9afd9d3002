package redisconn_test

import (
	"context"
	"io"
	"net"
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

// oneWay is how long everything takes from a client to Redis, and back.
const oneWay = 10 * time.Millisecond

// farClient is a client of the shared Redis, from far away.
func farClient(t *testing.T) *redis.Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var open sync.WaitGroup
	t.Cleanup(open.Wait) // runs after the client, and all of a Guard's, are closed
	t.Cleanup(func() { _ = listener.Close() })
	server := redistest.Shared(t)
	open.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server.Addr())
			if err != nil {
				_ = near.Close()
				continue
			}
			open.Go(func() { delay(far, near) })
			open.Go(func() { delay(near, far) })
		}
	})
	client := redis.NewClient(&redis.Options{Addr: listener.Addr().String()})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// delay copies, late, whatever arrives, without keeping back what arrives meanwhile.
func delay(to io.WriteCloser, from io.ReadCloser) {
	type piece struct {
		due   time.Time
		bytes []byte
	}
	pieces := make(chan piece, 10000)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(pieces)
		for {
			buffer := make([]byte, 4096)
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			pieces <- piece{time.Now().Add(oneWay), buffer[:n]}
		}
	})
	for p := range pieces {
		time.Sleep(time.Until(p.due)) // this is what is tested
		if _, err := to.Write(p.bytes); err != nil {
			break
		}
	}
	_, _ = to.Close(), from.Close()
	reading.Wait()
}

// fewest gives the fewest round trips that any of some tries took: noise only adds. It goes on
// while that is too many.
func fewest(once func() time.Duration, roundTrip time.Duration, most float64) float64 {
	best, begun := float64(once())/float64(roundTrip), time.Now()
	for n := 1; n < 5 || best > most && time.Since(begun) < testenv.Patience; n++ {
		best = min(best, float64(once())/float64(roundTrip))
	}
	return best
}

// roundTrips is fewest for what takes two.
func roundTrips(t *testing.T, once func() time.Duration) float64 {
	t.Helper()
	n := fewest(once, 2*oneWay, mostTrips)
	t.Logf("%.2f round trips", n)
	return n
}

const mostTrips = 2.9

func TestRoundTrips_AnUncontendedCycleIsTwoRoundTrips(t *testing.T) {
	t.Parallel()
	g := testenv.GuardOn(t, farClient(t))
	n := roundTrips(t, func() time.Duration {
		begun := time.Now()
		require.NoError(t, g.WithLock(t.Context(), guard.Key("roundtrips:cycle"), testenv.Nothing))
		return time.Since(begun)
	})
	assert.GreaterOrEqual(t, n, 2.0, "the delay is in front of something else")
	assert.Less(t, n, mostTrips)
}

func TestRoundTrips_ANestedWithLockIsTwoRoundTrips(t *testing.T) {
	t.Parallel()
	g := testenv.GuardOn(t, farClient(t))
	err := g.WithLock(t.Context(), guard.Key("roundtrips:nested"), func(ctx context.Context) error {
		n := roundTrips(t, func() time.Duration {
			begun := time.Now()
			require.NoError(t, g.WithLock(ctx, guard.Key("roundtrips:nested"), testenv.Nothing))
			return time.Since(begun)
		})
		assert.GreaterOrEqual(t, n, 2.0)
		assert.Less(t, n, mostTrips)
		return ctx.Err()
	})
	require.NoError(t, err)
}

// A release, the message to the next in the queue, and its confirmation.
func TestRoundTrips_AHandoverBetweenProcessesIsTwoRoundTrips(t *testing.T) {
	t.Parallel()
	a, b := testenv.GuardOn(t, farClient(t)), testenv.GuardOn(t, farClient(t))
	direct := redistest.Shared(t).Client(t)
	key := "roundtrips:handover"
	n := roundTrips(t, func() time.Duration {
		held, err := a.Acquire(t.Context(), guard.Key(key))
		require.NoError(t, err)
		type taken struct {
			at    time.Time
			lease *guard.Lease
			err   error
		}
		next := testenv.InBackground(func() taken {
			l, err := b.Acquire(t.Context(), guard.Key(key))
			return taken{time.Now(), l, err}
		})
		testenv.Eventually(t, func() bool {
			return direct.ZCount(t.Context(), testenv.LockOf(key)+":queue", "(0", "+inf").Val() == 1
		}, "nobody waits")
		begun := time.Now()
		require.NoError(t, held.Release(t.Context()))
		got := next(t)
		require.NoError(t, got.err)
		require.NoError(t, got.lease.Release(t.Context()))
		return got.at.Sub(begun)
	})
	assert.GreaterOrEqual(t, n, 2.0)
	assert.Less(t, n, mostTrips)
}

package main

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
)

// BenchmarkRedis measures what docs/operate/capacity.md calculates with: the CPU of redis-server for a renewal, and
// its memory for a held lock, with the connections of the processes.
func BenchmarkRedis(b *testing.B) {
	for _, load := range []struct {
		processes, locks int
		ttl              time.Duration
	}{{1, 10_000, 1500 * time.Millisecond}, {200, 1, 300 * time.Millisecond}} {
		b.Run(fmt.Sprintf("processes=%d/locks=%d", load.processes, load.locks), func(b *testing.B) {
			server := redistest.Start(b)
			client := server.Client(b)
			before := info(b, client)
			for p := range load.processes {
				g, err := guard.New(server.Client(b), guard.TTL(load.ttl))
				require.NoError(b, err)
				b.Cleanup(func() { require.NoError(b, g.Close()) })
				require.NoError(b, each(load.locks, func(i int) error {
					_, err := g.Acquire(b.Context(), guard.Keyf("held:%d:%d", p, i))
					return err
				}))
			}
			held := info(b, client)
			for b.Loop() {
				time.Sleep(time.Second)
			}
			after := info(b, client)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64((after.cpu-held.cpu).Microseconds())/float64(after.renewals-held.renewals), "µs/renewal")
			b.ReportMetric(float64(held.memory-before.memory)/float64(load.processes*load.locks), "B/lock")
		})
	}
}

type usage struct {
	cpu              time.Duration
	renewals, memory int64
}

func info(b *testing.B, client *redis.Client) usage {
	b.Helper()
	s, err := readStats(b.Context(), client)
	require.NoError(b, err)
	memory, err := client.InfoMap(b.Context(), "memory").Result()
	require.NoError(b, err)
	bytes, err := strconv.ParseInt(memory["Memory"]["used_memory"], 10, 64)
	require.NoError(b, err)
	return usage{s.cpu, s.calls["pexpireat"], bytes}
}

package guard_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/internal/redistest"
)

// benchGuards runs a benchmark on the store in memory, which shows what the Guard itself costs, and on a real Redis.
func benchGuards(b *testing.B, run func(b *testing.B, g *guard.Guard), opts ...guard.Option) {
	for name, made := range map[string]func(b *testing.B) (*guard.Guard, error){
		"store=memory": func(*testing.B) (*guard.Guard, error) { return guard.NewWithStore(guardtest.NewStore(), opts...) },
		"store=redis":  func(b *testing.B) (*guard.Guard, error) { return guard.New(redistest.Shared(b).Client(b), opts...) },
	} {
		b.Run(name, func(b *testing.B) {
			g, err := made(b)
			require.NoError(b, err)
			b.Cleanup(func() { _ = g.Close() })
			b.ReportAllocs()
			run(b, g)
		})
	}
}

// One caller, one key that no other caller wants: two round trips to Redis.
func BenchmarkWithLock(b *testing.B) {
	benchGuards(b, func(b *testing.B, g *guard.Guard) {
		for b.Loop() {
			if err := g.WithLock(b.Context(), k, nothing); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Many callers of one Guard want one key, which passes from caller to caller.
func BenchmarkHandover(b *testing.B) {
	benchCallers(b, func(int64) guard.KeyFunc { return k }, guard.HandoverWindow(time.Minute))
}

// Many callers of one Guard have a key each. The time is the whole time divided by the number of holds.
func BenchmarkDistinctKeys(b *testing.B) {
	benchCallers(b, func(caller int64) guard.KeyFunc { return guard.Key(fmt.Sprint("bench:", caller)) })
}

func benchCallers(b *testing.B, keyOf func(caller int64) guard.KeyFunc, opts ...guard.Option) {
	benchGuards(b, func(b *testing.B, g *guard.Guard) {
		var callers atomic.Int64
		b.SetParallelism((512 + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
		b.RunParallel(func(pb *testing.PB) {
			key := keyOf(callers.Add(1))
			for pb.Next() {
				if err := g.WithLock(context.Background(), key, nothing); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}, opts...)
}

package guard_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

const benchCallers = 512

// benchGuards runs a benchmark on the store in memory, which shows what the Guard itself
// costs, and on a real Redis.
func benchGuards(b *testing.B, run func(b *testing.B, g *guard.Guard), opts ...guard.Option) {
	benchPairs(b, func(b *testing.B, g, _ *guard.Guard) { run(b, g) }, opts...)
}

// benchPairs is benchGuards for what takes two Guards on one store.
func benchPairs(b *testing.B, run func(b *testing.B, g, other *guard.Guard), opts ...guard.Option) {
	made := func(b *testing.B, g *guard.Guard, err error) *guard.Guard {
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = g.Close() })
		return g
	}
	b.Run("store=memory", func(b *testing.B) {
		store := guardtest.NewStore()
		newGuard := func() *guard.Guard {
			g, err := guard.NewWithStore(store, opts...)
			return made(b, g, err)
		}
		run(b, newGuard(), newGuard())
	})
	b.Run("store=redis", func(b *testing.B) {
		newGuard := func() *guard.Guard {
			g, err := guard.New(redistest.Shared(b).Client(b), opts...)
			return made(b, g, err)
		}
		run(b, newGuard(), newGuard())
	})
}

// bareCalls sends two scripts, and nothing else, on the user's client: what a WithLock on
// Redis cannot be cheaper than. They are those of a lock that nobody else wants, or do
// nothing.
type bareCalls struct {
	client           *redis.Client
	acquire, release string
	owners           atomic.Int64
}

func newBareCalls(b *testing.B, acquire, release string) *bareCalls {
	b.Helper()
	s := &bareCalls{client: redistest.Shared(b).Client(b)}
	var err error
	if s.acquire, err = s.client.ScriptLoad(b.Context(), acquire).Result(); err != nil {
		b.Fatal(err)
	}
	if s.release, err = s.client.ScriptLoad(b.Context(), release).Result(); err != nil {
		b.Fatal(err)
	}
	return s
}

func (s *bareCalls) lockAndRelease(ctx context.Context, keys []string) error {
	owner := "bench-" + strconv.FormatInt(s.owners.Add(1), 36)
	if err := s.client.EvalSha(ctx, s.acquire, keys, owner, 30000, "", "0", "", "1guard:grant:", "").Err(); err != nil {
		return err
	}
	return s.client.EvalSha(ctx, s.release, keys, owner, 30000, "1", "0", "0", "1guard:grant:").Err()
}

func benchKeys(key string) []string {
	lock := "guard:{" + key + "}"
	return []string{lock, lock + ":queue", lock + ":last", lock + ":seen", lock + ":holders"}
}

func benchBare(b *testing.B, run func(b *testing.B, s *bareCalls)) {
	b.Run("bare=scripts", func(b *testing.B) {
		run(b, newBareCalls(b, redisstore.Scripts()["acquire"], redisstore.Scripts()["release"]))
	})
	b.Run("bare=nothing", func(b *testing.B) { run(b, newBareCalls(b, "return 1", "return 2")) })
}

// One caller, one key that nobody else wants: two round trips to Redis. Each is made on a
// goroutine of its own if the caller's context can end, so that the caller can leave.
func BenchmarkWithLock(b *testing.B) {
	for _, c := range []struct {
		name string
		ctx  context.Context
	}{{"ctx=endless", context.Background()}, {"ctx=ends", b.Context()}} {
		b.Run(c.name, func(b *testing.B) {
			benchGuards(b, func(b *testing.B, g *guard.Guard) {
				key := guard.Key("bench")
				b.ReportAllocs()
				for b.Loop() {
					if err := g.WithLock(c.ctx, key, testenv.Nothing); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
	benchBare(b, func(b *testing.B, s *bareCalls) {
		keys := benchKeys("bench")
		b.ReportAllocs()
		for b.Loop() {
			if err := s.lockAndRelease(b.Context(), keys); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A key that the context holds: one round trip in, one out.
func BenchmarkReentry(b *testing.B) {
	benchGuards(b, func(b *testing.B, g *guard.Guard) {
		key := guard.Key("bench")
		err := g.WithLock(b.Context(), key, func(ctx context.Context) error {
			b.ReportAllocs()
			for b.Loop() {
				if err := g.WithLock(ctx, key, testenv.Nothing); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	})
}

// Many callers of one Guard want one key, which passes from caller to caller: hardly a hold is
// heard of in the store.
func BenchmarkHandover(b *testing.B) {
	benchGuards(b, func(b *testing.B, g *guard.Guard) {
		key := guard.Key("bench")
		manyCallers(b, func(ctx context.Context, _ int64) func() error {
			return func() error { return g.WithLock(ctx, key, testenv.Nothing) }
		})
	}, guard.HandoverWindow(time.Minute))
}

// Many callers of two Guards want one key, which goes through the store's queue each time: a
// release, a message and a confirmation.
func BenchmarkQueued(b *testing.B) {
	benchPairs(b, func(b *testing.B, g, other *guard.Guard) {
		key := guard.Key("bench")
		manyCallers(b, func(ctx context.Context, caller int64) func() error {
			mine := g
			if caller%2 == 0 {
				mine = other
			}
			return func() error { return mine.WithLock(ctx, key, testenv.Nothing) }
		})
	}, guard.HandoverWindow(0))
}

// Many callers at once, each with a key of its own: what they share is the Guard and the
// client. The time is that of the whole divided by the number of holds.
func BenchmarkDistinctKeys(b *testing.B) {
	benchGuards(b, func(b *testing.B, g *guard.Guard) {
		manyCallers(b, func(ctx context.Context, caller int64) func() error {
			key := guard.Key(fmt.Sprintf("bench:%d", caller))
			return func() error { return g.WithLock(ctx, key, testenv.Nothing) }
		})
	})
	benchBare(b, func(b *testing.B, s *bareCalls) {
		manyCallers(b, func(ctx context.Context, caller int64) func() error {
			keys := benchKeys(fmt.Sprintf("bench:%d", caller))
			return func() error { return s.lockAndRelease(ctx, keys) }
		})
	})
}

func manyCallers(b *testing.B, newCaller func(ctx context.Context, caller int64) func() error) {
	b.Helper()
	var callers atomic.Int64
	b.SetParallelism((benchCallers + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		call := newCaller(b.Context(), callers.Add(1))
		for pb.Next() {
			if err := call(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

package guard_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Where the time of a free cycle goes, for few callers with a key each: every rung does more than the one before it.
// They take turns, and the figures are µs of a cycle as its caller sees them.
func BenchmarkLadder(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run("callers="+strconv.Itoa(callers), func(b *testing.B) { benchLadder(b, callers) })
	}
}

func benchLadder(b *testing.B, callers int) {
	rdb := redistest.Shared(b).Client(b)
	scripts := newBareCalls(b, redisstore.Scripts()["acquire"], redisstore.Scripts()["release"])
	nothing := newBareCalls(b, "return 1", "return 2")
	setnx := newBareCalls(b, "return 1", comparingDel)
	store := redisstore.New(rdb, redisstore.Config{Prefix: "guard:", AttemptTimeout: time.Second, Renewals: 1})
	b.Cleanup(func() { _ = store.Close() })
	g, err := guard.New(rdb)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = g.Close() })

	rungs := []struct {
		name  string
		cycle func(ctx context.Context, key string) error
	}{
		{"ping", func(ctx context.Context, _ string) error {
			if err := rdb.Ping(ctx).Err(); err != nil {
				return err
			}
			return rdb.Ping(ctx).Err()
		}},
		{"nothing", func(ctx context.Context, key string) error { return nothing.lockAndRelease(ctx, benchKeys(key)) }},
		{"setnx", func(ctx context.Context, key string) error {
			if err := rdb.SetNX(ctx, key, "owner", time.Minute).Err(); err != nil {
				return err
			}
			return rdb.EvalSha(ctx, setnx.release, []string{key}, "owner").Err()
		}},
		{"scripts", func(ctx context.Context, key string) error { return scripts.lockAndRelease(ctx, benchKeys(key)) }},
		{"store", func(ctx context.Context, key string) error {
			owner := "bench-" + strconv.FormatInt(scripts.owners.Add(1), 36)
			if _, err := store.Acquire(ctx, guardstore.Claim{Key: key, Owner: owner, TTL: 30 * time.Second, Limit: guardstore.Exclusive}); err != nil {
				return err
			}
			_, err := store.Release(ctx, guardstore.Release{Key: key, Owner: owner, TTL: 30 * time.Second, Limit: guardstore.Exclusive})
			return err
		}},
		{"guard", func(ctx context.Context, key string) error { return g.WithLock(ctx, guard.Key(key), testenv.Nothing) }},
	}
	const cycles = 50
	spent, rounds := make([]time.Duration, len(rungs)), 0
	for b.Loop() {
		for i, rung := range rungs {
			begun := time.Now()
			var callersEnd sync.WaitGroup
			for caller := range callers {
				callersEnd.Go(func() {
					key := fmt.Sprintf("ladder:%s:%d", rung.name, caller)
					for range cycles {
						if err := rung.cycle(b.Context(), key); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			callersEnd.Wait()
			spent[i] += time.Since(begun)
		}
		rounds++
	}
	for i, rung := range rungs {
		b.ReportMetric(float64(spent[i].Microseconds())/float64(rounds*cycles*callers), rung.name+"-µs")
	}
}

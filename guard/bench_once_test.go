package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
)

// What Once costs on a real Redis: a first call, a replay, 64 callers that wait for one result. Beside it is
// what people write by hand: SET NX, the work, SET of the result; and GET for a replay. That has no renewal, no
// queue and no owner.
func BenchmarkOnce(b *testing.B) {
	work := func(context.Context) (string, error) { return "receipt 42", nil }
	newGuard := func(b *testing.B) *guard.Guard {
		g, err := guard.New(redistest.Start(b).Client(b))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = g.Close() })
		return g
	}
	once := func(b *testing.B, g *guard.Guard, key string) {
		if _, _, err := guard.Once(b.Context(), g, guard.Key(key), time.Minute, work); err != nil {
			b.Error(err)
		}
	}
	b.Run("first", func(b *testing.B) {
		g, n := newGuard(b), 0
		b.ReportAllocs()
		for b.Loop() {
			n++
			once(b, g, strconv.Itoa(n))
		}
	})
	b.Run("replay", func(b *testing.B) {
		g := newGuard(b)
		once(b, g, "k")
		b.ReportAllocs()
		for b.Loop() {
			once(b, g, "k")
		}
	})
	b.Run("waiting=64", func(b *testing.B) {
		g, n := newGuard(b), 0
		for b.Loop() {
			n++
			var callers sync.WaitGroup
			for range 64 {
				callers.Go(func() { once(b, g, fmt.Sprintf("k:%d", n)) })
			}
			callers.Wait()
		}
	})
	b.Run("by hand/first", func(b *testing.B) {
		rdb, n := redistest.Start(b).Client(b), 0
		b.ReportAllocs()
		for b.Loop() {
			n++
			if err := byHand(b.Context(), rdb, strconv.Itoa(n), work); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("by hand/replay", func(b *testing.B) {
		rdb := redistest.Start(b).Client(b)
		if err := byHand(b.Context(), rdb, "k", work); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if err := byHand(b.Context(), rdb, "k", work); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// byHand asks with one SET NX GET whether somebody began, or is done.
func byHand(ctx context.Context, rdb *redis.Client, key string, work func(context.Context) (string, error)) error {
	err := rdb.SetArgs(ctx, key, "begun", redis.SetArgs{Mode: "NX", Get: true, TTL: time.Minute}).Err()
	if !errors.Is(err, redis.Nil) {
		return err // somebody was here
	}
	v, err := work(ctx)
	if err != nil {
		return err
	}
	return rdb.Set(ctx, key, v, time.Minute).Err()
}

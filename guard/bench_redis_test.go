package guard_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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

// comparingDel is what a lock without fences, queue and re-entry releases with.
const comparingDel = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

// What a free acquire and its release cost Redis itself (INFO commandstats), in turn with two scripts that do
// nothing, and with SET NX and a comparing DEL. The figures are µs of Redis for a pair, sent by one caller and in a
// pipeline of 100.
func BenchmarkRedisTime(b *testing.B) {
	s := redistest.Start(b)
	rdb := s.Client(b)
	load := func(script string) string {
		sha, err := rdb.ScriptLoad(b.Context(), script).Result()
		if err != nil {
			b.Fatal(err)
		}
		return sha
	}
	acquire, release := load(redisstore.Scripts()["acquire"]), load(redisstore.Scripts()["release"])
	one, two, del := load("return 1"), load("return 2"), load(comparingDel)
	keys := benchKeys("bench")
	lockArgs := []any{"bench-1", 30000, "", "0", "", "1guard:grant:", ""}
	freeArgs := []any{"bench-1", 30000, "1", "0", "0", "1guard:grant:"}
	pairs := []struct {
		name string
		stat *regexp.Regexp // what a script calls is in its own time already
		send func(ctx context.Context, c redis.Cmdable, owner string)
	}{
		{"redlatch", scriptTime, func(ctx context.Context, c redis.Cmdable, owner string) {
			lockArgs[0], freeArgs[0] = owner, owner
			c.EvalSha(ctx, acquire, keys, lockArgs...)
			c.EvalSha(ctx, release, keys, freeArgs...)
		}},
		{"nothing", scriptTime, func(ctx context.Context, c redis.Cmdable, owner string) {
			lockArgs[0], freeArgs[0] = owner, owner
			c.EvalSha(ctx, one, keys, lockArgs...)
			c.EvalSha(ctx, two, keys, freeArgs...)
		}},
		{"setnx", setTime, func(ctx context.Context, c redis.Cmdable, owner string) {
			c.SetNX(ctx, "setnx", owner, 30e9)
			c.EvalSha(ctx, del, []string{"setnx"}, owner)
		}},
	}
	const pairsOfRound = 100
	for _, piped := range []bool{false, true} {
		name := "one caller"
		if piped {
			name = "pipelined"
		}
		b.Run(name, func(b *testing.B) {
			spent, rounds := make([]float64, len(pairs)), 0
			for b.Loop() {
				for i, p := range pairs {
					if err := rdb.ConfigResetStat(b.Context()).Err(); err != nil {
						b.Fatal(err)
					}
					var c redis.Cmdable = rdb
					pipe := rdb.Pipeline()
					if piped {
						c = pipe
					}
					for n := range pairsOfRound {
						p.send(b.Context(), c, "bench-"+strconv.Itoa(rounds*pairsOfRound+n))
					}
					cmds, err := pipe.Exec(b.Context())
					if err != nil {
						b.Fatal(len(cmds), err)
					}
					spent[i] += redisMicros(b, rdb, p.stat)
				}
				rounds++
			}
			for i, p := range pairs {
				b.ReportMetric(spent[i]/float64(rounds*pairsOfRound), p.name+"-µs/pair")
			}
			b.ReportMetric(spent[0]/spent[1], "x-nothing")
			b.ReportMetric(spent[0]/spent[2], "x-setnx")
		})
	}
}

var (
	scriptTime = regexp.MustCompile(`cmdstat_evalsha:calls=\d+,usec=(\d+)`)
	setTime    = regexp.MustCompile(`cmdstat_(?:evalsha|set):calls=\d+,usec=(\d+)`)
)

// redisMicros is how long Redis worked on some commands since the statistics were reset.
func redisMicros(b *testing.B, rdb *redis.Client, stat *regexp.Regexp) (micros float64) {
	b.Helper()
	info, err := rdb.Info(b.Context(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	for _, found := range stat.FindAllStringSubmatch(info, -1) {
		n, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		micros += n
	}
	return micros
}

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

package guard_test

import (
	"context"
	"regexp"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/redisstore"
	"github.com/redlatch/redlatch/internal/redistest"
)

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

package main

import (
	"bufio"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// stats is what redis-server counted since it started.
type stats struct {
	calls map[string]int64 // of each command, those of scripts included
	cpu   time.Duration    // that it used
}

func readStats(ctx context.Context, client *redis.Client) (stats, error) {
	text, err := client.Info(ctx, "commandstats", "cpu").Result()
	return parseStats(text), err
}

// parseStats reads lines such as "cmdstat_evalsha:calls=21,usec=175,…".
func parseStats(info string) stats {
	s := stats{calls: map[string]int64{}}
	for lines := bufio.NewScanner(strings.NewReader(info)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if command, ok := strings.CutPrefix(name, "cmdstat_"); ok {
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			s.calls[command], _ = strconv.ParseInt(calls, 10, 64)
			continue
		}
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, _ := strconv.ParseFloat(value, 64)
			s.cpu += time.Duration(seconds * float64(time.Second))
		}
	}
	return s
}

// sent is how many commands came from clients of a library.
func (s stats) sent(library string) (n int64) {
	for _, command := range sentBy(library) {
		n += s.calls[command]
	}
	return n
}

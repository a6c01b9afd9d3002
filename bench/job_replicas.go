package main

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
)

const (
	mostReplicas    = 2
	replicasTimeout = 500 * time.Millisecond // it is not to be reached
)

// replicated is one caller with a key of its own, whose cycles wait for no replica, for
// one, and for two, in turn.
func replicated(ctx context.Context, j job, client *redis.Client, ready func()) (report, error) {
	var guards [mostReplicas + 1]library
	var turns [mostReplicas + 1]*hdrhistogram.Histogram
	for n := range guards {
		options := []guard.Option{guard.TTL(ttl)}
		if n > 0 {
			options = append(options, guard.Replicas(n, replicasTimeout))
		}
		g, err := guard.New(client, options...)
		if err != nil {
			return report{}, err
		}
		defer func() { _ = g.Close() }()
		guards[n], turns[n] = redlatchLibrary{g}, newHistogram()
	}
	ctx, cancel := context.WithTimeout(ctx, endOfTime)
	defer cancel()
	var r report
	ready()

	from := time.Now().Add(j.Warmup)
	for to := from.Add(j.Length); time.Now().Before(to); {
		for n, g := range guards {
			begun := time.Now()
			if err := g.Do(ctx, j.key(0), func() {}); err != nil {
				return r, err
			}
			if begun.After(from) {
				record(turns[n], time.Since(begun))
			}
		}
	}
	for _, h := range turns {
		r.Turns = append(r.Turns, h.Export())
	}
	return r, nil
}

package main

import (
	"context"
	"time"

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
	var ways []func(ctx context.Context) error
	for n := range mostReplicas + 1 {
		options := []guard.Option{guard.TTL(ttl)}
		if n > 0 {
			options = append(options, guard.Replicas(n, replicasTimeout))
		}
		g, err := guard.New(client, options...)
		if err != nil {
			return report{}, err
		}
		defer func() { _ = g.Close() }()
		ways = append(ways, func(ctx context.Context) error { return redlatchLibrary{g}.Do(ctx, j.key(0), func() {}) })
	}
	return inTurns(ctx, j, ready, 1, ways)
}

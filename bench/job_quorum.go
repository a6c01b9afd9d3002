package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

const quorumTurn = 50 // cycles of one library at a time

// quorums is one caller with a key of its own, which uses each library that has quorums, in turn.
func quorums(ctx context.Context, j job, client *redis.Client, ready func()) (report, error) {
	var ways []func(ctx context.Context) error
	for i, name := range quorate {
		j.Library = name
		l, err := openQuorum(j, client)
		if err != nil {
			return report{}, err
		}
		defer l.Close()
		ways = append(ways, func(ctx context.Context) error { return l.Do(ctx, j.key(i), func() {}) })
	}
	return inTurns(ctx, j, ready, quorumTurn, ways)
}

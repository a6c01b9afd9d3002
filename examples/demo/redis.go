package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/embedded"
)

const redisTimeout = 5 * time.Second

// backend is the Redis of a run: one in this process, or the one of REDIS_URL.
type backend struct {
	client   *redis.Client
	embedded *embedded.Server // nil if REDIS_URL names the Redis
	run      string           // the prefix of the locks, and the name of the tasks' queue
}

func openRedis(ctx context.Context, redisURL string) (*backend, error) {
	b := &backend{run: "demo-" + strings.ToLower(rand.Text()[:8])}
	if redisURL == "" {
		server, err := embedded.Start()
		if err != nil {
			return nil, err
		}
		b.embedded, b.client = server, server.Client()
		return b, nil
	}
	opts, err := redis.ParseURL(redisURL)
	if err != nil {
		return nil, errors.New("REDIS_URL is not a URL such as redis://host:6379") // err may have a part of its password
	}
	b.client = redis.NewClient(opts)
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	if err := b.client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("no Redis at %s: %w", opts.Addr, err), b.client.Close())
	}
	return b, nil
}

// String names the Redis, without the password of its URL.
func (b *backend) String() string {
	if b.embedded != nil {
		return "embedded Redis on " + b.embedded.Addr()
	}
	return fmt.Sprintf("Redis on %s, keys under %s", b.client.Options().Addr, b.run)
}

// close removes what the run wrote to a Redis that stays, and closes the connections.
func (b *backend) close(ctx context.Context) error {
	if b.embedded != nil {
		return b.embedded.Close()
	}
	// Clean up also when the run was interrupted.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redisTimeout)
	defer cancel()
	err := asynq.NewInspectorFromRedisClient(b.client).DeleteQueue(b.run, true)
	if errors.Is(err, asynq.ErrQueueNotFound) {
		err = nil
	}
	return errors.Join(err, b.deleteKeys(ctx), b.client.Close())
}

// deleteKeys removes the keys that outlive locks and queues: the last fence of each order,
// which Redis would drop a minute later, and asynq's statistics.
func (b *backend) deleteKeys(ctx context.Context) error {
	for _, pattern := range []string{b.run + ":*", "asynq:{" + b.run + "}:*"} {
		it := b.client.Scan(ctx, 0, pattern, 1000).Iterator()
		for it.Next(ctx) {
			if err := b.client.Unlink(ctx, it.Val()).Err(); err != nil {
				return err
			}
		}
		if err := it.Err(); err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/guardtest"
)

const redisTimeout = 5 * time.Second

// backend is the Redis of a run: one in this process, or the one of REDIS_URL.
type backend struct {
	client   *redis.Client
	embedded *guardtest.Server // nil if the Redis is somebody else's
	run      string            // the prefix of the locks, and the name of the tasks' queue
}

func openRedis(ctx context.Context, redisURL string) (*backend, error) {
	b := &backend{run: "orders-" + strings.ToLower(rand.Text()[:8])}
	if redisURL == "" {
		server, err := guardtest.Start()
		if err != nil {
			return nil, err
		}
		b.embedded, b.client = server, server.Client()
		return b, nil
	}
	opts, err := redis.ParseURL(redisURL)
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w", withoutURL(err))
	}
	b.client = redis.NewClient(opts)
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	if err := b.client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("no Redis at %s: %w", opts.Addr, err), b.client.Close())
	}
	return b, nil
}

// withoutURL keeps the password in the URL out of the message.
func withoutURL(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		return parse.Err
	}
	return err
}

// String says which Redis it is, without what is secret in the URL.
func (b *backend) String() string {
	if b.embedded != nil {
		return "embedded Redis on " + b.embedded.Addr()
	}
	return fmt.Sprintf("Redis on %s, keys under %s", b.client.Options().Addr, b.run)
}

// cli is the command that looks into the Redis. A password is left to the reader.
func (b *backend) cli() string {
	opts := b.client.Options()
	host, port, err := net.SplitHostPort(opts.Addr)
	if err != nil {
		return fmt.Sprintf("redis-cli -s %s -n %d", opts.Addr, opts.DB)
	}
	return fmt.Sprintf("redis-cli -h %s -p %s -n %d", host, port, opts.DB)
}

// close removes what the run wrote to a Redis that stays, and closes the connections.
func (b *backend) close(ctx context.Context) error {
	if b.embedded != nil {
		return b.embedded.Close()
	}
	// That the run was interrupted is no reason to leave things behind.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redisTimeout)
	defer cancel()
	return errors.Join(b.deleteQueue(), b.deleteKeys(ctx), b.client.Close())
}

// deleteQueue removes the queue from asynq's books.
func (b *backend) deleteQueue() error {
	err := asynq.NewInspectorFromRedisClient(b.client).DeleteQueue(b.run, true)
	if errors.Is(err, asynq.ErrQueueNotFound) {
		return nil
	}
	return err
}

// deleteKeys removes what outlives a lock and a queue: the last fence of each order,
// which otherwise goes a minute later, and asynq's statistics.
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

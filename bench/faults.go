package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/bench/internal/stage"
	"github.com/redlatch/redlatch/internal/redistest"
)

const (
	hangs     = 10 * time.Second
	isDown    = time.Second     // at least: longer than the pause between two tries
	watched   = 2 * time.Second // after servers are back
	afterLoss = time.Second

	returns    = 30 * time.Second       // at most, until there is a server again
	undecided  = 500 * time.Millisecond // Sentinel is not sooner
	failedOver = 3 * time.Second        // after the promotion at most: sentinels tell each other in 2 s
	glance     = time.Millisecond       // between two looks whether there is one
)

func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hang stops all servers for a while. Like restart, it gives the outage of as many of them
// as the index, plus one.
func hang(ctx context.Context, b *bench, _ *stage.Stage, servers []*redistest.Server) ([]outage, error) {
	err := rest(ctx, warmup)
	for _, s := range servers {
		err = errors.Join(err, s.Pause())
	}
	err = errors.Join(err, rest(ctx, b.long(hangs)))
	down := time.Now()
	var back []time.Time
	for _, s := range servers {
		back = append(back, time.Now())
		err = errors.Join(err, s.Resume())
	}
	return outages(ctx, b, down, back, err)
}

// restart kills all servers, and starts them again without data.
func restart(ctx context.Context, b *bench, on *stage.Stage, servers []*redistest.Server) ([]outage, error) {
	err := rest(ctx, warmup)
	for _, s := range servers {
		s.Kill()
	}
	err = errors.Join(err, rest(ctx, b.long(isDown+rand.N(isDown))))
	down, back := time.Now(), make([]time.Time, len(servers))
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() { back[i] = accepts(ctx, s.Addr()) })
		all.Go(func() { s.Restart(on) })
	}
	all.Wait()
	return outages(ctx, b, down, back, err)
}

// outages looks on for a while after servers came back.
func outages(ctx context.Context, b *bench, down time.Time, back []time.Time, err error) ([]outage, error) {
	err = errors.Join(err, rest(ctx, b.long(watched)))
	slices.SortFunc(back, time.Time.Compare)
	all := make([]outage, len(back))
	for i, t := range back {
		all[i] = outage{down, t, time.Now()}
	}
	return all, err
}

// accepts waits until a server takes connections.
func accepts(ctx context.Context, addr string) time.Time {
	ctx, cancel := context.WithTimeout(ctx, returns)
	defer cancel()
	for ctx.Err() == nil {
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
			break
		}
		_ = rest(ctx, glance)
	}
	return time.Now()
}

// without has one server of a quorum fail, and gives the time in which that is to show.
func without(ctx context.Context, b *bench, fails func() error) (from, to time.Time, err error) {
	err = rest(ctx, warmup)
	from = time.Now()
	err = errors.Join(err, fails(), rest(ctx, b.long(afterLoss)))
	return from, time.Now(), err
}

// failOver kills the primary. Locks could be had again when one of the replicas is the
// primary, which Sentinel has not announced yet.
func failOver(ctx context.Context, b *bench, on *stage.Stage, s *redistest.Sentinel) (outage, error) {
	var replicas []*redis.Client
	primary := s.Primary()
	for _, node := range s.Servers() {
		if node != primary {
			replicas = append(replicas, node.Client(on))
		}
	}
	err := rest(ctx, warmup)
	primary.Kill()
	o := outage{down: time.Now().Add(undecided)}
	limited, cancel := context.WithTimeout(ctx, returns)
	defer cancel()
	for !slices.ContainsFunc(replicas, func(c *redis.Client) bool { return leads(limited, c) }) {
		if err := rest(limited, glance); err != nil {
			return o, fmt.Errorf("no replica was promoted: %w", err)
		}
	}
	o.back = time.Now()
	err = errors.Join(err, rest(ctx, min(failedOver, b.long(3*failedOver))))
	o.end = time.Now()
	return o, err
}

func leads(ctx context.Context, c *redis.Client) bool {
	role, err := c.Do(ctx, "role").Slice()
	return err == nil && len(role) > 0 && role[0] == "master"
}

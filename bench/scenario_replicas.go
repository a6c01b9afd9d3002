package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/bench/internal/stage"
	"github.com/redlatch/redlatch/internal/redistest"
)

// runReplicas measures on a primary with two replicas.
func runReplicas(ctx context.Context, b *bench, s *scenario) (r result, err error) {
	var typical, ratio [mostReplicas + 1]*measure
	for n := 1; n <= mostReplicas; n++ {
		typical[n] = newMeasure(s.name, fmt.Sprintf("acquire and release with Replicas(%d), median µs", n), 1)
		ratio[n] = newMeasure(s.name, fmt.Sprintf("median / that of the same without, in turn with it, Replicas(%d)", n), 2)
		r.measures = append(r.measures, typical[n], ratio[n])
	}
	j := job{Kind: "replicas", Warmup: b.long(warmup), Length: b.long(1500 * time.Millisecond)}
	err = stage.Run(func(on *stage.Stage) error {
		primary := redistest.Start(on, "--repl-diskless-sync-delay", "0")
		of := strings.Replace(primary.Addr(), ":", " ", 1)
		for range mostReplicas {
			redistest.Start(on, "--replicaof", of)
		}
		there := &bench{options: b.options, client: primary.Client(on), addr: primary.Addr()}
		if err := caughtUp(ctx, there.client); err != nil {
			return err
		}
		return there.interleave(ctx, []string{ours}, j, 1, func(_ string, o outcome) error {
			turns := o.turns(50)
			for n := 1; n <= mostReplicas; n++ {
				typical[n].add(ours, micros(turns[n]))
				typical[n].add(reference, micros(turns[0]))
				ratio[n].add(ours, float64(turns[n])/float64(turns[0]))
			}
			return nil
		})
	})
	return r, err
}

// caughtUp waits until the replicas have what the primary has.
func caughtUp(ctx context.Context, primary *redis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, returns)
	defer cancel()
	for {
		known, err := primary.Wait(ctx, mostReplicas, time.Second).Result()
		if err != nil || known == mostReplicas {
			return err
		}
		if err := rest(ctx, glance); err != nil {
			return fmt.Errorf("%d of %d replicas: %w", known, mostReplicas, err)
		}
	}
}

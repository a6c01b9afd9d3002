package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
)

// limits has callers share one key: those with a limit take guard.Limit, all others
// guard.Shared, and one caller of each of the first processes writes alone. A plain job
// has all of them take the lock as it is.
func limits(ctx context.Context, j job, client *redis.Client, ready func()) (report, error) {
	g, err := guard.New(client, guard.TTL(ttl))
	if err != nil {
		return report{}, err
	}
	defer func() { _ = g.Close() }()
	var beside []guard.LockOption
	switch {
	case j.Plain:
	case j.Limit > 0:
		beside = []guard.LockOption{guard.Limit(j.Limit)}
	default:
		beside = []guard.LockOption{guard.Shared()}
	}
	waits := histograms(2) // of the others, of writers
	ctx, cancel := context.WithTimeout(ctx, endOfTime)
	defer cancel()
	var mu sync.Mutex
	var failure error
	var within atomic.Int64
	var callers sync.WaitGroup
	ready()

	from := time.Now().Add(j.Warmup)
	to := from.Add(j.Length)
	for caller := range j.Callers {
		kind, opts := 0, beside
		if caller == 0 && j.Index < j.Writers {
			kind, opts = 1, nil
		}
		callers.Go(func() {
			for time.Now().Before(to) {
				asked := time.Now()
				var begun time.Time
				err := g.WithLock(ctx, guard.Key("hot"), func(context.Context) error {
					begun = time.Now()
					time.Sleep(j.Section)
					return nil
				}, opts...)
				mu.Lock()
				if err != nil {
					failure = err
				} else if asked.After(from) {
					record(waits[kind], begun.Sub(asked))
				}
				mu.Unlock()
				if begun.After(from) && time.Now().Before(to) {
					within.Add(1)
				}
				time.Sleep(j.Rest)
			}
		})
	}
	callers.Wait()
	return report{Measured: j.Length, Cycles: within.Load(), Turns: exported(waits)}, failure
}

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
)

const severalPool = 16 // keys that all callers of a hot job draw theirs from

// several has each caller take several keys in each cycle, in turn by WithLocks and by locks
// that are nested by hand in the order of the keys.
func several(ctx context.Context, j job, client *redis.Client, ready func()) (report, error) {
	g, err := guard.New(client, guard.TTL(ttl))
	if err != nil {
		return report{}, err
	}
	defer func() { _ = g.Close() }()
	ways := []func(context.Context, *guard.Guard, []guard.KeyFunc) error{together, nested}
	turns := histograms(len(ways))
	ctx, cancel := context.WithTimeout(ctx, endOfTime)
	defer cancel()
	var mu sync.Mutex
	var failure error
	var callers sync.WaitGroup
	ready()

	from := time.Now().Add(j.Warmup)
	to := from.Add(j.Length)
	for caller := range j.Callers {
		callers.Go(func() {
			for time.Now().Before(to) {
				keys := j.keys(caller)
				for i, way := range ways {
					begun := time.Now()
					err := way(ctx, g, keys)
					mu.Lock()
					if err != nil {
						failure = err
					} else if begun.After(from) {
						record(turns[i], time.Since(begun))
					}
					mu.Unlock()
				}
			}
		})
	}
	callers.Wait()
	return report{Turns: exported(turns)}, failure
}

// keys returns the keys of a cycle, sorted.
func (j job) keys(caller int) (keys []guard.KeyFunc) {
	var names []string
	for i, drawn := range rand.Perm(severalPool)[:j.Keys] {
		if j.Hot {
			names = append(names, fmt.Sprintf("hot:%02d", drawn))
		} else {
			names = append(names, fmt.Sprintf("%s:%02d", j.key(caller), i))
		}
	}
	slices.Sort(names)
	for _, name := range names {
		keys = append(keys, guard.Key(name))
	}
	return keys
}

func together(ctx context.Context, g *guard.Guard, keys []guard.KeyFunc) error {
	return g.WithLocks(ctx, keys, func(context.Context) error { return nil })
}

func nested(ctx context.Context, g *guard.Guard, keys []guard.KeyFunc) error {
	if len(keys) == 0 {
		return nil
	}
	return g.WithLock(ctx, keys[0], func(ctx context.Context) error { return nested(ctx, g, keys[1:]) })
}

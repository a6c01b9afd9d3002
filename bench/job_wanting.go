package main

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// wanting has callers take a key of their own again and again, whatever happens, until
// the job ends. Each notes when it asked, and when it got what it wanted. It is set up when each has had its key once:
// so each has it again and again when the fault comes.
func wanting(ctx context.Context, j job, client *redis.Client, ready func()) (report, error) {
	l, err := openOn(j, client)
	if err != nil {
		return report{}, err
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(ctx, endOfTime)
	defer cancel()
	r := report{Grants: make([][]grant, j.Callers)}
	callers := func(each func(i int)) {
		var all sync.WaitGroup
		for i := range j.Callers {
			all.Go(func() { each(i) })
		}
		all.Wait()
	}
	take := func(i int) {
		if g, ok := want(ctx, l, j.key(i)); ok {
			r.Grants[i] = append(r.Grants[i], g)
		}
	}
	callers(take)
	ready()
	callers(func(i int) {
		for rest(ctx, j.Rest) == nil {
			take(i)
		}
	})
	return r, nil
}

// want asks until it had the key. A library that gives up is asked again at once.
func want(ctx context.Context, l library, key string) (g grant, ok bool) {
	asked := time.Now()
	for !ok && ctx.Err() == nil {
		_ = l.Do(ctx, key, func() { g, ok = grant{asked.UnixNano(), time.Now().UnixNano()}, true })
		if !ok {
			_ = rest(ctx, time.Millisecond)
		}
	}
	return g, ok
}

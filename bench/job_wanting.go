package main

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// wanting has callers take a key of their own again and again, whatever happens, until
// the job ends. Each notes when it asked, and when it got what it wanted.
func wanting(ctx context.Context, j job, client *redis.Client, ready func()) (report, error) {
	l, err := openOn(j, client)
	if err != nil {
		return report{}, err
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(ctx, endOfTime)
	defer cancel()
	r := report{Grants: make([][]grant, j.Callers)}
	ready()

	var callers sync.WaitGroup
	for i := range j.Callers {
		callers.Go(func() { r.Grants[i] = want(ctx, l, j.key(i), j.Rest) })
	}
	callers.Wait()
	return r, nil
}

// want is one caller. One whose library gives up asks again at once.
func want(ctx context.Context, l library, key string, rest time.Duration) (all []grant) {
	asked := time.Now()
	for ctx.Err() == nil {
		pause := time.Millisecond
		_ = l.Do(ctx, key, func() {
			all = append(all, grant{asked.UnixNano(), time.Now().UnixNano()})
			pause = 0
		})
		got := pause == 0
		if got {
			pause = rest
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		if got {
			asked = time.Now()
		}
	}
	return all
}

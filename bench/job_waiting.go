package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// waiting has callers wait for a key that another instance holds, and counts what they
// send meanwhile.
func waiting(ctx context.Context, j job, client *redis.Client, ready func()) (report, error) {
	ctx, cancel := context.WithTimeout(ctx, endOfTime)
	defer cancel()
	holder, err := open(j, client)
	if err != nil {
		return report{}, err
	}
	defer holder.Close()
	all, err := openAll(j, client)
	if err != nil {
		return report{}, err
	}
	defer closeAll(all)
	// Redis is to know the scripts already, and each instance to have locked once: it subscribes then.
	for i, l := range append([]library{holder}, all...) {
		if err := l.Do(ctx, fmt.Sprint("first:", i), func() {}); err != nil {
			return report{}, err
		}
	}
	ready()

	var r report
	var counting error
	err = holder.Do(ctx, j.key(0), func() { r, counting = countWhileWaiting(ctx, j, client, all) })
	return r, errors.Join(err, counting)
}

func countWhileWaiting(ctx context.Context, j job, client *redis.Client, all []library) (r report, err error) {
	before, err := readStats(ctx, client)
	if err != nil {
		return r, err
	}
	waitCtx, cancel := context.WithCancel(ctx)
	var callers sync.WaitGroup
	var ended atomic.Int64
	for i := range j.Callers {
		callers.Go(func() {
			_ = all[i%len(all)].Do(waitCtx, j.key(i), func() {})
			ended.Add(1)
		})
	}
	time.Sleep(j.Length)
	after, err := readStats(ctx, client)
	left := ended.Load()
	cancel()
	callers.Wait()
	if left > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d callers did not wait", left, j.Callers))
	}
	r.Commands = after.sent(j.Library) - before.sent(j.Library)
	return r, err
}

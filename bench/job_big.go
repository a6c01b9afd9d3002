package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
)

// scriptTime is what Redis took for the calls of one script, in µs.
type scriptTime struct {
	Calls              int
	Sum, Median, Worst int64 // Worst: 1 % are worse
}

const (
	bigKey   = "big"
	bigTTL   = 6 * time.Second // holds are renewed meanwhile
	bigSends = 64              // at the same time

	bigPatience = 30 * time.Second // all waiters ask at once
)

// big has a key that many want, or have. Each of them has a claim of its own in Redis, as if it were
// the only one of its process: their ttls differ, and nothing is handed over. Without a limit they
// wait, and each that gets the lock waits again; with one they are inside, and two more callers get
// in and out.
func big(ctx context.Context, j job, client *redis.Client, ready func()) (r report, err error) {
	g, err := guard.New(client, guard.HandoverWindow(0), guard.StoreTimeout(bigPatience))
	if err != nil {
		return r, err
	}
	defer func() { _ = g.Close() }()
	var opts []guard.LockOption
	switch {
	case j.Limit > 0:
		opts = append(opts, guard.Limit(j.Limit))
	case j.Shared:
		opts = append(opts, guard.Shared())
	}
	inside := len(opts) > 0
	options := func(caller int) []guard.LockOption {
		return append(slices.Clone(opts), guard.TTL(bigTTL+time.Duration(caller)*time.Millisecond))
	}
	ready()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var acquired atomic.Int64
	var failure atomic.Pointer[error]
	var callers sync.WaitGroup
	defer callers.Wait()
	defer cancel()
	cycle := func(caller int) {
		for ctx.Err() == nil {
			err := g.WithLock(ctx, guard.Key(bigKey), func(context.Context) error { acquired.Add(1); return nil }, options(caller)...)
			if err != nil && ctx.Err() == nil {
				failure.Store(&err)
				return
			}
		}
	}
	begin := func() error { return nil }
	if inside {
		if err := each(j.Callers, func(i int) error { _, err := g.Acquire(ctx, guard.Key(bigKey), options(i)...); return err }); err != nil {
			return r, err
		}
		for i := range 2 {
			callers.Go(func() { cycle(j.Callers + i) })
		}
	} else {
		first, err := g.Acquire(ctx, guard.Key(bigKey), options(j.Callers)...)
		if err != nil {
			return r, err
		}
		for i := range j.Callers {
			callers.Go(func() { cycle(i) })
		}
		if err := queued(ctx, client, j.Callers); err != nil {
			return r, err
		}
		begin = func() error { return first.Release(ctx) }
	}
	before := acquired.Load()
	r.Scripts, err = scriptTimes(ctx, client, j.Length, begin)
	r.Acquired = acquired.Load() - before
	if p := failure.Load(); p != nil {
		err = errors.Join(err, *p)
	}
	return r, err
}

// each calls f with each number below n, several at the same time.
func each(n int, f func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, bigSends)
	var senders sync.WaitGroup
	for s := range bigSends {
		senders.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[s] == nil; i = int(next.Add(1)) - 1 {
				errs[s] = f(i)
			}
		})
	}
	senders.Wait()
	return errors.Join(errs...)
}

// queued waits until so many claims are in the queue.
func queued(ctx context.Context, client *redis.Client, n int) error {
	for {
		there, err := client.ZCard(ctx, "redlatch:{"+bigKey+"}:queue").Result()
		if err != nil || there >= int64(n) {
			return err
		}
		if err := rest(ctx, glance); err != nil {
			return fmt.Errorf("%d of %d are in the queue: %w", there, n, err)
		}
	}
}

// scriptTimes looks into the slow log, which has everything for a while.
func scriptTimes(ctx context.Context, client *redis.Client, d time.Duration, begin func() error) (times []scriptTime, err error) {
	for name, value := range map[string]string{"slowlog-max-len": "1000000", "slowlog-log-slower-than": "0"} {
		if err := client.ConfigSet(ctx, name, value).Err(); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(client.Do(ctx, "slowlog", "reset").Err(), begin(), rest(ctx, d)); err != nil {
		return nil, err
	}
	entries, err := client.SlowLogGet(ctx, -1).Result()
	took := map[string][]int64{}
	for _, e := range entries {
		if len(e.Args) > 1 && e.Args[0] == "evalsha" {
			took[e.Args[1]] = append(took[e.Args[1]], e.Duration.Microseconds())
		}
	}
	for _, all := range took {
		slices.Sort(all)
		t := scriptTime{Calls: len(all), Median: all[len(all)/2], Worst: all[len(all)*99/100]}
		for _, d := range all {
			t.Sum += d
		}
		times = append(times, t)
	}
	off := errors.Join(client.ConfigSet(ctx, "slowlog-log-slower-than", "-1").Err(), client.Do(ctx, "slowlog", "reset").Err())
	return times, errors.Join(err, off)
}

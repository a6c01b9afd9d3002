package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// asyncRest is the pause for an asynchronous release, so that it does not delay the reference.
const asyncRest = time.Millisecond

// solo is one caller with a key of its own. In turn with each cycle it runs two scripts
// that do nothing, on the client that the library was given.
func solo(ctx context.Context, j job, client *redis.Client, ready func()) (report, error) {
	l, err := open(j, client)
	if err != nil {
		return report{}, err
	}
	defer l.Close()
	nothing, err := client.ScriptLoad(ctx, "return 1").Result()
	if err != nil {
		return report{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, endOfTime)
	defer cancel()
	keys := j.ring(0)
	lock, bare := newHistogram(), newHistogram()
	var r report
	ready()

	from := time.Now().Add(j.Warmup)
	for to, n := from.Add(j.Length), 0; ; n++ {
		t0 := time.Now()
		if t0.After(to) {
			break
		}
		if err := l.Do(ctx, keys[n%len(keys)], func() {}); err != nil {
			return r, err
		}
		t1 := time.Now()
		if j.Tuned {
			time.Sleep(asyncRest)
		}
		t2 := time.Now()
		for range 2 {
			if err := client.EvalSha(ctx, nothing, keys[:1], "owner", "30000").Err(); err != nil {
				return r, err
			}
		}
		t3 := time.Now()
		if j.Tuned {
			time.Sleep(asyncRest)
		}
		r.Acquired++
		if t0.After(from) {
			r.Cycles++
			record(lock, t1.Sub(t0))
			record(bare, t3.Sub(t2))
		}
	}
	r.Waits, r.Bare = lock.Export(), bare.Export()
	return r, nil
}

// ping measures round trips as far apart as the sections of others are long, so that
// all are woken from the same kind of sleep.
func ping(ctx context.Context, j job, client *redis.Client, ready func()) (report, error) {
	h := newHistogram()
	if err := client.Ping(ctx).Err(); err != nil {
		return report{}, err
	}
	ready()
	for end := time.Now().Add(j.Length); time.Now().Before(end); {
		time.Sleep(j.Section)
		t := time.Now()
		if err := client.Ping(ctx).Err(); err != nil {
			return report{}, err
		}
		record(h, time.Since(t))
	}
	return report{Waits: h.Export()}, nil
}

// alone is one section after another without any lock: no caller makes more of them, for a
// sleep takes longer than it was asked to.
func alone(_ context.Context, j job, _ *redis.Client, ready func()) (report, error) {
	var r report
	ready()
	begun := time.Now()
	for time.Since(begun) < j.Length {
		time.Sleep(j.Section)
		r.Cycles++
	}
	r.Measured = time.Since(begun)
	return r, nil
}

package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// held takes many leases, keeps them, and weighs them. They end with the process.
func held(ctx context.Context, j job, client *redis.Client, ready func()) (report, error) {
	opened, err := open(j, client)
	if err != nil {
		return report{}, err
	}
	l, ok := opened.(holder)
	if !ok {
		return report{}, fmt.Errorf("%s does not renew what it holds", j.Library)
	}
	leases := make([]any, j.Leases)
	ready()

	if leases[0], err = l.Hold(ctx, "held:0"); err != nil { // what there is once is there now
		return report{}, err
	}
	before := weigh()
	var callers sync.WaitGroup
	var next atomic.Int64
	var failure atomic.Pointer[error]
	for range j.Callers {
		callers.Go(func() {
			for i := next.Add(1); i < int64(j.Leases); i = next.Add(1) {
				var err error
				if leases[i], err = l.Hold(ctx, fmt.Sprintf("held:%d", i)); err != nil {
					failure.Store(&err)
					return
				}
			}
		})
	}
	callers.Wait()
	if err := failure.Load(); err != nil {
		return report{}, *err
	}
	after := weigh()
	runtime.KeepAlive(leases)
	n := float64(j.Leases - 1)
	return report{PerLease: leaseCost{
		Goroutines: (after.Goroutines - before.Goroutines) / n,
		Bytes:      (after.Bytes - before.Bytes) / n,
	}}, nil
}

// weigh is what the process has now.
func weigh() leaseCost {
	for range 3 { // finalizers, and stacks that are given back, take a second look
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return leaseCost{float64(runtime.NumGoroutine()), float64(m.HeapAlloc + m.StackInuse)}
}

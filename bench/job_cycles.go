package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/redis/go-redis/v9"
)

// cycling is a job whose callers take and release locks, again and again.
type cycling struct {
	job
	measuring        atomic.Bool // asked instead of the clock, which some cycles are too short for
	acquired, errors atomic.Int64

	mu       sync.Mutex
	waits    *hdrhistogram.Histogram
	sections [][2]int64
	err      error
}

func cycles(ctx context.Context, j job, client *redis.Client, ready func()) (report, error) {
	all, err := openAll(j, client)
	if err != nil {
		return report{}, err
	}
	defer closeAll(all)
	c := &cycling{job: j}
	if j.Waits {
		c.waits = newHistogram()
	}
	perCaller := make([]int64, j.Callers)
	ready()

	ctx, cancel := context.WithTimeout(ctx, endOfTime)
	defer cancel()
	var callers sync.WaitGroup
	for i := range j.Callers {
		callers.Go(func() { perCaller[i] = c.call(ctx, all[i%len(all)], j.ring(i)) })
	}
	time.Sleep(j.Warmup)
	c.measuring.Store(true)
	begun := time.Now()
	time.Sleep(j.Length)
	c.measuring.Store(false)
	measured := time.Since(begun)
	cancel()
	callers.Wait()

	r := report{
		Measured: measured, PerCaller: perCaller, Acquired: c.acquired.Load(),
		Sections: c.sections, Errors: c.errors.Load(),
	}
	for _, n := range perCaller {
		r.Cycles += n
	}
	if c.waits != nil {
		r.Waits = c.waits.Export()
	}
	if c.err != nil {
		r.Error = c.err.Error()
	}
	return r, nil
}

// call is one caller. It returns how many of its sections were within the measured time.
func (c *cycling) call(ctx context.Context, l library, keys []string) (measured int64) {
	var acquired int64
	timed := c.Waits || c.Sections
	for n := 0; ctx.Err() == nil; n++ {
		var asked, begun, ended time.Time
		var got, counts bool
		if timed {
			asked = time.Now()
		}
		err := l.Do(ctx, keys[n%len(keys)], func() {
			got, counts = true, c.measuring.Load()
			if timed {
				begun = time.Now()
			}
			if c.Section > 0 {
				time.Sleep(c.Section)
				counts = counts && c.measuring.Load()
			}
			if timed {
				ended = time.Now()
			}
		})
		if got {
			acquired++
		}
		switch {
		case got && counts:
			measured++
			if timed {
				c.note(begun.Sub(asked), begun, ended)
			}
		case !got && ctx.Err() != nil && timed:
			// Still waiting at the end. Without this, a library that lets callers starve would look better.
			c.note(time.Since(asked), time.Time{}, time.Time{})
		}
		if err != nil && ctx.Err() == nil {
			c.failed(err)
		}
	}
	c.acquired.Add(acquired)
	return measured
}

func (c *cycling) note(wait time.Duration, begun, ended time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Waits {
		record(c.waits, wait)
	}
	if c.Sections && !begun.IsZero() {
		c.sections = append(c.sections, [2]int64{begun.UnixNano(), ended.UnixNano()})
	}
}

func (c *cycling) failed(err error) {
	c.errors.Add(1)
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	time.Sleep(time.Millisecond) // whatever it is, do not spin
}

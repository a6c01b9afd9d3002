package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/redlatch/redlatch/bench/internal/stage"
)

// Scenarios of one process.

const bareRatio = "median / that of two bare EVALSHA in turn with it"

func runSolo(ctx context.Context, b *bench, s *scenario) (result, error) {
	typical := newMeasure(s.name, "acquire and release, median µs", 1)
	tail := newMeasure(s.name, "acquire and release, p99 µs", 1)
	ratio := newMeasure(s.name, bareRatio, 2, atMost(1.25, ""))
	cost := newCosts(s, "")
	j := job{Kind: "solo", Warmup: b.long(warmup), Length: b.long(1500 * time.Millisecond)}
	times := func(o outcome) (lock, bare *hdrhistogram.Histogram) {
		return o.waits(), hdrhistogram.Import(o.reports[0].Bare)
	}
	err := b.interleave(ctx, libraries, j, 1, func(library string, o outcome) error {
		lock, bare := times(o)
		typical.add(library, micros(lock.ValueAtQuantile(50)))
		tail.add(library, micros(lock.ValueAtQuantile(99)))
		ratio.add(library, float64(lock.ValueAtQuantile(50))/float64(bare.ValueAtQuantile(50)))
		o.sent -= 2 * o.acquired() // the bare ones
		cost.add(library, o)
		if library == ours {
			typical.add(reference, micros(bare.ValueAtQuantile(50)))
			tail.add(reference, micros(bare.ValueAtQuantile(99)))
		}
		return nil
	})
	if err != nil {
		return result{}, err
	}
	with := newMeasure(s.name, bareRatio+tuned, 2)
	j.Tuned = true
	err = b.interleave(ctx, libraries, j, 1, func(library string, o outcome) error {
		lock, bare := times(o)
		with.add(library, float64(lock.ValueAtQuantile(50))/float64(bare.ValueAtQuantile(50)))
		return nil
	})
	return result{measures: []*measure{typical, tail, ratio, with, cost.sent}}, err
}

func micros(ns int64) float64 { return float64(ns) / 1e3 }

var (
	distinctCallers = []int{1, 8, 64, 512}
	hotCallers      = []int{1, 16, 256}
)

func runDistinct(ctx context.Context, b *bench, s *scenario) (result, error) {
	r, err := runOver(ctx, b, s, distinctCallers, job{}, atLeast(1, "best peer", peers...), atLeast(2.5, "redsync", "redsync"))
	if err != nil {
		return r, err
	}
	with, err := runOver(ctx, b, s, distinctCallers[1:], job{Tuned: true}, atLeast(1, "best peer", peers...))
	r.measures = append(r.measures, with.measures...)
	return r, err
}

// tuned marks measures with the options that make a library fast.
const tuned = ", tuned"

// runNetwork measures a process whose Redis is far, so that round trips count.
func runNetwork(ctx context.Context, b *bench, s *scenario) (r result, err error) {
	err = stage.Run(func(on *stage.Stage) error {
		addr, err := far(on, b.addr)
		if err != nil {
			return err
		}
		there := &bench{options: b.options, client: b.client, addr: addr}
		for _, j := range []job{{Far: true}, {Far: true, Tuned: true}} {
			one, err := runOver(ctx, there, s, []int{8}, j, atLeast(0.95, "best peer", peers...))
			if err != nil {
				return err
			}
			r.measures = append(r.measures, one.measures[0])
		}
		return nil
	})
	return r, err
}

func runHot(ctx context.Context, b *bench, s *scenario) (result, error) {
	return runOver(ctx, b, s, hotCallers, job{Hot: true}, atLeast(50, "best peer", peers...))
}

// runOver measures one process with more and more goroutines. The bars are for the most; with keys of
// their own, the first is for all but one goroutine.
func runOver(ctx context.Context, b *bench, s *scenario, callers []int, j job, bars ...bar) (r result, err error) {
	j.Kind, j.Warmup, j.Length = "cycles", b.long(warmup), b.long(1200*time.Millisecond)
	for _, n := range callers {
		goroutines := fmt.Sprintf(", goroutines: %d", n)
		if j.Tuned {
			goroutines += tuned
		}
		rate, cost := newMeasure(s.name, "cycles/s"+goroutines, 0), newCosts(s, goroutines)
		r.measures = append(r.measures, rate)
		if n > 1 && !j.Hot {
			rate.bars = bars[:1]
		}
		if n == slices.Max(callers) {
			rate.bars = bars
			r.measures = append(r.measures, cost.all()...)
		}
		j.Callers = n
		err := b.interleave(ctx, libraries, j, 1, func(library string, o outcome) error {
			rate.add(library, o.cyclesPerSecond())
			cost.add(library, o)
			return nil
		})
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

func runWaiting(ctx context.Context, b *bench, s *scenario) (result, error) {
	length := b.long(10 * time.Second)
	var r result
	for _, of := range []struct {
		what      string
		instances int
		most      float64
	}{{"instances", b.waiters, 1100}, {"goroutines of one instance", 1, 30}} {
		m := newMeasure(s.name, fmt.Sprintf("commands sent for %d %s in %v", b.waiters, of.what, length), 0, atMost(of.most, ""))
		r.measures = append(r.measures, m)
		j := job{Kind: "waiting", Callers: b.waiters, Instances: of.instances, Hot: true, Length: length}
		err := b.once().interleave(ctx, libraries, j, 1, func(library string, o outcome) error {
			m.add(library, float64(o.reports[0].Commands))
			return nil
		})
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

func runHeld(ctx context.Context, b *bench, s *scenario) (result, error) {
	goroutines := newMeasure(s.name, fmt.Sprintf("goroutines per lease, of %d", b.leases), 3, atMost(0.001, ""))
	memory := newMeasure(s.name, "heap and stacks per lease, bytes", 0, atMost(1500, ""))
	j := job{Kind: "held", Callers: 64, Leases: b.leases, Length: time.Minute}
	err := b.once().interleave(ctx, renewing, j, 1, func(library string, o outcome) error {
		goroutines.add(library, o.reports[0].PerLease.Goroutines)
		memory.add(library, o.reports[0].PerLease.Bytes)
		return nil
	})
	return result{measures: []*measure{goroutines, memory}}, err
}

// once is for scenarios that count instead of timing, which one round is enough for.
func (b *bench) once() *bench {
	single := *b
	single.rounds = 1
	return &single
}

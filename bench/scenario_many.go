package main

import (
	"context"
	"time"
)

// Scenarios of several processes.

const section = time.Millisecond

func runCrowd(ctx context.Context, b *bench, s *scenario) (result, error) {
	rate := newMeasure(s.name, "cycles/s", 0, atLeast(1.1, "best peer", peers...))
	typical := newMeasure(s.name, "wait, median ms", 1)
	tail := newMeasure(s.name, "wait, p99 ms", 1, atMost(0.2, "best peer", peers...))
	fair := newMeasure(s.name, "Jain's fairness over all goroutines", 4, atLeast(0.99, ""))
	cost := newCosts(s, "", atMost(1, ""))
	j := job{
		Kind: "cycles", Callers: 64, Hot: true, Section: section, Waits: true, Sections: true,
		Warmup: b.long(time.Second), Length: b.long(5 * time.Second),
	}
	err := b.interleave(ctx, libraries, j, 4, func(library string, o outcome) error {
		h := o.waits()
		rate.add(library, o.cyclesPerSecond())
		typical.add(library, micros(h.ValueAtQuantile(50))/1e3)
		tail.add(library, micros(h.ValueAtQuantile(99))/1e3)
		fair.add(library, o.fairness())
		cost.add(library, o)
		_, err := o.handovers()
		if err != nil || library != ours {
			return err
		}
		most := job{Kind: "alone", Callers: 1, Section: section, Length: b.long(time.Second)}
		sections, err := b.run(ctx, most, 1)
		rate.add(reference, sections.cyclesPerSecond())
		return err
	})
	return result{append([]*measure{rate, typical, tail, fair}, cost.all()...)}, err
}

// runMany measures what each of many processes with few callers asks of Redis.
func runMany(ctx context.Context, b *bench, s *scenario) (r result, err error) {
	for _, which := range []string{"", tuned} {
		rate := newMeasure(s.name, "cycles/s"+which, 0)
		cost := newMeasure(s.name, "CPU of redis-server per acquisition, µs"+which, 1, atMost(1, "best peer", peers...))
		r.measures = append(r.measures, rate, cost)
		j := job{Kind: "cycles", Callers: 2, Tuned: which == tuned, Warmup: b.long(warmup), Length: b.long(time.Second)}
		err := b.interleave(ctx, libraries, j, b.processes, func(library string, o outcome) error {
			rate.add(library, o.cyclesPerSecond())
			cost.add(library, o.perAcquisition(o.serverCPU))
			return nil
		})
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

func runTurns(ctx context.Context, b *bench, s *scenario) (result, error) {
	typical := newMeasure(s.name, "time lost per hand-over, median µs", 1, atMost(5, "PING", reference))
	mean := newMeasure(s.name, "time lost per hand-over, mean µs", 1)
	j := job{
		Kind: "cycles", Callers: 1, Hot: true, Section: section, Sections: true,
		Warmup: b.long(warmup), Length: b.long(2 * time.Second),
	}
	pings := j
	pings.Kind = "ping"
	err := b.interleave(ctx, libraries, j, 2, func(library string, o outcome) error {
		lost, err := o.handovers()
		if err != nil {
			return err
		}
		if lost.TotalCount() == 0 {
			return nil // it was one process's all the time, which some libraries allow
		}
		typical.add(library, micros(lost.ValueAtQuantile(50)))
		mean.add(library, lost.Mean()/1e3)
		if library != ours {
			return nil
		}
		p, err := b.run(ctx, pings, 1)
		typical.add(reference, micros(p.waits().ValueAtQuantile(50)))
		mean.add(reference, p.waits().Mean()/1e3)
		return err
	})
	return result{measures: []*measure{typical, mean}}, err
}

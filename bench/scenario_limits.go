package main

import (
	"context"
	"fmt"
	"time"
)

// runLimits measures one key that several may hold at once, beside an exclusive lock.
func runLimits(ctx context.Context, b *bench, s *scenario) (r result, err error) {
	for _, load := range []struct {
		name string
		job  job
	}{
		{"100 readers, 2 writers", job{Callers: 25, Writers: 2, Rest: 5 * time.Millisecond}},
		{"Limit(8), 256 callers", job{Callers: 64, Limit: 8}},
	} {
		rate := newMeasure(s.name, load.name+": cycles/s", 0)
		tails := []*measure{newMeasure(s.name, load.name+": wait, p99 ms", 1)}
		if load.job.Writers > 0 {
			tails = append(tails, newMeasure(s.name, load.name+": wait of writers, p99 ms", 1))
		}
		r.measures = append(append(r.measures, rate), tails...)
		for _, column := range []string{ours, reference} {
			j := load.job
			j.Kind, j.Section, j.Plain = "limits", section, column == reference
			j.Warmup, j.Length = b.long(warmup), b.long(3*time.Second)
			err := b.interleave(ctx, []string{ours}, j, 4, func(_ string, o outcome) error {
				rate.add(column, o.cyclesPerSecond())
				turns := o.turns(99)
				for i, tail := range tails {
					tail.add(column, micros(turns[i])/1e3)
				}
				return nil
			})
			if err != nil {
				return r, fmt.Errorf("%s: %w", load.name, err)
			}
		}
	}
	return r, nil
}

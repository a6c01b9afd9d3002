package main

import (
	"context"
	"fmt"
	"time"
)

// runBig measures what Redis takes for a key that many wait for, or have. The reference is a key that
// ten do.
func runBig(ctx context.Context, b *bench, s *scenario) (r result, err error) {
	for _, load := range []struct {
		what   string
		counts string
		most   int
		job    func(n int) job
	}{
		{"%d waiting", "hand-over", b.leases / 10, func(n int) job { return job{Callers: n} }},
		{"%d of Limit(%[1]d) inside", "permit", b.leases / 20, func(n int) job { return job{Callers: n - 1, Limit: n} }},
		{"%d readers inside", "reader", b.leases / 10, func(n int) job { return job{Callers: n, Shared: true} }},
	} {
		var few []float64
		for _, n := range []int{10, load.most / 10, load.most} {
			name := fmt.Sprintf(load.what, n)
			perCycle := newMeasure(s.name, name+": Redis time per "+load.counts+", µs", 1)
			typical := newMeasure(s.name, name+": slowest script, median µs", 0, atMost(200, ""))
			worst := newMeasure(s.name, name+": slowest script, p99 µs", 0)
			r.measures = append(r.measures, perCycle)
			if n == load.most {
				r.measures = append(r.measures, typical, worst)
			}
			j := load.job(n)
			j.Kind, j.Length = "big", b.long(1500*time.Millisecond)
			err := b.interleave(ctx, []string{ours}, j, 1, func(_ string, o outcome) error {
				var sum, median, p99 int64
				for _, script := range o.reports[0].Scripts {
					sum, median, p99 = sum+script.Sum, max(median, script.Median), max(p99, script.Worst)
				}
				perCycle.add(ours, float64(sum)/float64(max(o.acquired(), 1)))
				typical.add(ours, float64(median))
				worst.add(ours, float64(p99))
				return nil
			})
			if err != nil {
				return r, fmt.Errorf("%s: %w", name, err)
			}
			if n == 10 {
				few = perCycle.values[ours]
				continue
			}
			perCycle.values[reference] = few
			perCycle.bars = []bar{atMost(2, "that of 10", reference)}
		}
	}
	return r, nil
}

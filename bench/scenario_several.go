package main

import (
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// runSeveral measures several keys at once, beside locks that are nested by hand.
func runSeveral(ctx context.Context, b *bench, s *scenario) (r result, err error) {
	for _, load := range []struct {
		name               string
		hot                bool
		processes, callers int
	}{
		{"free", false, 1, 1},
		{fmt.Sprintf("of %d that 16 callers in 4 processes want", severalPool), true, 4, 4},
	} {
		for _, n := range []int{1, 2, 8} {
			typical := newMeasure(s.name, fmt.Sprintf("acquire and release %d keys, %s, median µs", n, load.name), 1,
				atMost(1.25, "nested", reference))
			r.measures = append(r.measures, typical)
			j := job{
				Kind: "several", Keys: n, Hot: load.hot, Callers: load.callers,
				Warmup: b.long(warmup), Length: b.long(1500 * time.Millisecond),
			}
			err := b.interleave(ctx, []string{ours}, j, load.processes, func(_ string, o outcome) error {
				all := []*hdrhistogram.Histogram{newHistogram(), newHistogram()}
				for _, report := range o.reports {
					for i, h := range report.Turns {
						all[i].Merge(hdrhistogram.Import(h))
					}
				}
				typical.add(ours, micros(all[0].ValueAtQuantile(50)))
				typical.add(reference, micros(all[1].ValueAtQuantile(50)))
				return nil
			})
			if err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

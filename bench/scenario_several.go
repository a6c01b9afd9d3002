package main

import (
	"context"
	"fmt"
	"time"
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
				turns := o.turns(50)
				typical.add(ours, micros(turns[0]))
				typical.add(reference, micros(turns[1]))
				return nil
			})
			if err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

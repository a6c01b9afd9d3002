package main

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/bench/internal/stage"
	"github.com/redlatch/redlatch/internal/redistest"
)

// runQuorum measures a quorum of five servers, on loopback and with longer round trips, and with one
// server gone.
func runQuorum(ctx context.Context, b *bench, s *scenario) (r result, err error) {
	for _, where := range []struct {
		name  string
		delay time.Duration
		most  float64
	}{{"loopback", 0, 1.6}, {"1 ms round trip", distance, 1.2}} {
		for _, gone := range []string{"", ", 1 of 5 killed"} {
			typical := newMeasure(s.name, "acquire and release, "+where.name+gone+", median µs", 1, atMost(where.most, "redsync", "redsync"))
			r.measures = append(r.measures, typical)
			err := stage.Run(func(on *stage.Stage) error { return quorumAt(ctx, b, on, where.delay, gone != "", typical) })
			if err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// quorumAt measures on servers that are so far away.
func quorumAt(ctx context.Context, b *bench, on *stage.Stage, delay time.Duration, lost bool, typical *measure) error {
	servers := redistest.StartN(on, quorumSize)
	addrs := make([]string, quorumSize)
	for i, s := range servers {
		if addrs[i] = s.Addr(); delay > 0 {
			proxy := redistest.NewProxy(on, s.Addr())
			proxy.Delay(delay)
			addrs[i] = proxy.Addr()
			if lost && i == 1 {
				proxy.Refuse(on)
			}
		}
	}
	there := &bench{options: b.options, client: servers[0].Client(on), addr: addrs[0]}
	if lost {
		servers[1].Kill()
	}
	j := job{Kind: "quorum", Others: addrs[1:], Warmup: b.long(warmup), Length: b.long(3 * time.Second)}
	return there.interleave(ctx, []string{ours}, j, 1, func(_ string, o outcome) error {
		turns := o.turns(50)
		for i, name := range quorate {
			typical.add(name, micros(turns[i]))
		}
		return nil
	})
}

package main

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/redis/go-redis/v9"
)

const (
	quorumTurn = 50                   // cycles of one library at a time
	quorumRest = 5 * time.Millisecond // after them: asynchronous work is to end
)

// quorums is one caller with a key of its own, which uses each library that has quorums, in turn.
func quorums(ctx context.Context, j job, client *redis.Client, ready func()) (report, error) {
	var all []library
	var turns []*hdrhistogram.Histogram
	for _, name := range quorate {
		j.Library = name
		l, err := openQuorum(j, client)
		if err != nil {
			return report{}, err
		}
		defer l.Close()
		all, turns = append(all, l), append(turns, newHistogram())
	}
	ctx, cancel := context.WithTimeout(ctx, endOfTime)
	defer cancel()
	var r report
	ready()

	from := time.Now().Add(j.Warmup)
	for to := from.Add(j.Length); time.Now().Before(to); {
		for i, l := range all {
			for range quorumTurn {
				begun := time.Now()
				if err := l.Do(ctx, j.key(i), func() {}); err != nil {
					return r, err
				}
				if begun.After(from) {
					record(turns[i], time.Since(begun))
				}
			}
			if err := rest(ctx, quorumRest); err != nil {
				return r, err
			}
		}
	}
	for _, h := range turns {
		r.Turns = append(r.Turns, h.Export())
	}
	return r, nil
}

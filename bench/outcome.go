package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// failure says that locks went wrong, which makes whatever else was measured worthless.
func (o outcome) failure() error {
	for _, r := range o.reports {
		if r.Errors > 0 {
			return fmt.Errorf("%s: %d errors, such as: %s", o.Library, r.Errors, r.Error)
		}
	}
	return nil
}

func (o outcome) acquired() (n int64) {
	for _, r := range o.reports {
		n += r.Acquired
	}
	return n
}

func (o outcome) cyclesPerSecond() float64 {
	var rate float64
	for _, r := range o.reports {
		rate += float64(r.Cycles) / r.Measured.Seconds()
	}
	return rate
}

// sentPerAcquisition is how many commands went to Redis.
func (o outcome) sentPerAcquisition() float64 {
	return float64(o.sent) / float64(max(o.acquired(), 1))
}

// perAcquisition is some CPU time in µs.
func (o outcome) perAcquisition(cpu time.Duration) float64 {
	return float64(cpu.Microseconds()) / float64(max(o.acquired(), 1))
}

// waits are those of all processes.
func (o outcome) waits() *hdrhistogram.Histogram {
	h := newHistogram()
	for _, r := range o.reports {
		if r.Waits != nil {
			h.Merge(hdrhistogram.Import(r.Waits))
		}
	}
	return h
}

// turns are a quantile of cycles that took turns, in ns, over all processes.
func (o outcome) turns(quantile float64) []int64 {
	all := histograms(len(o.reports[0].Turns))
	at := make([]int64, len(all))
	for i, h := range all {
		for _, r := range o.reports {
			h.Merge(hdrhistogram.Import(r.Turns[i]))
		}
		at[i] = h.ValueAtQuantile(quantile)
	}
	return at
}

// fairness is Jain's index over all callers: 1 if all got the same, 1/n if one of n got
// everything.
func (o outcome) fairness() float64 {
	var n, sum, squares float64
	for _, r := range o.reports {
		for _, c := range r.PerCaller {
			n++
			sum += float64(c)
			squares += float64(c) * float64(c)
		}
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (n * squares)
}

// handovers are the times from the end of a section to the beginning of the next one, if
// that was in another process. Two sections at the same time are an error.
func (o outcome) handovers() (*hdrhistogram.Histogram, error) {
	type section struct {
		process    int
		begin, end int64
	}
	var all []section
	for i, r := range o.reports {
		for _, s := range r.Sections {
			all = append(all, section{i, s[0], s[1]})
		}
	}
	slices.SortFunc(all, func(a, b section) int { return cmp.Compare(a.begin, b.begin) })
	lost := newHistogram()
	for i := 1; i < len(all); i++ {
		gap := time.Duration(all[i].begin - all[i-1].end)
		if gap < 0 {
			return nil, fmt.Errorf("two sections ran at the same time for %v", -gap)
		}
		if all[i].process != all[i-1].process {
			record(lost, gap)
		}
	}
	return lost, nil
}

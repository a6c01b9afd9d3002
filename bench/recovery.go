package main

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// recovery is how long a kind of fault kept callers from new locks.
type recovery struct{ first, last *measure }

// recoveryNoise are the ms that two recoveries may differ by without one being slower.
const recoveryNoise = 5

func newRecovery(s *scenario, after string) recovery {
	never := atMost(1, "redsync", "redsync").or(recoveryNoise)
	return recovery{
		newMeasure(s.name, after+": first acquisition, ms", 1, never),
		newMeasure(s.name, fmt.Sprintf("%s: until all %d callers had theirs, ms", after, wanters), 1, never),
	}
}

// outage is when no caller could have a lock, from when on they could, and until when it was
// looked at.
type outage struct{ down, back, end time.Time }

// add takes in how long the callers of each job went without a lock that they could have
// had. Who has none in the end counts with what it waited so far.
func (r recovery) add(jobs []job, reports []report, o outage) error {
	for i, j := range jobs {
		var waits []time.Duration
		for _, all := range reports[i].Grants {
			wait, err := o.wait(all)
			if err != nil {
				return fmt.Errorf("%s: %w", j.Library, err)
			}
			waits = append(waits, wait)
		}
		r.first.add(j.Library, millis(slices.Min(waits)))
		r.last.add(j.Library, millis(slices.Max(waits)))
	}
	return nil
}

var errIdle = errors.New("it had no lock before the fault")

func (o outage) wait(all []grant) (time.Duration, error) {
	down, longest := o.down.UnixNano(), o.end.Sub(o.back)
	if len(all) == 0 || all[0].Begun > down {
		return 0, errIdle
	}
	n := slices.IndexFunc(all, func(g grant) bool { return g.Begun > down })
	if n < 0 {
		return longest, nil
	}
	return min(max(time.Duration(all[n].Begun-o.back.UnixNano()), 0), longest), nil
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// passage is how one caller fared through a fault that was to cost it nothing.
type passage struct{ gap, typical *measure }

func newPassage(s *scenario, after string) passage {
	return passage{
		newMeasure(s.name, after+": longest time without a new lock, ms", 1, atMost(1, "redsync", "redsync").or(recoveryNoise)),
		newMeasure(s.name, after+": acquire, median µs", 1),
	}
}

func (p passage) add(library string, all []grant, from, to time.Time) error {
	if len(all) == 0 || all[0].Begun > from.UnixNano() {
		return fmt.Errorf("%s: %w", library, errIdle)
	}
	gap, typical := through(all, from, to)
	p.gap.add(library, millis(gap))
	p.typical.add(library, micros(int64(typical)))
	return nil
}

// through returns the longest time between two locks from one instant to another, and the
// median of what it took to get those that were asked for meanwhile.
func through(all []grant, from, to time.Time) (gap, typical time.Duration) {
	begin, end := from.UnixNano(), to.UnixNano()
	var took []int64
	last, longest := begin, int64(0)
	for _, g := range all {
		if g.Begun < begin {
			continue
		}
		longest, last = max(longest, min(g.Begun, end)-last), min(g.Begun, end)
		if g.Asked < end {
			took = append(took, g.Begun-g.Asked)
		}
	}
	longest = max(longest, end-last)
	if len(took) == 0 {
		took = append(took, longest)
	}
	slices.Sort(took)
	return time.Duration(longest), time.Duration(took[len(took)/2])
}

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// report is what became of all ticks and terms.
type report struct {
	begin    time.Time
	ticks    [][]span // the runs of each tick
	terms    []span
	once     int           // ticks that ran once
	twice    int           // ticks that ran more than once
	gaps     int           // ticks that nobody ran
	runs     int           // that overlapped another one
	leaders  int           // terms that overlapped another one, or had no higher fence than an earlier one
	late     time.Duration // by which a run began later than it was due, at most
	headless time.Duration // the longest time between two terms
}

// span is a run of the job or a term of a leader.
type span struct {
	process  int
	from, to time.Time
	killed   bool
	tick     int           // of a run
	late     time.Duration // of a run
	fence    uint64        // of a term
}

// judge looks at all that happened.
func judge(p plan, ticks int, log []event) report {
	r := report{begin: p.Begin, ticks: make([][]span, ticks)}
	slices.SortStableFunc(log, func(a, b event) int { return a.At.Compare(b.At) })
	runs := spans(log, jobBegan, jobEnded)
	for _, run := range runs {
		if run.tick >= 0 && run.tick < ticks {
			r.ticks[run.tick] = append(r.ticks[run.tick], run)
		}
		r.late = max(r.late, run.late)
	}
	for _, runs := range r.ticks {
		switch len(runs) {
		case 0:
			r.gaps++
		case 1:
			r.once++
		default:
			r.twice++
		}
	}
	r.runs = overlaps(runs)
	r.terms = spans(log, termBegan, termEnded)
	r.leaders = overlaps(r.terms)
	for i, term := range r.terms {
		if i == 0 {
			continue
		}
		before := r.terms[i-1]
		if before.fence >= term.fence {
			r.leaders++
		}
		r.headless = max(r.headless, term.from.Sub(before.to))
	}
	return r
}

// spans gives what lay between two kinds of events of each process, by its begin. What was cut
// off ends where the process was killed.
func spans(log []event, begin, end string) (all []span) {
	open := map[[2]int]int{} // process and tick -> place in all
	for _, e := range log {
		at := [2]int{e.Process, e.Tick}
		switch e.What {
		case begin:
			open[at] = len(all)
			all = append(all, span{process: e.Process, from: e.At, tick: e.Tick, late: e.Late, fence: e.Fence})
		case end:
			if i, ok := open[at]; ok {
				all[i].to = e.At
				delete(open, at)
			}
		case killed:
			for at, i := range open {
				if at[0] == e.Process {
					all[i].to, all[i].killed = e.At, true
					delete(open, at)
				}
			}
		}
	}
	for _, i := range open { // it did not say that it ended: for all we know it goes on
		all[i].to = log[len(log)-1].At
	}
	slices.SortStableFunc(all, func(a, b span) int { return cmp.Or(a.from.Compare(b.from), cmp.Compare(a.fence, b.fence)) })
	return all
}

// overlaps counts those that began before all earlier ones had ended.
func overlaps(all []span) (n int) {
	var end time.Time
	for _, s := range all {
		if s.from.Before(end) {
			n++
		}
		if s.to.After(end) {
			end = s.to
		}
	}
	return n
}

// wrong says whether anything happened that the locks are to prevent.
func (r report) wrong() bool { return r.twice > 0 || r.runs > 0 || r.leaders > 0 }

func (r report) String() string {
	var b strings.Builder
	for tick, runs := range r.ticks {
		fmt.Fprintf(&b, "tick %2d: %s\n", tick, names(runs))
	}
	for _, term := range r.terms {
		end := "then it stepped down"
		if term.killed {
			end = "then it was KILLED"
		}
		fmt.Fprintf(&b, "process %d led from %s to %s, %s\n", term.process, r.since(term.from), r.since(term.to), end)
	}
	fmt.Fprintf(&b, "%d ticks ran once, %d more than once, %d not at all; %d runs overlapped\n", r.once, r.twice, r.gaps, r.runs)
	fmt.Fprintf(&b, "%d terms, %d overlapped; nobody led for %v at most\n", len(r.terms), r.leaders, r.headless.Round(time.Millisecond))
	return b.String()
}

func (r report) since(at time.Time) string { return fmt.Sprintf("%.2f s", at.Sub(r.begin).Seconds()) }

// names says which processes ran a tick.
func names(runs []span) string {
	if len(runs) == 0 {
		return "nobody"
	}
	var all []string
	for _, run := range runs {
		name := fmt.Sprintf("process %d", run.process)
		if run.killed {
			name += " (killed under it)"
		}
		all = append(all, name)
	}
	return strings.Join(all, " AND ")
}

package chaos_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const mostAccusations = 5 // of a kind

// report is what a run comes to.
type report struct {
	storm     *storm
	witness   *witness
	judgement *judgement
	leftovers []string
}

// wrong lists what must not be, some of each kind.
func (r *report) wrong() []string {
	var overlaps, leftovers, wrong []string
	for _, o := range r.judgement.overlaps[:min(len(r.judgement.overlaps), mostAccusations)] {
		overlaps = append(overlaps, "held twice: "+o.String()+r.surroundings(o.earlier.Key, o.earlier.Called, max(o.later.Left, o.earlier.until())))
	}
	for _, what := range r.leftovers {
		leftovers = append(leftovers, "left behind: "+what)
	}
	for _, kind := range [][]string{r.witness.wrong, r.judgement.disorder, r.judgement.tooSoon, r.judgement.strayed, r.judgement.late, overlaps, leftovers} {
		wrong = append(wrong, kind[:min(len(kind), mostAccusations)]...)
	}
	return wrong
}

// String is the report in a few lines.
func (r *report) String() string {
	c, j := r.witness.tally, r.judgement
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "\n  "+format, args...) }
	granted := 0
	for _, n := range c.outcomes {
		granted += n
	}
	line("%v, servers with clocks of their own: %d", r.storm.net.speech, len(r.storm.net.clocks))
	line("%d calls of %d processes, %d granted (%d handed over locally, %d entered again), %d writes",
		c.calls, r.storm.crew.started, granted, c.local, c.nested, c.writes)
	line("leases: %s", counts(c.outcomes))
	line("not granted: %s", counts(c.misses))
	faults := make(map[string]int)
	for _, i := range r.storm.log {
		faults[i.kind]++
	}
	line("%d faults: %s", len(r.storm.log), counts(faults))
	line("leases lost and reported: %d, to observers only: %d", c.outcomes[lost], c.observed)
	line("leases lost and not reported: %d", j.notReported())
	line("held twice: %d, besides %d that Redis lost with its data (%d times)", len(j.overlaps), j.excused, len(r.storm.losses))
	if r.storm.net.keeper != nil {
		line("primaries replaced: %d times; held twice meanwhile, and neither holder learned of it: %d",
			r.storm.replaced, j.unaware)
	}
	line("stale writes stopped by the fence: %d", c.stale)
	if l := j.longest; l != nil {
		line("longest wait: %v (of processes that were not stopped meanwhile), in vain: %v",
			l.wait().Round(time.Millisecond), c.inVain.Round(time.Millisecond))
	}
	line("latest end of a context after its lease: %v", j.latest.Round(time.Microsecond))
	line("revoked or broken: %d, holders told: %d", len(r.storm.stepsIn), j.revocations)
	kinds := make(map[string]int)
	for _, key := range otherKeys {
		kinds[key] = len(r.witness.history[key])
	}
	line("holds: %s", counts(kinds))
	line("left behind: %d", len(r.leftovers))
	return b.String()
}

func counts[K ~string](m map[K]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}

// surroundings lists the leases of a key and the faults between two instants.
func (r *report) surroundings(key string, from, to int64) string {
	var b strings.Builder
	at := func(instant int64) string {
		if instant == 0 {
			return "-"
		}
		return time.Duration(instant - from).Round(time.Microsecond).String()
	}
	fmt.Fprintf(&b, "\n    leases of %q at that time, which begins at 0s", key)
	for _, h := range r.witness.history[key] {
		if h.Called <= to && max(h.Left, h.Entered) >= from {
			fmt.Fprintf(&b, "\n      %v of slot %d fence %d ttl %v local %t trusting %t: called %s entered %s believed %s left %s deadline %s ended %s: %s",
				h.name, h.process.slot, h.Fence, h.TTL, h.Local, h.Trusting, at(h.Called), at(h.Entered), at(h.until()),
				at(h.Left), at(h.Deadline), at(h.Ended), h.Outcome)
		}
	}
	b.WriteString("\n    faults at that time")
	for _, i := range r.storm.log {
		if i.meets(from-int64(longestTTL), to) {
			fmt.Fprintf(&b, "\n      %v from %s to %s", i, at(i.from), at(i.to))
		}
	}
	return b.String()
}

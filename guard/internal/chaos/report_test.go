package chaos_test

import (
	"fmt"
	"strings"
)

const mostReported = 5 // of a kind

// report is what a run comes to.
type report struct {
	injector  *injector
	witness   *witness
	judgement *judgement
	leftovers []string
}

// wrong lists what must not be, some of each kind.
func (r *report) wrong() (wrong []string) {
	var overlaps []string
	for _, o := range r.judgement.overlaps[:min(len(r.judgement.overlaps), mostReported)] {
		overlaps = append(overlaps, "held twice: "+o.String()+r.surroundings(o.earlier.Key, o.earlier.Called, max(o.later.Left, o.earlier.until())))
	}
	j := r.judgement
	for _, kind := range [][]string{r.witness.wrong, j.disorder, j.tooSoon, j.late, overlaps, r.leftovers} {
		wrong = append(wrong, kind[:min(len(kind), mostReported)]...)
	}
	return wrong
}

// String says what was tested.
func (r *report) String() string {
	w, s := r.witness, r.injector
	return fmt.Sprintf("RESP%d; %d calls of %d processes, leases: %v; %d faults; held twice: %d, besides %d as Redis lost data (%d times)",
		s.net.protocol, w.calls, s.workers.started, w.outcomes, len(s.log), len(r.judgement.overlaps), r.judgement.excused, len(s.losses))
}

// surroundings lists the leases of a key and the faults between two instants, which are in ns.
func (r *report) surroundings(key string, from, to int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n    leases of %q at that time, which begins at %d", key, from)
	for _, h := range r.witness.history[key] {
		if h.Called <= to && max(h.Left, h.Entered) >= from {
			fmt.Fprintf(&b, "\n      %v of slot %d: %+v", h.name, h.process.slot, h.lease)
		}
	}
	b.WriteString("\n    faults at that time")
	for _, i := range r.injector.log {
		if i.meets(from-int64(longestTTL), to) {
			fmt.Fprintf(&b, "\n      %s (%s): %+v", i.kind, i.target, i.span)
		}
	}
	return b.String()
}

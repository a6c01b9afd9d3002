package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// table has the verdicts of all rounds.
type table struct{ rows []*row }

type row struct {
	scenario *scenario
	rounds   []map[string]verdict // by library
}

// play plays the rounds of a scenario side by side, and notes their verdicts if there are all.
func (t *table) play(sc *scenario, o options) error {
	r := &row{scenario: sc, rounds: make([]map[string]verdict, o.rounds)}
	errs := make([]error, o.rounds)
	var all sync.WaitGroup
	for i := range o.rounds {
		all.Go(func() {
			r.rounds[i], errs[i] = sc.playCalmly(o)
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	t.rows = append(t.rows, r)
	return nil
}

// cells are the columns of a library's verdict. Where rounds differ, the cell says so.
func (r *row) cells(library string) []string {
	var all [][]string // by column
	raced := slices.ContainsFunc(r.rounds, func(verdicts map[string]verdict) bool { return verdicts[library].race })
	for _, verdicts := range r.rounds {
		v := verdicts[library]
		if raced && v.Two == "no" {
			v = v.asRace()
		}
		for i, text := range []string{v.Two, v.Notified, v.Late, v.Next, v.Told} {
			if len(all) <= i {
				all = append(all, nil)
			}
			if !slices.Contains(all[i], text) {
				all[i] = append(all[i], text)
			}
		}
	}
	cells := make([]string, len(all))
	for i, texts := range all {
		slices.Sort(texts)
		cells[i] = strings.Join(texts, unstable)
	}
	return cells
}

// unstable stands between the verdicts of rounds that differ.
const unstable = " *or* "

func (t *table) markdown(libraries []string) string {
	var b strings.Builder
	b.WriteString("| fault | library | two at work | work notified | late write | next caller has it | callers are told |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, r := range t.rows {
		fault := r.scenario.fault
		for _, l := range libraries {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", fault, l, strings.Join(r.cells(l), " | "))
			fault = ""
		}
	}
	return b.String()
}

// disagreement names the rows in which rounds differ, on a line.
func (t *table) disagreement() string {
	var rows []string
	for _, r := range t.rows {
		for l := range r.rounds[0] {
			if slices.ContainsFunc(r.cells(l), func(s string) bool { return strings.Contains(s, unstable) }) {
				rows = append(rows, r.scenario.name+" of "+l)
			}
		}
	}
	if len(rows) == 0 {
		return ""
	}
	slices.Sort(rows)
	return "\nRounds differ: " + strings.Join(rows, ", ") + ".\n"
}

// print says what each call saw, in ms from the fault.
func (s *scene) print(to io.Writer) {
	var b strings.Builder // in one piece: other rounds print, too
	for _, p := range s.pairs {
		for _, n := range []int{holder, next, third} {
			c := s.witness.of(p.library, n)
			if c.asked.IsZero() {
				continue
			}
			at := func(t time.Time) string {
				if t.IsZero() {
					return "-"
				}
				return fmt.Sprint(t.Sub(s.harmed).Milliseconds())
			}
			fmt.Fprintf(&b, "  %-12s %d asked %s begun %s noticed %s ended %s unlocked %s %q refused %s %q late %d (%d together, %d stale) freed %s\n",
				p.library, n, at(c.asked), at(c.begun), at(c.noticed), at(c.ended), at(c.unlocked), c.unlockErr,
				at(c.refused), c.refusal, c.late, c.together, c.stale, at(s.freed))
		}
	}
	_, _ = io.WriteString(to, b.String())
}

package main

import (
	"fmt"
	"strconv"
	"strings"
)

// formatResults is RESULTS.md.
func formatResults(runs []measured) string {
	var text strings.Builder
	fmt.Fprintf(&text, "# Results\n\nWritten by `make bench`. [README.md](README.md) says how to read it, and what \"tuned\" is.\n\n")
	for _, line := range headlines(runs[0].results) {
		fmt.Fprintf(&text, "- %s\n", line)
	}
	if busy(runs[0].load) {
		fmt.Fprintf(&text, "\n**The machine was busy with other work** when this was measured. Read the ratios, with care, and no rates.\n")
	}
	fmt.Fprintf(&text, "\nMeasured with:\n\n")
	for _, line := range runs[0].about {
		fmt.Fprintf(&text, "- %s\n", line)
	}
	fmt.Fprintf(&text, "\n%s", formatTable(append([][]string{header}, rows(runs[0].results)...), isNumber))
	if len(runs) > 1 {
		fmt.Fprintf(&text, "\nOn other servers, redlatch and the best peer:\n\n%s",
			formatTable(serverRows(runs), func(column int) bool { return column > 1 }))
	}
	return text.String()
}

// busy says of a load average that other work had at least a core of its own.
func busy(load string) bool {
	last, _, _ := strings.Cut(load, " ")
	n, err := strconv.ParseFloat(last, 64)
	return err == nil && n >= 1
}

// theHeadlines are what most users ask first.
var theHeadlines = []struct {
	title    string
	measures []headline
}{
	{"One caller on a free key", []headline{
		{"solo", bareRatio, "× two bare scripts"},
		{"solo", bareRatio + tuned, "× two bare scripts"},
	}},
	{"Callers of one process with a key each", []headline{
		{"distinct", "cycles/s, goroutines: 8", "cycles/s with 8 of them"},
		{"distinct", "cycles/s, goroutines: 64", "with 64"},
		{"distinct", "cycles/s, goroutines: 512", "with 512"},
		{"distinct", "cycles/s, goroutines: 512, tuned", "with 512"},
	}},
	{"One key that all want", []headline{
		{"hot", "cycles/s, goroutines: 256", "cycles/s in one process"},
		{"crowd", "cycles/s", "in four, for 1 ms each"},
		{"crowd", "wait, p99 ms", "ms until 99 % have it"},
	}},
	{"Redis 1 ms away, 8 callers", []headline{
		{"network", "cycles/s, goroutines: 8", "cycles/s"},
		{"network", "cycles/s, goroutines: 8, tuned", "cycles/s"},
	}},
	{"100 processes with 2 callers each", []headline{
		{"many", "CPU of redis-server per acquisition, µs", "µs of Redis per cycle"},
		{"many", "CPU of redis-server per acquisition, µs, tuned", "µs of Redis per cycle"},
	}},
}

// headline is a measure that names the first library, and its figure.
type headline struct{ scenario, measure, unit string }

// headlines say in words which library is first where, as far as it was measured.
func headlines(all []result) (lines []string) {
	for _, h := range theHeadlines {
		var parts []string
		for _, of := range h.measures {
			for _, m := range measures(all, of.scenario) {
				if m.name == of.measure {
					parts = append(parts, m.first(of.unit))
				}
			}
		}
		if len(parts) > 0 {
			lines = append(lines, h.title+": "+strings.Join(parts, "; ")+".")
		}
	}
	return lines
}

// measures are those of a scenario.
func measures(all []result, scenario string) (found []*measure) {
	for _, r := range all {
		for _, m := range r.measures {
			if m.scenario == scenario {
				found = append(found, m)
			}
		}
	}
	return found
}

// first says which library is the first, and how ours compares with the best of the others.
func (m *measure) first(unit string) string {
	peer, its := m.bestPeer()
	mine, _ := m.at(ours)
	front, value, rest := peer, its, fmt.Sprintf("redlatch has %s, %.2f × that", m.format(mine), mine/its)
	if m.better(mine, its) {
		front, value, rest = ours, mine, peer+" is next with "+m.format(its)
	}
	with := ""
	if strings.HasSuffix(m.name, tuned) {
		with = "tuned, "
	}
	return fmt.Sprintf("%s%s is first with %s %s (%s)", with, front, m.format(value), unit, rest)
}

// serverRows are the measures that were made on all servers.
func serverRows(runs []measured) [][]string {
	table := [][]string{{"scenario", "measured"}}
	for _, run := range runs {
		table[0] = append(table[0], run.server, "best peer")
	}
	for _, r := range runs[1].results {
		for _, m := range r.measures {
			row := []string{m.scenario, m.name}
			for _, run := range runs {
				for _, on := range measures(run.results, m.scenario) {
					if on.name == m.name {
						peer, its := on.bestPeer()
						row = append(row, on.cell(ours), on.format(its)+" "+peer)
					}
				}
			}
			table = append(table, row)
		}
	}
	return table
}

// bestPeer is the peer with the best figure.
func (m *measure) bestPeer() (name string, value float64) {
	for _, peer := range peers {
		if v, ok := m.at(peer); ok && (name == "" || m.better(v, value)) {
			name, value = peer, v
		}
	}
	return name, value
}

// better reports whether one figure is better than another.
func (m *measure) better(a, b float64) bool {
	if strings.HasPrefix(m.name, "cycles/s") {
		return a > b
	}
	return a < b
}

func (m *measure) format(value float64) string { return strconv.FormatFloat(value, 'f', m.digits, 64) }

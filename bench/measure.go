package main

import (
	"fmt"
	"math"
	"slices"
)

// measure is something that was measured: a line of the table. Values are by column,
// and by round.
type measure struct {
	scenario string
	name     string
	digits   int // after the decimal point
	values   map[string][]float64
	bars     []bar
}

// reference is a column that is no library: what the scenario compares with.
const reference = "reference"

func newMeasure(scenario, name string, digits int, bars ...bar) *measure {
	return &measure{scenario: scenario, name: name, digits: digits, values: map[string][]float64{}, bars: bars}
}

func (m *measure) add(column string, value float64) {
	m.values[column] = append(m.values[column], value)
}

// at is the median of a column.
func (m *measure) at(column string) (float64, bool) {
	v := m.values[column]
	return median(v), len(v) > 0
}

// bar is what our value has to reach.
type bar struct {
	limit   float64
	atLeast bool     // else at most
	against []string // columns, of which the best one counts; none: the value itself
	called  string   // what they are called
	slack   float64  // what a value may be above the limit, being noise
}

func atLeast(limit float64, called string, against ...string) bar {
	return bar{limit: limit, atLeast: true, called: called, against: against}
}

func atMost(limit float64, called string, against ...string) bar {
	return bar{limit: limit, called: called, against: against}
}

// or lets a value be above its maximum by noise.
func (b bar) or(slack float64) bar {
	b.slack = slack
	return b
}

func (b bar) String() string {
	sign, times := "≤", ""
	if b.atLeast {
		sign = "≥"
	}
	if len(b.against) > 0 {
		times = " × "
	}
	text := fmt.Sprintf("%s %g%s%s", sign, b.limit, times, b.called)
	if b.slack > 0 {
		text += fmt.Sprintf(" + %g", b.slack)
	}
	return text
}

// judge returns what counts for the bar: the median over the rounds of our value's ratio,
// each to what was measured in the same round.
func (b bar) judge(m *measure) (value float64, met, ok bool) {
	mine := m.values[ours]
	if len(mine) == 0 {
		return 0, false, false
	}
	if len(b.against) == 0 {
		value = median(mine)
		return value, b.meets(value), true
	}
	ratios, judged := make([]float64, len(mine)), make([]float64, len(mine))
	for round, v := range mine {
		var others []float64
		for _, column := range b.against {
			if v := m.values[column]; round < len(v) {
				others = append(others, v[round])
			}
		}
		if len(others) == 0 {
			return 0, false, false
		}
		best := slices.Min(others)
		if b.atLeast {
			best = slices.Max(others)
		}
		ratios[round], judged[round] = v/best, (v-b.slack)/best
	}
	return median(ratios), b.meets(median(judged)), true
}

func (b bar) meets(value float64) bool {
	if b.atLeast {
		return value >= b.limit
	}
	return value <= b.limit
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

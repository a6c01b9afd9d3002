package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMeasure_Bars(t *testing.T) {
	m := &measure{values: map[string][]float64{
		ours:      {10, 30, 80}, // the median counts
		"redsync": {1, 10, 10},
		"other":   {5, 2, 1},
	}}
	for name, c := range map[string]struct {
		bar   bar
		value float64
		met   bool
	}{
		"the value itself":                         {atLeast(30, ""), 30, true},
		"not reached":                              {atLeast(31, ""), 30, false},
		"ratios are taken in each round":           {atLeast(3, "redsync", "redsync"), 8, true},
		"of the best in each round":                {atLeast(3.1, "best", "redsync", "other"), 3, false},
		"above by noise is met":                    {atMost(1, "redsync", "redsync").or(20), 8, true},
		"and by more is not":                       {atMost(1, "redsync", "redsync").or(19), 8, false},
		"the best of small values is the smallest": {atMost(10, "best", "redsync", "other"), 15, false},
	} {
		value, met, ok := c.bar.judge(m)
		require.True(t, ok, name)
		assert.InDelta(t, c.value, value, 1e-9, name)
		assert.Equal(t, c.met, met, name)
	}
	_, _, ok := atLeast(1, "none", "none").judge(m)
	assert.False(t, ok, "nothing to compare with")
	_, _, ok = atLeast(1, "").judge(&measure{})
	assert.False(t, ok, "nothing measured")
}

func TestMeasure_Fairness(t *testing.T) {
	all := outcome{reports: []report{{PerCaller: []int64{7, 7}}, {PerCaller: []int64{7, 7}}}}
	oneOfFour := outcome{reports: []report{{PerCaller: []int64{0, 9}}, {PerCaller: []int64{0, 0}}}}
	assert.InDelta(t, 1, all.fairness(), 1e-9)
	assert.InDelta(t, 0.25, oneOfFour.fairness(), 1e-9)
}

func TestMeasure_Handovers(t *testing.T) {
	ms := func(begin, end int64) [2]int64 {
		return [2]int64{begin * int64(time.Millisecond), end * int64(time.Millisecond)}
	}
	o := outcome{reports: []report{
		{Sections: [][2]int64{ms(0, 10), ms(30, 40), ms(41, 50)}},
		{Sections: [][2]int64{ms(12, 20)}},
	}}
	lost, err := o.handovers()
	require.NoError(t, err)
	assert.EqualValues(t, 2, lost.TotalCount(), "what stays in a process is no hand-over")
	assert.InDelta(t, 6*time.Millisecond, lost.Mean(), float64(10*time.Microsecond))

	o.reports[1].Sections = [][2]int64{ms(9, 20)}
	_, err = o.handovers()
	assert.ErrorContains(t, err, "at the same time")
}

func TestMeasure_Stats(t *testing.T) {
	s := parseStats("# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:0.25\r\nused_cpu_sys_children:9\r\n" +
		"# Commandstats\r\ncmdstat_set:calls=3,usec=4\r\ncmdstat_evalsha:calls=20,usec=9\r\ncmdstat_eval:calls=1,usec=9\r\n")
	assert.Equal(t, 1750*time.Millisecond, s.cpu)
	assert.EqualValues(t, 21, s.sent("redislock"), "its scripts' own commands do not count")
	assert.EqualValues(t, 24, s.sent("redsync"), "which sends SET itself")
}

// Who is first is said whether it is ours or not.
func TestMeasure_Headlines(t *testing.T) {
	m := newMeasure("distinct", "cycles/s, goroutines: 8", 0)
	m.add(ours, 50)
	m.add("redsync", 70)
	m.add("redislock", 100)
	with := newMeasure("solo", bareRatio+tuned, 2)
	with.add(ours, 0.8)
	with.add("redsync", 1.5)
	with.add("redislock", 1.2)
	assert.Equal(t, []string{
		"One caller on a free key: tuned, redlatch is first with 0.80 × two bare scripts (redislock is next with 1.20).",
		"Callers of one process with a key each: redislock is first with 100 cycles/s with 8 of them (redlatch has 50, 0.50 × that).",
	}, headlines([]result{{measures: []*measure{m, with}}}))
}

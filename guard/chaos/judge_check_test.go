package chaos_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
)

// holdsOf makes records of what a test cares about. Instants are in ms.
func holdsOf(leases ...lease) []*record {
	holds := make([]*record, len(leases))
	for i, l := range leases {
		l.Key = "order:42"
		for _, instant := range []*int64{&l.Called, &l.Entered, &l.Believed, &l.Left, &l.Ended, &l.Deadline} {
			*instant *= int64(time.Millisecond)
		}
		holds[i] = &record{lease: l, name: leaseName{1, int64(i + 1)}, process: &process{}}
	}
	return holds
}

func ms(from, to int64) span {
	return span{from * int64(time.Millisecond), to * int64(time.Millisecond)}
}

func TestTheJudge(t *testing.T) {
	const ttl = 100 * time.Millisecond
	first := lease{Fence: 1, TTL: ttl, Called: 1000, Entered: 1010, Left: 1050, Outcome: kept}
	for name, c := range map[string]struct {
		second                      lease
		losses                      []span
		overlaps, excused, disorder int
	}{
		"one after the other":     {second: lease{Fence: 2, Called: 1005, Entered: 1051, Left: 1060, Outcome: kept}},
		"two at once":             {second: lease{Fence: 2, Called: 1005, Entered: 1049, Left: 1060, Outcome: kept}, overlaps: 1},
		"the second is lost":      {second: lease{Fence: 2, Called: 1005, Entered: 1049, Left: 1060, Outcome: lost}, overlaps: 1},
		"one fence":               {second: lease{Fence: 1, Called: 1005, Entered: 1051, Left: 1060, Outcome: kept}, disorder: 1},
		"a fence that falls":      {second: lease{Fence: 0, Called: 1060, Entered: 1061, Left: 1070, Outcome: kept}, disorder: 1},
		"data lost between":       {second: lease{Fence: 2, Called: 1040, Entered: 1045, Left: 1060, Outcome: kept}, losses: []span{ms(1020, 1030)}, excused: 1},
		"data lost before":        {second: lease{Fence: 2, Called: 1040, Entered: 1045, Left: 1060, Outcome: kept}, losses: []span{ms(900, 990)}, overlaps: 1},
		"data lost after":         {second: lease{Fence: 2, Called: 1040, Entered: 1045, Left: 1060, Outcome: kept}, losses: []span{ms(1047, 1048)}, overlaps: 1},
		"data loss and low fence": {second: lease{Fence: 0, Called: 1060, Entered: 1065, Left: 1070, Outcome: kept}, losses: []span{ms(1055, 1057)}, disorder: 1},
	} {
		t.Run(name, func(t *testing.T) {
			j := &judgement{}
			holds := holdsOf(first, c.second)
			j.order(holds)
			j.exclusion(holds, c.losses)
			assert.Len(t, j.overlaps, c.overlaps)
			assert.Equal(t, c.excused, j.excused)
			assert.Len(t, j.disorder, c.disorder)
		})
	}
}

// Data loss is no excuse for a holder that goes on believing for more than its ttl.
func TestTheJudgeBoundsTheExcuse(t *testing.T) {
	losses := []span{ms(1020, 1030)}
	for until, excused := range map[int64]int{1130: 1, 1131: 0} {
		j := &judgement{}
		j.exclusion(holdsOf(
			lease{Fence: 1, TTL: 100 * time.Millisecond, Called: 1000, Entered: 1010, Believed: until, Left: 1200, Outcome: lost},
			lease{Fence: 2, TTL: 100 * time.Millisecond, Called: 1040, Entered: 1045, Left: 1060, Outcome: kept},
		), losses)
		assert.Equal(t, excused, j.excused)
		assert.Len(t, j.overlaps, 1-excused)
	}
}

// A holder whose process was stopped is not to blame for what it could not know; one
// whose work went on without a word is.
func TestTheJudgeOfContexts(t *testing.T) {
	for name, c := range map[string]struct {
		ended int64
		stops []span
		late  int
	}{
		"in time":                  {ended: 1099},
		"a little late":            {ended: 1102},
		"too late":                 {ended: 4000, late: 1},
		"never":                    {late: 1},
		"late after being stopped": {ended: 4000, stops: []span{ms(1050, 3990)}},
	} {
		t.Run(name, func(t *testing.T) {
			holds := holdsOf(lease{Trusting: true, Deadline: 1100, Ended: c.ended, Left: 4001, Outcome: lost})
			holds[0].process.stops = c.stops
			j := &judgement{}
			j.contexts(holds)
			assert.Len(t, j.late, c.late)
		})
	}
}

// The checks that run in linear time, because fences tell the order, and those of
// porcupine agree about random histories.
func TestTheJudgeAgreesWithPorcupine(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	verdicts := make(map[bool]int)
	for range 3000 {
		var leases []lease
		at := int64(0)
		for fence := range 2 + rng.IntN(8) {
			// Mostly one after another, with a slip now and then.
			called := at - rng.Int64N(20)
			entered := max(at, called) + rng.Int64N(5)
			at = entered + 1 + rng.Int64N(5)
			leases = append(leases, lease{Fence: uint64(fence + 1), Called: called, Entered: entered, Left: at, Outcome: kept})
			if chance(rng, 5) {
				at -= rng.Int64N(15)
			}
		}
		holds := holdsOf(leases...)
		j := &judgement{}
		j.order(holds)
		ends := j.exclusion(holds, nil)
		fine := len(j.overlaps) == 0 && len(j.disorder) == 0
		assert.Equal(t, fine, linearizable(holds, ends) == porcupine.Ok, "%+v", leases)
		verdicts[fine]++
	}
	assert.Greater(t, min(verdicts[true], verdicts[false]), 300)
}

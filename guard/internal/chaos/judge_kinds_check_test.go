package chaos_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Several may be inside of a key, and never more than anybody who is inside puts up with.
func TestJudgeKindsCheck_TheJudgeOfLimits(t *testing.T) {
	const ttl = 100 * time.Millisecond
	in := func(limit int, entered, left int64) lease {
		return lease{Fence: uint64(entered), TTL: ttl, Limit: limit, Called: entered - 5, Entered: entered, Left: left, Outcome: kept}
	}
	with := func(l lease, change func(*lease)) lease {
		change(&l)
		return l
	}
	for name, c := range map[string]struct {
		holds                       []lease
		losses                      []loss
		overlaps, excused, disorder int
	}{
		"three of three":               {holds: []lease{in(3, 1010, 1050), in(3, 1011, 1050), in(3, 1012, 1050), in(3, 1051, 1060)}},
		"four of three":                {holds: []lease{in(3, 1010, 1050), in(3, 1011, 1050), in(3, 1012, 1050), in(3, 1049, 1060)}, overlaps: 1},
		"the strictest rules":          {holds: []lease{in(2, 1010, 1050), in(3, 1011, 1050), in(3, 1012, 1050)}, overlaps: 1},
		"the strictest is gone":        {holds: []lease{in(2, 1010, 1012), in(3, 1011, 1050), in(3, 1012, 1050)}},
		"the strictest comes late":     {holds: []lease{in(3, 1010, 1050), in(3, 1011, 1050), in(2, 1012, 1050)}, overlaps: 1},
		"readers":                      {holds: []lease{in(shared, 1010, 1050), in(shared, 1011, 1050), in(shared, 1012, 1050), in(shared, 1013, 1050)}},
		"a writer beside a reader":     {holds: []lease{in(shared, 1010, 1050), in(0, 1049, 1060)}, overlaps: 1},
		"a reader beside a writer":     {holds: []lease{in(0, 1010, 1050), in(shared, 1049, 1060)}, overlaps: 1},
		"a writer after readers":       {holds: []lease{in(shared, 1010, 1050), in(shared, 1011, 1048), in(0, 1051, 1060)}},
		"a reader that Redis forgot":   {holds: []lease{in(shared, 1010, 1050), in(0, 1049, 1060)}, losses: lossesOf(ms(1020, 1030)), excused: 1},
		"forgotten, and held too long": {holds: []lease{in(shared, 1010, 1190), in(0, 1049, 1060)}, losses: lossesOf(ms(1020, 1030)), overlaps: 1},
		"one of three is forgotten": {
			holds:  []lease{in(2, 1010, 1050), in(3, 1032, 1060), in(3, 1033, 1060), in(3, 1034, 1060)},
			losses: lossesOf(ms(1020, 1030)), excused: 2, // two come while it is still there
		},
		"a reader's fence above a later writer's": {
			holds:    []lease{with(in(shared, 1010, 1020), func(l *lease) { l.Fence = 2000 }), in(0, 1040, 1041)},
			disorder: 1,
		},
		"a reader's fence below an earlier writer's": {
			holds:    []lease{in(0, 1010, 1020), with(in(shared, 1040, 1041), func(l *lease) { l.Fence = 5 })},
			disorder: 1,
		},
		"readers of one claim beside permits": {
			holds: []lease{
				in(shared, 1010, 1050), with(in(shared, 1011, 1050), func(l *lease) { l.Fence = 1010 }),
				in(3, 1012, 1050), in(3, 1013, 1050),
			},
		},
		"readers of two claims beside permits": {
			holds:    []lease{in(shared, 1010, 1050), in(shared, 1011, 1050), in(3, 1012, 1050), in(3, 1013, 1050)},
			overlaps: 1,
		},
		"permits under one fence": {
			holds: []lease{
				in(2, 1010, 1050), with(in(2, 1011, 1050), func(l *lease) { l.Fence = 1010 }),
				with(in(2, 1012, 1050), func(l *lease) { l.Fence = 1010 }),
			},
			overlaps: 1,
		},
		"readers of one claim": {
			holds: []lease{in(shared, 1010, 1020), with(in(shared, 1030, 1041), func(l *lease) { l.Fence = 1010 }), in(0, 1050, 1051)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := &judgement{}
			j.limits(holdsOf(c.holds...), c.losses)
			assert.Len(t, j.overlaps, c.overlaps)
			assert.Equal(t, c.excused, j.excused)
			assert.Len(t, j.disorder, c.disorder, "%v", j.disorder)
		})
	}
}

func TestJudgeKindsCheck_TheJudgeOfMinHolds(t *testing.T) {
	const kept50 = 50 * time.Millisecond
	for name, c := range map[string]struct {
		entered int64
		losses  []loss
		tooSoon int
	}{
		"in time":            {entered: 1050},
		"by a fast clock":    {entered: 1045},
		"too soon":           {entered: 1044, tooSoon: 1},
		"Redis forgot":       {entered: 1044, losses: lossesOf(ms(1020, 1021))},
		"Redis forgot later": {entered: 1044, losses: lossesOf(ms(1046, 1050)), tooSoon: 1},
	} {
		t.Run(name, func(t *testing.T) {
			holds := holdsOf(
				lease{Fence: 1, TTL: kept50, MinHold: kept50, Called: 1000, Entered: 1001, Left: 1002, Outcome: killed},
				lease{Fence: 2, TTL: kept50, Called: 1003, Entered: c.entered, Left: 1060, Outcome: kept},
			)
			j := &judgement{}
			j.order(holds, c.losses)
			j.minHolds(holds, c.losses)
			assert.Len(t, j.tooSoon, c.tooSoon)
		})
	}
}

// Whoever steps in hits the hold that was meant, and that one is told.
func TestJudgeKindsCheck_TheJudgeOfRevocations(t *testing.T) {
	const key, ttl = "order:42", 100 * time.Millisecond
	meant := func(fence uint64) []stepIn {
		return []stepIn{{span: ms(1020, 1021), key: key, fence: fence, done: true}}
	}
	first := lease{Fence: 5, TTL: ttl, Called: 1000, Entered: 1001, Left: 1010, Outcome: kept}
	for name, c := range map[string]struct {
		hold    lease
		steps   []stepIn
		other   bool // the first is another process's
		strayed int
	}{
		"meant":                     {lease{Fence: 7, Left: 1030, Outcome: revoked}, meant(7), true, 0},
		"another was":               {lease{Fence: 7, Left: 1030, Outcome: revoked}, meant(8), true, 1},
		"one of before was":         {lease{Fence: 7, Left: 1030, Outcome: revoked}, meant(5), true, 1},
		"the claim that it is from": {lease{Fence: 7, Left: 1030, Outcome: revoked}, meant(5), false, 0},
		"nobody was":                {lease{Fence: 7, Left: 1030, Outcome: revoked}, nil, true, 1},
		"before it was meant":       {lease{Fence: 7, Left: 1018, Returned: 1019, Outcome: revoked}, meant(7), true, 1},
		"when its work was done":    {lease{Fence: 7, Left: 1018, Returned: 1022, Outcome: revoked}, meant(7), true, 0},
		"it ended by itself":        {lease{Fence: 7, Left: 1030, Outcome: kept}, meant(7), true, 0},
		"it was not told":           {lease{Fence: 7, Left: 4000, Outcome: kept}, meant(7), true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c.hold.TTL, c.hold.Called, c.hold.Entered = ttl, 1011, 1012
			holds := holdsOf(first, c.hold)
			if !c.other {
				holds[0].process = holds[1].process
			}
			j := &judgement{}
			j.revoked(key, holds, c.steps)
			assert.Len(t, j.strayed, c.strayed)
		})
	}
}

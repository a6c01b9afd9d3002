package chaos_test

import (
	"math/rand/v2"
	"slices"
	"strings"
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
		for _, instant := range []*int64{&l.Called, &l.Entered, &l.Believed, &l.Left, &l.Returned, &l.Ended, &l.Deadline} {
			*instant *= int64(time.Millisecond)
		}
		holds[i] = &record{lease: l, name: leaseName{1, int64(i + 1)}, process: &process{}}
	}
	return holds
}

func ms(from, to int64) span {
	return span{from * int64(time.Millisecond), to * int64(time.Millisecond)}
}

func lossesOf(spans ...span) (losses []loss) {
	for _, s := range spans {
		losses = append(losses, loss{span: s})
	}
	return losses
}

func TestJudgeCheck_TheJudge(t *testing.T) {
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
			j.order(holds, lossesOf(c.losses...))
			j.exclusion(holds, lossesOf(c.losses...))
			assert.Len(t, j.overlaps, c.overlaps)
			assert.Equal(t, c.excused, j.excused)
			assert.Len(t, j.disorder, c.disorder)
		})
	}
}

// Data loss is no excuse for a holder that goes on believing for more than its ttl.
func TestJudgeCheck_TheJudgeBoundsTheExcuse(t *testing.T) {
	losses := lossesOf(ms(1020, 1030))
	for until, excused := range map[int64]int{1130: 1, 1131: 0} {
		j := &judgement{}
		holds := holdsOf(
			lease{Fence: 1, TTL: 100 * time.Millisecond, Called: 1000, Entered: 1010, Believed: until, Left: 1200, Outcome: lost},
			lease{Fence: 2, TTL: 100 * time.Millisecond, Called: 1040, Entered: 1045, Left: 1060, Outcome: kept},
		)
		j.order(holds, losses)
		j.exclusion(holds, losses)
		assert.Equal(t, excused, j.excused)
		assert.Len(t, j.overlaps, 1-excused)
	}
}

// Where another server took over, two may have granted. The one that was replaced may be
// the later: the earlier hold goes on, and has to exclude whoever comes next.
func TestJudgeCheck_TheJudgeOfTwoServers(t *testing.T) {
	const ttl = 100 * time.Millisecond
	first := lease{Fence: 1, TTL: ttl, Called: 1000, Entered: 1010, Left: 1500, Outcome: kept}
	during := lease{Fence: 2, TTL: ttl, Called: 1015, Entered: 1020, Left: 1120, Outcome: kept}
	for name, c := range map[string]struct {
		later             []lease
		twice             bool
		overlaps, excused int
		verdict           porcupine.CheckResult
	}{
		"two at once meanwhile":       {[]lease{during}, true, 0, 1, porcupine.Ok},
		"one server lost data":        {[]lease{during}, false, 1, 0, porcupine.Illegal},
		"for too long":                {[]lease{{Fence: 2, TTL: ttl, Called: 1015, Entered: 1020, Left: 1131, Outcome: kept}}, true, 1, 0, porcupine.Illegal},
		"too late":                    {[]lease{{Fence: 2, TTL: ttl, Called: 1031, Entered: 1040, Left: 1041, Outcome: kept}}, true, 1, 0, porcupine.Illegal},
		"and a third when it is over": {[]lease{during, {Fence: 3, TTL: ttl, Called: 1300, Entered: 1310, Left: 1320, Outcome: kept}}, true, 1, 1, porcupine.Illegal},
	} {
		t.Run(name, func(t *testing.T) {
			j := &judgement{}
			holds, losses := holdsOf(append([]lease{first}, c.later...)...), []loss{{span: ms(1005, 1030), twice: c.twice}}
			j.order(holds, losses)
			ends := j.exclusion(holds, losses)
			assert.Len(t, j.overlaps, c.overlaps)
			assert.Equal(t, c.excused, j.excused)
			assert.Equal(t, c.verdict, linearizable(holds, ends))
			assert.Empty(t, j.disorder)
		})
	}
}

// A lock that is passed on within a process has a fence of the time at which Redis
// granted it, and nobody gets it meanwhile unless Redis lost it.
func TestJudgeCheck_TheJudgeOfFencesPassedOn(t *testing.T) {
	for name, c := range map[string]struct {
		local    bool
		losses   []loss
		disorder int
	}{
		"passed on, and forgotten":  {true, lossesOf(ms(1005, 1008)), 0},
		"passed on":                 {true, nil, 1},
		"forgotten":                 {false, lossesOf(ms(1005, 1008)), 1},
		"passed on, forgotten long": {true, lossesOf(ms(700, 800)), 1},
	} {
		t.Run(name, func(t *testing.T) {
			j := &judgement{}
			j.order(holdsOf(
				lease{Fence: 2, TTL: 100 * time.Millisecond, Called: 1009, Entered: 1010, Left: 1012, Outcome: kept},
				lease{Fence: 1, TTL: 100 * time.Millisecond, Called: 1015, Entered: 1016, Left: 1017, Outcome: kept, Local: c.local},
			), c.losses)
			assert.Len(t, j.disorder, c.disorder)
		})
	}
}

// clockAhead is a clock that was ahead by something, and is set back at an instant (ms).
func clockAhead(by time.Duration, until int64) clocks {
	return clocks{{eras: []era{{0, by, by}, {until * int64(time.Millisecond), 0, 0}}}}
}

// A fence may fall if Redis lost the last one and goes by a clock that is behind, and only by
// as much. It may be ahead of every clock by the number of calls.
func TestJudgeCheck_TheJudgeOfClocks(t *testing.T) {
	lost := lossesOf(ms(1025, 1028))
	for name, c := range map[string]struct {
		clocks        clocks
		losses        []loss
		first, second uint64
		disorder      int
	}{
		"set back, and forgotten":             {clockAhead(20*time.Millisecond, 1020), lost, 1030_000, 1040_000 - 20_000, 0},
		"set back by less":                    {clockAhead(9*time.Millisecond, 1020), lost, 1019_000, 1009_000, 1},
		"set back":                            {clockAhead(20*time.Millisecond, 1020), nil, 1030_000, 1040_000 - 20_000, 1},
		"set back, and forgotten long before": {clockAhead(20*time.Millisecond, 1020), lossesOf(ms(900, 901)), 1030_000, 1040_000 - 20_000, 1},
		"forgotten":                           {nil, lost, 1010_000, 1009_000, 1},
		"ahead of a clock of before":          {clockAhead(20*time.Millisecond, 1020), nil, 1030_000, 1040_000, 0},
		"ahead by the number of calls":        {nil, nil, 1010_003, 1040_000, 0},
		"further ahead":                       {nil, nil, 1010_004, 1040_000, 1},
		"ahead by a minute":                   {clockAhead(20*time.Millisecond, 1020), nil, 1030_000, 61_040_000, 1},
	} {
		t.Run(name, func(t *testing.T) {
			j := judge(map[string][]*record{"order:42": holdsOf(
				lease{Fence: c.first, TTL: 10 * time.Millisecond, Called: 1009, Entered: 1010, Left: 1012, Outcome: kept},
				lease{Fence: c.second, TTL: 10 * time.Millisecond, Called: 1035, Entered: 1040, Left: 1041, Outcome: kept},
			)}, c.losses, nil, c.clocks, 3)
			disorder := slices.DeleteFunc(j.disorder, func(what string) bool { return strings.Contains(what, "porcupine") })
			assert.Len(t, disorder, c.disorder)
			assert.Equal(t, c.disorder > 0 && c.second < c.first, len(j.disorder) > len(disorder), "porcupine")
		})
	}
}

// Who waited for long may get the lock after one who came later, under a lower fence, if Redis
// lost that one's, and its clock is behind.
func TestJudgeCheck_TheJudgeOfAFenceThatFell(t *testing.T) {
	for name, c := range map[string]struct {
		clocks            clocks
		losses            []loss
		overlaps, excused int
	}{
		"forgotten, and set back":    {clockAhead(20*time.Millisecond, 1020), lossesOf(ms(1025, 1028)), 0, 1},
		"forgotten":                  {nil, lossesOf(ms(1025, 1028)), 1, 0},
		"set back":                   {clockAhead(20*time.Millisecond, 1020), nil, 1, 0},
		"forgotten after it came":    {clockAhead(20*time.Millisecond, 1020), lossesOf(ms(1041, 1042)), 1, 0},
		"set back by less than that": {clockAhead(time.Millisecond, 1020), lossesOf(ms(1025, 1028)), 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			j := &judgement{clocks: c.clocks}
			holds := holdsOf(
				lease{Fence: 1030_000, TTL: 40 * time.Millisecond, Called: 1009, Entered: 1010, Left: 1045, Outcome: kept},
				lease{Fence: 1025_000, TTL: 40 * time.Millisecond, Called: 1005, Entered: 1040, Left: 1041, Outcome: kept},
			)
			j.order(holds, c.losses)
			ends := j.exclusion(holds, c.losses)
			assert.Len(t, j.overlaps, c.overlaps)
			assert.Equal(t, c.excused, j.excused)
			assert.Empty(t, j.disorder)
			assert.Equal(t, c.excused > 0, linearizable(holds, ends) == porcupine.Ok)
		})
	}
}

// A process goes on above the highest fence that it had, which is all it knows if Redis lost the
// last one: with a clock that is behind, that may be the fence of somebody else.
func TestJudgeCheck_TheJudgeOfOneFenceTwice(t *testing.T) {
	for name, c := range map[string]struct {
		clocks clocks
		losses []loss
		wrong  int
	}{
		"forgotten, and set back": {clockAhead(20*time.Millisecond, 1020), lossesOf(ms(1025, 1028)), 0},
		"forgotten":               {nil, lossesOf(ms(1025, 1028)), 1},
		"set back":                {clockAhead(20*time.Millisecond, 1020), nil, 1},
		"forgotten after it came": {clockAhead(20*time.Millisecond, 1020), lossesOf(ms(1041, 1042)), 1},
	} {
		t.Run(name, func(t *testing.T) {
			j := &judgement{clocks: c.clocks}
			j.order(holdsOf(
				lease{Fence: 1030_000, TTL: 40 * time.Millisecond, Called: 1009, Entered: 1010, Left: 1020, Outcome: kept},
				lease{Fence: 1030_000, TTL: 40 * time.Millisecond, Called: 1030, Entered: 1040, Left: 1045, Outcome: kept},
			), c.losses)
			assert.Len(t, j.disorder, c.wrong)
		})
	}
}

// A holder whose process was stopped is not to blame for what it could not know; one
// whose work went on without a word is.
func TestJudgeCheck_TheJudgeOfContexts(t *testing.T) {
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
func TestJudgeCheck_TheJudgeAgreesWithPorcupine(t *testing.T) {
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
		j.order(holds, nil)
		ends := j.exclusion(holds, nil)
		fine := len(j.overlaps) == 0 && len(j.disorder) == 0
		assert.Equal(t, fine, linearizable(holds, ends) == porcupine.Ok, "%+v", leases)
		verdicts[fine]++
	}
	assert.Greater(t, min(verdicts[true], verdicts[false]), 300)
}

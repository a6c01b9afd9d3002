package chaos

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const judged = "order:42"

// in is a hold with a ttl of 100 ms. Instants are in ms.
func in(fence uint64, called, entered, left int64, with ...func(*lease)) lease {
	l := lease{Key: judged, Fence: fence, TTL: 100 * time.Millisecond, Called: ns(called), Entered: ns(entered), Left: ns(left), Limit: exclusive, Outcome: kept}
	for _, change := range with {
		change(&l)
	}
	return l
}

// of is a hold of a key that several may hold.
func of(limit int, entered, left int64, with ...func(*lease)) lease {
	return in(uint64(entered), entered-5, entered, left, append(with, func(l *lease) { l.Limit = limit })...)
}

func as(o outcome) func(*lease)       { return func(l *lease) { l.Outcome = o } }
func under(fence uint64) func(*lease) { return func(l *lease) { l.Fence = fence } }
func believed(at int64) func(*lease)  { return func(l *lease) { l.Believed, l.Outcome = ns(at), lost } }
func local(l *lease)                  { l.Local = true }
func keeping50(l *lease)              { l.MinHold, l.Outcome = 50*time.Millisecond, killed }
func ns(ms int64) int64               { return ms * int64(time.Millisecond) }
func ms(from, to int64) span          { return span{ns(from), ns(to)} }
func lossOf(from, to int64) []loss    { return []loss{{span: ms(from, to)}} }
func trusts(left int64) lease {
	return in(1, 1000, 1010, left, as(lost), func(l *lease) { l.Trusting, l.Deadline = true, ns(1100) })
}

// clockAhead is a clock that was ahead by something, and is set back at an instant (ms).
func clockAhead(by time.Duration, until int64) clocks {
	return clocks{{eras: []era{{0, by, by}, {ns(until), 0, 0}}}}
}

func recordsOf(leases []lease) (holds []*record) {
	for i, l := range leases {
		holds = append(holds, &record{lease: l, name: fmt.Sprint(i + 1), process: &process{}})
	}
	return holds
}

// verdict is how often a history is wrong, in each way.
type verdict struct{ overlaps, excused, disorder, tooSoon, late int }

func TestJudge_FindsWhatIsWrong(t *testing.T) {
	var (
		fine     verdict
		overlap  = verdict{overlaps: 1}
		excused  = verdict{excused: 1}
		disorder = verdict{disorder: 1}
		tooSoon  = verdict{tooSoon: 1}
		late     = verdict{late: 1}

		first     = in(1, 1000, 1010, 1050)
		fell      = []lease{in(1030_000, 1009, 1010, 1045), in(1025_000, 1005, 1040, 1041)} // the later one under the lower fence
		fellAfter = []lease{in(1030_000, 1009, 1010, 1012), in(1025_000, 1005, 1040, 1041)}
		twice     = []lease{in(1030_000, 1009, 1010, 1020), in(1030_000, 1030, 1040, 1045)}
		ahead     = clockAhead(20*time.Millisecond, 1020)
	)
	two := func(fence uint64, called, entered, left int64, with ...func(*lease)) []lease {
		return []lease{first, in(fence, called, entered, left, with...)}
	}
	fences := func(a, b uint64) []lease { return []lease{in(a, 1009, 1010, 1012), in(b, 1035, 1040, 1041)} }
	known := func(called, entered int64) []lease {
		other := of(2, entered, entered, under(0), func(l *lease) { l.Key, l.Called = "another", ns(called) })
		return []lease{other, in(1030_000, 1009, 1010, 1012), in(1025_500, 1025, 1026, 1027)}
	}
	passedOn := func(with ...func(*lease)) []lease {
		return []lease{in(2, 1009, 1010, 1012), in(1, 1015, 1016, 1017, with...)}
	}
	replaced := func(later ...lease) []lease { return append([]lease{in(1, 1000, 1010, 1500)}, later...) }
	then := func(entered int64) []lease {
		return []lease{in(1, 1000, 1001, 1002, keeping50), in(2, 1003, entered, 1060)}
	}
	during := in(2, 1015, 1020, 1120)
	for name, c := range map[string]struct {
		holds  []lease
		losses []loss
		want   verdict
		clocks clocks
		calls  int
		twice  bool // two servers may have granted, while data may have been lost
		same   bool // the holds are of one process
		known  bool // the first and the last are
		stops  []span
	}{
		"one after the other":     {holds: two(2, 1005, 1051, 1060)},
		"two at once":             {holds: two(2, 1005, 1049, 1060), want: overlap},
		"one fence":               {holds: two(1, 1005, 1051, 1060), want: disorder},
		"a fence that falls":      {holds: two(0, 1060, 1061, 1070), want: disorder},
		"data lost between":       {holds: two(2, 1040, 1045, 1060), losses: lossOf(1020, 1030), want: excused},
		"data lost after":         {holds: two(2, 1040, 1045, 1060), losses: lossOf(1047, 1048), want: overlap},
		"data loss and low fence": {holds: two(0, 1060, 1065, 1070), losses: lossOf(1055, 1057), want: disorder},
		"believed for its ttl":    {holds: []lease{in(1, 1000, 1010, 1200, believed(1130)), in(2, 1040, 1045, 1060)}, losses: lossOf(1020, 1030), want: excused},
		"believed for longer":     {holds: []lease{in(1, 1000, 1010, 1200, believed(1131)), in(2, 1040, 1045, 1060)}, losses: lossOf(1020, 1030), want: overlap},

		"replaced: two at once meanwhile": {holds: replaced(during), losses: lossOf(1005, 1030), twice: true, want: excused},
		"replaced: one server lost data":  {holds: replaced(during), losses: lossOf(1005, 1030), want: overlap},
		"replaced: for too long":          {holds: replaced(in(2, 1015, 1020, 1131)), losses: lossOf(1005, 1030), twice: true, want: overlap},
		"replaced: too late":              {holds: replaced(in(2, 1031, 1040, 1041)), losses: lossOf(1005, 1030), twice: true, want: overlap},

		"passed on, and forgotten":  {holds: passedOn(local), losses: lossOf(1005, 1008), want: excused},
		"not passed on":             {holds: passedOn(), losses: lossOf(1005, 1008), want: disorder},
		"passed on, forgotten long": {holds: passedOn(local), losses: lossOf(700, 800), want: disorder},

		"set back, and forgotten":            {holds: fences(1030_000, 1020_000), clocks: ahead, losses: lossOf(1025, 1028)},
		"set back by more than that":         {holds: fences(1030_000, 1009_999), clocks: ahead, want: disorder},
		"ahead of the clock, and set back":   {holds: fences(1041_000, 1020_000), clocks: ahead, losses: lossOf(1025, 1028)},
		"set back, not known":                {holds: fences(1030_000, 1020_000), clocks: ahead},
		"set back under its own fence":       {holds: fences(1030_000, 1020_000), clocks: ahead, same: true, want: disorder},
		"set back, known":                    {holds: known(1003, 1006), clocks: ahead, known: true, want: disorder},
		"set back, by another process":       {holds: known(1003, 1006), clocks: ahead},
		"set back by less than a round trip": {holds: known(980, 1006), clocks: ahead, known: true},
		"set back, known from its fence on":  {holds: known(1011, 1014), clocks: ahead, known: true, want: disorder},
		"set back, known too late":           {holds: known(1021, 1022), clocks: ahead, known: true},
		"set forward and back, not known":    {holds: known(1003, 1006), clocks: clocks{{eras: []era{{}, {ns(1007), 20e6, 20e6}, {ns(1020), 0, 0}}}}, known: true},
		"set back before its fence, known":   {holds: known(1003, 1006), clocks: clocks{{eras: []era{{0, 30e6, 30e6}, {ns(1007), 20e6, 20e6}, {ns(1020), 0, 0}}}}, known: true},
		"set back on one of two":             {holds: known(1003, 1006), clocks: append(clockAhead(0, 1), ahead...), known: true},
		"forgotten":                          {holds: fences(1010_000, 1009_000), losses: lossOf(1025, 1028), want: disorder},
		"ahead of a clock of before":         {holds: fences(1030_000, 1040_000), clocks: ahead},
		"ahead by the number of calls":       {holds: fences(1010_003, 1040_000), calls: 3},
		"ahead by more":                      {holds: fences(1030_000, 9_060_004), clocks: ahead, calls: 3, want: disorder},
		"further ahead":                      {holds: fences(1010_004, 1040_000), calls: 3, want: disorder},

		"fell: forgotten, and set back":       {holds: fell, clocks: ahead, losses: lossOf(1025, 1028), want: excused},
		"fell: ahead of the clock":            {holds: []lease{in(1046_000, 1009, 1010, 1012), fell[1]}, clocks: ahead, losses: lossOf(1025, 1028), want: excused},
		"fell: forgotten":                     {holds: fell, losses: lossOf(1025, 1028), want: overlap},
		"fell: set back":                      {holds: fell, clocks: ahead, want: overlap},
		"fell: set back, one after the other": {holds: fellAfter, clocks: ahead, want: excused},
		"fell: by a process that knew":        {holds: []lease{in(1030_000, 1009, 1010, 1012), in(1025_000, 1010, 1040, 1041)}, clocks: ahead, same: true, want: overlap},

		"twice: forgotten, and set back": {holds: twice, clocks: ahead, losses: lossOf(1025, 1028)},
		"twice: forgotten":               {holds: twice, losses: lossOf(1025, 1028), want: disorder},
		"twice: set back":                {holds: twice, clocks: ahead, same: true, want: disorder},

		"a context a little late":                {holds: []lease{trusts(1102)}},
		"a context too late":                     {holds: []lease{trusts(4000)}, want: late},
		"a context late after its process slept": {holds: []lease{trusts(4000)}, stops: []span{ms(1050, 3990)}},

		"MinHold: by a fast clock":    {holds: then(1045)},
		"MinHold: too soon":           {holds: then(1044), want: tooSoon},
		"MinHold: Redis forgot":       {holds: then(1044), losses: lossOf(1020, 1021)},
		"MinHold: Redis forgot later": {holds: then(1044), losses: lossOf(1046, 1050), want: tooSoon},

		"three of three":               {holds: []lease{of(3, 1010, 1050), of(3, 1011, 1050), of(3, 1012, 1050), of(3, 1051, 1060)}},
		"four of three":                {holds: []lease{of(3, 1010, 1050), of(3, 1011, 1050), of(3, 1012, 1050), of(3, 1049, 1060)}, want: overlap},
		"the strictest is gone":        {holds: []lease{of(2, 1010, 1012), of(3, 1011, 1050), of(3, 1012, 1050)}},
		"the strictest comes late":     {holds: []lease{of(3, 1010, 1050), of(3, 1011, 1050), of(2, 1012, 1050)}, want: overlap},
		"a writer beside a reader":     {holds: []lease{of(shared, 1010, 1050), of(exclusive, 1049, 1060)}, want: overlap},
		"a reader that Redis forgot":   {holds: []lease{of(shared, 1010, 1050), of(exclusive, 1049, 1060)}, losses: lossOf(1020, 1030), want: excused},
		"forgotten, and held too long": {holds: []lease{of(shared, 1010, 1190), of(exclusive, 1049, 1060)}, losses: lossOf(1020, 1030), want: overlap},
		"one of three is forgotten": { // two come while it is still there
			holds: []lease{of(2, 1010, 1050), of(3, 1032, 1060), of(3, 1033, 1060), of(3, 1034, 1060)}, losses: lossOf(1020, 1030), want: verdict{excused: 2},
		},
		"a reader's fence above a later writer's":    {holds: []lease{of(shared, 1010, 1020, under(2000)), of(exclusive, 1040, 1041)}, want: disorder},
		"a writer under a reader's fence":            {holds: []lease{of(shared, 1010, 1020), of(exclusive, 1040, 1041, under(1010))}, want: disorder},
		"a reader's fence below an earlier writer's": {holds: []lease{of(exclusive, 1010, 1020), of(shared, 1040, 1041, under(5))}, want: disorder},
		"readers of one claim beside permits":        {holds: []lease{of(shared, 1010, 1050), of(shared, 1011, 1050, under(1010)), of(3, 1012, 1050), of(3, 1013, 1050)}},
		"readers of two claims beside permits":       {holds: []lease{of(shared, 1010, 1050), of(shared, 1011, 1050), of(3, 1012, 1050), of(3, 1013, 1050)}, want: overlap},
		"permits under one fence":                    {holds: []lease{of(2, 1010, 1050), of(2, 1011, 1050, under(1010)), of(2, 1012, 1050, under(1010))}, want: overlap},
		"readers of one claim":                       {holds: []lease{of(shared, 1010, 1020), of(shared, 1030, 1041, under(1010)), of(exclusive, 1050, 1051)}, want: fine},
	} {
		t.Run(name, func(t *testing.T) {
			holds := recordsOf(c.holds)
			holds[0].process.stops = c.stops
			if c.known {
				holds[len(holds)-1].process = holds[0].process
			}
			if c.same {
				holds[0].process = holds[1].process
			}
			for i := range c.losses {
				c.losses[i].twice = c.twice
			}
			history := map[string][]*record{}
			for _, h := range holds {
				history[h.Key] = append(history[h.Key], h)
			}
			j := judge(history, c.losses, c.clocks, cmp.Or(c.calls, 100_000))
			assert.Equal(t, c.want, verdict{len(j.overlaps), j.excused, len(j.disorder), len(j.tooSoon), len(j.late)}, "%v", j.disorder)
		})
	}
}

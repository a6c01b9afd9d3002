package records

import (
	"testing"

	"github.com/redlatch/redlatch/guard/internal/model/modeltest"
)

var protocol = modeltest.Model[rules, state, owner, budget]{
	Steps:  steps,
	Start:  begin,
	Owners: owners,
	Who:    func(o owner) string { return string('A' + rune(o)) },
	Tidy:   func(r *rules, s *state) { s.tidy(r) },
	Print:  (*state).print,
	Broken: func(s *state) modeltest.Property { return s.broken },
	Quiet:  (*state).quiet,
}

// bounds are explored to the last state.
var bounds = modeltest.Bounds[budget]{
	Small: []budget{
		{calls: 2, inputs: 3, waits: true, silences: 1},
		{calls: 2, inputs: 1, waits: true, crashes: 1, losses: 1, forgets: 1},
	},
	Large: []budget{
		{calls: 2, inputs: 2, waits: true, crashes: 1, losses: 1, forgets: 1},
		{calls: 2, inputs: 2, waits: true, silences: 1, crashes: 1},
		{calls: 2, inputs: 1, waits: true, silences: 1, losses: 1, forgets: 1},
		{calls: 3, inputs: 2, waits: true, crashes: 1},
		{calls: 3, inputs: 1, waits: true, losses: 1},
		{calls: 3, inputs: 1, crashes: 1, losses: 1, forgets: 1},
		{calls: 3, inputs: 1, waits: true, silences: 1},
		{calls: 2, inputs: 2, silences: 2},
		{calls: 2, inputs: 1, silences: 1, crashes: 1, losses: 1, forgets: 1},
	},
}

func TestProtocol(t *testing.T) { protocol.Protocol(t, bounds) }

type row = modeltest.Row[rules, budget]

var breaking = modeltest.Breaking[rules, budget]

// Bounds in which a broken rule shows.
var (
	unanswered = budget{calls: 2, inputs: 3, waits: true, silences: 1}
	lossy      = budget{calls: 2, inputs: 1, losses: 1, forgets: 1}
	three      = budget{calls: 3, inputs: 1}
)

// broken are the rules, each broken, with what that does.
var broken = []row{
	breaking(rules{inputIsIgnored: true}, otherInput, unanswered),
	breaking(rules{doneRunsAgain: true}, again, unanswered),
	breaking(rules{followsAtMostOnce: true}, atMostOnce, unanswered),
	breaking(rules{refusesBesideHolder: true}, refused, unanswered),
	breaking(rules{beginIsNotWritten: true}, unnotified, unanswered),
	breaking(rules{earlierIsForgotten: true}, unnotified, unanswered),
	breaking(rules{earlierIsNotifiedOnce: true}, unnotified, unanswered),
	breaking(rules{outcomeNeedsNoRecord: true}, overwritten, unanswered),
	breaking(rules{holderMayOverwrite: true}, overwritten, unanswered),
	breaking(rules{failureIsNotWritten: true}, refused, unanswered),
	breaking(rules{failureForgetsEarlier: true}, unnotified, three),
	breaking(rules{lateOutcomeIsLost: true}, unwritten, unanswered),
	breaking(rules{forgetsWhatRuns: true}, forgotten, lossy),
	breaking(rules{forgetsWhatIsThere: true}, forgotten, lossy),
	breaking(rules{tombstonesAreIgnored: true}, refused, unanswered),
	breaking(rules{neverTombstones: true}, refused, unanswered),
	breaking(rules{neverUndoes: true}, refused, unanswered),
}

// TestBrokenRules shows what each rule is for: without it, something breaks. With -v, it
// gives the shortest way to it.
func TestBrokenRules(t *testing.T) { protocol.BrokenRules(t, broken) }

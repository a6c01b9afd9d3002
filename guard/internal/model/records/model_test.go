package records

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/model/explore"
)

var protocol = explore.Model[rules, state, owner]{
	Owners: owners,
	Who:    func(o owner) string { return string('A' + rune(o)) },
	Tidy:   func(r *rules, s *state) { s.tidy(r) },
	Print:  (*state).print,
	Broken: func(s *state) bool { return s.broken != nothing },
	Quiet:  (*state).quiet,
}

// run explores until a property breaks, and says which, and what leads there.
func run(r *rules, b budget) (f *search, broken property) {
	m := protocol
	m.Steps = steps
	f = m.Run(r, begin(b))
	if broken = f.Bad.broken; f.Stuck {
		broken = stuck
	}
	return f, broken
}

func TestProtocol(t *testing.T) {
	searches := make([]*search, len(bounds))
	t.Run("explored", func(t *testing.T) {
		for i, b := range bounds {
			t.Run(fmt.Sprintf("%+v", b), func(t *testing.T) {
				t.Parallel()
				f, broken := run(&rules{}, b)
				require.Equal(t, nothing, broken, "%s:\n%s", broken, strings.Join(f.Trace, "\n"))
				t.Logf("%d states", f.States())
				searches[i] = f
			})
		}
	})
	// A model in which nothing happens keeps any rule.
	for i, st := range steps {
		taken := false
		for _, f := range searches {
			taken = taken || f != nil && f.Taken[i]
		}
		assert.True(t, taken, st.Name)
	}
}

// broken are the rules, each broken, with what that does.
var broken = []struct {
	broken rules
	breaks property
}{
	{rules{inputIsIgnored: true}, otherInput},
	{rules{doneRunsAgain: true}, again},
	{rules{followsAtMostOnce: true}, atMostOnce},
	{rules{refusesBesideHolder: true}, refused},
	{rules{beginIsNotWritten: true}, untold},
	{rules{earlierIsForgotten: true}, untold},
	{rules{earlierIsToldOnce: true}, untold},
	{rules{outcomeNeedsNoRecord: true}, overwritten},
	{rules{holderMayOverwrite: true}, overwritten},
	{rules{failureIsNotWritten: true}, refused},
	{rules{failureForgetsEarlier: true}, untold},
	{rules{lateOutcomeIsLost: true}, unwritten},
	// A claim of this model that waits asks until it gets an answer. The replay looks at messages.
	{rules{waitersAreNotTold: true}, nothing},
	{rules{forgetsWhatRuns: true}, forgotten},
	{rules{tombstonesAreIgnored: true}, refused},
	// The model has no time. The replay looks at the ttl.
	{rules{secondReleaseIsIgnored: true}, nothing},
	{rules{neverTombstones: true}, refused},
	{rules{neverUndoes: true}, refused},
}

// TestBrokenRules shows what each rule is for: without it, something breaks. With -v, it
// tells the shortest way to it.
func TestBrokenRules(t *testing.T) {
	t.Parallel()
	if sparing {
		t.Skip("the race detector leaves time for too few states")
	}
	require.Len(t, broken, reflect.TypeFor[rules]().NumField()-1, "each rule has its row")
	for i, row := range broken {
		fields := reflect.ValueOf(row.broken)
		require.True(t, fields.Field(i).Bool(), "rows are in the order of the rules")
		t.Run(fields.Type().Field(i).Name, func(t *testing.T) {
			t.Parallel()
			var f *search
			breaks := nothing
			for _, b := range breaking {
				if f, breaks = run(&row.broken, b); breaks != nothing {
					break
				}
			}
			t.Logf("%d states: %s\n%s", f.States(), breaks, strings.Join(f.Trace, "\n"))
			assert.Equal(t, row.breaks, breaks)
		})
	}
}

package limits

import (
	"flag"
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
	Tidy: func(r *rules, s *state) {
		s.tidy(r)
		s.check()
	},
	Print:  (*state).print,
	Broken: func(s *state) bool { return s.broken != nothing },
	Quiet:  (*state).quiet,
}

// run explores until a property breaks, and says which, and what leads there.
func run(r *rules, b budget) (f *search, broken property) {
	m := protocol
	m.Steps = steps
	f = m.Run(r, state{now: gap, budget: b})
	if broken = f.Bad.broken; f.Stuck {
		broken = stuck
	}
	return f, broken
}

// large are bounds for a machine that has minutes: go test -run Protocol -limits.large.
var large = flag.Bool("limits.large", false, "explore within larger bounds: minutes, gigabytes")

var largeBounds = []budget{
	{calls: 3, kinds: all, silences: 1},
	{calls: 3, kinds: all, crashes: 2},
	{calls: 3, kinds: all, steps: 1},
	{calls: 3, kinds: all, flushes: 1},
	{calls: 3, kinds: all, skips: 1},
	{calls: 3, kinds: alone | readers, silences: 2},
	{calls: 2, kinds: all, silences: 3, flushes: 1},
	{calls: 4, kinds: alone | pairs | readers},
}

func TestProtocol(t *testing.T) {
	bounds := bounds
	if *large {
		bounds = largeBounds
	}
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
		assert.Equal(t, st.Calm != explore.OnlyIfBroken, taken, st.Name)
	}
}

// broken are the rules, each broken, with what that does.
var broken = []struct {
	broken rules
	breaks property
	budget budget
}{
	{rules{ownLimitIsIgnored: true}, mutex, budget{calls: 3, kinds: all}},
	{rules{limitInsideIsIgnored: true}, mutex, budget{calls: 3, kinds: all}},
	{rules{deadAreCounted: true}, unserved, budget{calls: 3, kinds: all, crashes: 1}},
	{rules{liveAreDropped: true}, unheld, budget{calls: 3, kinds: all, crashes: 1}},
	{rules{hashLivesAsTheLatest: true}, unheld, budget{calls: 3, kinds: all, crashes: 1}},
	{rules{hashEndsWithOne: true}, unheld, budget{calls: 3, kinds: all}},
	{rules{fencesRepeat: true}, fences, budget{calls: 3, kinds: all, steps: 1}},
	{rules{lastMissesFences: true}, fences, budget{calls: 3, kinds: alone | readers, steps: 1}},
	{rules{takeIgnoresLast: true}, fences, budget{calls: 3, kinds: all, steps: 1}},
	{rules{passesTheQueue: true}, order, budget{calls: 3, kinds: all}},
	{rules{passesTheFront: true}, order, budget{calls: 3, kinds: all}},
	{rules{confirmServesNobody: true}, unserved, budget{calls: 3, kinds: all}},
	{rules{releaseServesNobody: true}, unserved, budget{calls: 3, kinds: all}},
	{rules{givingUpServesNobody: true}, unserved, budget{calls: 3, kinds: all}},
	{rules{grantHasNoEnd: true}, stuck, budget{calls: 3, kinds: alone | readers, crashes: 1}},
	// Claims of this model ask for no fence. The replay does.
	{rules{confirmsAnyFence: true}, nothing, budget{calls: 2, kinds: all}},
	{rules{overForgetsTombstones: true}, zombie, budget{calls: 2, kinds: all, silences: 1}},
	// A second line of defence, as in package model.
	{rules{overForgetsReleased: true}, nothing, budget{calls: 2, kinds: all, silences: 2}},
	{rules{joinForgetsPlace: true}, order, budget{calls: 3, kinds: all}},
	{rules{joinKeepsWorsePlace: true}, order, budget{calls: 3, kinds: all, silences: 1}},
	{rules{renewalRevives: true}, revived, budget{calls: 2, kinds: all, silences: 1}},
	{rules{renewalIgnoresFence: true}, silent, budget{calls: 2, kinds: all, silences: 1, flushes: 1}},
	{rules{mutesAreDead: true}, order, budget{calls: 3, kinds: alone | readers, mutes: 1}},
	{rules{trustsLateAnswers: true}, unheld, budget{calls: 2, kinds: all}},
	{rules{neverTombstones: true}, zombie, budget{calls: 1, kinds: all, silences: 1}},
}

// TestBrokenRules shows what each rule is for: without it, something breaks. With -v, it
// tells the shortest way to it.
func TestBrokenRules(t *testing.T) {
	if sparing {
		t.Skip("the race detector leaves time for too few states")
	}
	require.Len(t, broken, reflect.TypeFor[rules]().NumField()-1, "each rule has its row")
	for i, row := range broken {
		fields := reflect.ValueOf(row.broken)
		require.True(t, fields.Field(i).Bool(), "rows are in the order of the rules")
		t.Run(fields.Type().Field(i).Name, func(t *testing.T) {
			t.Parallel()
			f, breaks := run(&row.broken, row.budget)
			t.Logf("%d states: %s\n%s", f.States(), breaks, strings.Join(f.Trace, "\n"))
			assert.Equal(t, row.breaks, breaks)
		})
	}
}

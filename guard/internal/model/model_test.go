package model

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProtocol(t *testing.T) {
	var scripts calls
	searches := make([]*search, len(bounds))
	t.Run("explored", func(t *testing.T) {
		for i, b := range bounds {
			t.Run(fmt.Sprintf("%+v", b), func(t *testing.T) {
				t.Parallel()
				w := newWatch()
				f, broken, trace := run(&rules{watch: w}, b)
				require.Equal(t, nothing, broken, "%s:\n%s", broken, strings.Join(trace, "\n"))
				scripts.add(w)
				t.Logf("%d states", f.States())
				searches[i] = f
			})
		}
	})
	t.Run("replayed", func(t *testing.T) { replayAll(t, scripts.all) })
	// A model in which nothing happens keeps any rule.
	for i, st := range steps {
		taken := false
		for _, f := range searches {
			taken = taken || f != nil && f.Taken[i]
		}
		assert.Equal(t, st.Calm != onlyIfBroken, taken, st.Name)
	}
}

// TestBrokenRules shows what each rule is for: without it, something breaks. With -v, it
// tells the shortest way to it.
func TestBrokenRules(t *testing.T) {
	rows := []struct {
		broken rules
		breaks property
		budget budget
	}{
		{rules{releaseFreesAnyones: true}, mutex, budget{calls: 3}},
		{rules{releaseForgetsFence: true}, fences, budget{calls: 3, steps: 1}},
		// A second line of defence: as long as each claim of which an acquire may still
		// be on its way has a tombstone, there is nothing left for it to stop.
		{rules{overForgetsReleased: true}, nothing, budget{calls: 3, silences: 1}},
		{rules{overForgetsTombstones: true}, zombie, budget{calls: 2, silences: 1}},
		{rules{takeBarges: true}, order, budget{calls: 3}},
		{rules{takeIgnoresLast: true}, fences, budget{calls: 2, steps: 1}},
		{rules{takeIgnoresClock: true}, fences, budget{calls: 2, flushes: 1}},
		{rules{grantHasNoEnd: true}, stuck, budget{calls: 3, crashes: 1}},
		{rules{joinForgetsPlace: true}, order, budget{calls: 2}},
		{rules{joinKeepsWorsePlace: true}, order, budget{calls: 2, silences: 1}},
		{rules{confirmsAnyFence: true}, fences, budget{calls: 3, silences: 1, steps: 1}},
		{rules{restIsIgnored: true}, early, budget{calls: 2, keeps: 1}},
		{rules{restGrants: true}, early, budget{calls: 2, keeps: 1}},
		// Whoever has a MinHold was not handed the lock, and hands it to nobody: last knows its
		// fence since the grant.
		{rules{restForgetsFence: true}, nothing, budget{calls: 3, keeps: 1, steps: 1}},
		{rules{lostKeeps: true}, kept, budget{calls: 1, keeps: 1}},
		{rules{revokedRests: true}, revived, budget{calls: 1, keeps: 1, revokes: 1}},
		{rules{confirmsRevoked: true}, revived, budget{calls: 2, revokes: 1}},
		{rules{renewsRevoked: true}, revived, budget{calls: 1, revokes: 1}},
		{rules{revokeFrees: true}, mutex, budget{calls: 2, revokes: 1}},
		{rules{stepsInOnAny: true}, astray, budget{calls: 2, revokes: 1}},
		{rules{breakForgetsFence: true}, fences, budget{calls: 3, breaks: 1, steps: 1}},
		{rules{mutesAreDead: true}, order, budget{calls: 3, mutes: 1}},
		{rules{trustsMessages: true}, mutex, budget{calls: 2}},
		{rules{trustsLateAnswers: true}, mutex, budget{calls: 2}},
		{rules{neverTombstones: true}, zombie, budget{calls: 1, silences: 1}},
		{rules{hasNoPulse: true}, stuck, budget{calls: 2}},
		{rules{dropsFloor: true}, fences, budget{calls: 3, steps: 1}},
		{rules{outrunsClock: true}, fences, budget{calls: 3}},
		{rules{handsOnAhead: true}, fences, budget{calls: 3, steps: 1}},
		{rules{handsOnKept: true}, early, budget{calls: 2, keeps: 1}},
	}
	require.Len(t, rows, reflect.TypeFor[rules]().NumField()-1, "each rule has its row")
	for i, row := range rows {
		fields := reflect.ValueOf(row.broken)
		require.True(t, fields.Field(i).Bool(), "rows are in the order of the rules")
		t.Run(fields.Type().Field(i).Name, func(t *testing.T) {
			t.Parallel()
			f, broken, trace := run(&row.broken, row.budget)
			t.Logf("%d states: %s\n%s", f.States(), broken, strings.Join(trace, "\n"))
			assert.Equal(t, row.breaks, broken)
		})
	}
}

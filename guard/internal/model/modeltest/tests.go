package modeltest

import (
	"flag"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var large = flag.Bool("large", false, "search within larger bounds: minutes, and gigabytes")

// Bounds are how far searches go, each a search.
type Bounds[B any] struct{ Small, Large []B }

// Protocol searches within the chosen bounds. No property is to break, and each step is to be taken: a model in which
// nothing happens keeps any rule.
func (m *Model[R, S, O, B]) Protocol(t *testing.T, bounds Bounds[B]) {
	t.Helper()
	chosen := bounds.Small
	if *large {
		chosen = bounds.Large
	}
	searches := make([]*Search[R, S, O, B], len(chosen))
	t.Run("explored", func(t *testing.T) {
		for i, b := range chosen {
			t.Run(fmt.Sprintf("%+v", b), func(t *testing.T) {
				t.Parallel()
				f := m.Run(new(R), b)
				require.Empty(t, f.Broken, "%s", strings.Join(f.Trace, "\n"))
				t.Logf("%d states", f.States())
				searches[i] = f
			})
		}
	})
	for i, st := range m.Steps {
		taken := slices.ContainsFunc(searches, func(f *Search[R, S, O, B]) bool { return f != nil && f.Taken[i] })
		assert.True(t, taken, st.Name)
	}
}

// Row is a rule that is broken, and the property that breaks then within each of the bounds.
type Row[R, B any] struct {
	Broken R
	Breaks Property
	Within []B
}

// Breaking makes a row.
func Breaking[R, B any](broken R, breaks Property, within ...B) Row[R, B] {
	return Row[R, B]{Broken: broken, Breaks: breaks, Within: within}
}

// Name is the rule's: the field that is true.
func (r *Row[R, B]) Name() string {
	v := reflect.ValueOf(r.Broken)
	for _, name := range ruleNames[R]() {
		if v.FieldByName(name).Bool() {
			return name
		}
	}
	return ""
}

func ruleNames[R any]() (all []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[R]()) {
		if f.Type.Kind() == reflect.Bool {
			all = append(all, f.Name)
		}
	}
	return all
}

// BrokenRules breaks each rule: a property breaks, which does not while the rules are kept. With -v, it prints the
// shortest way there.
func (m *Model[R, S, O, B]) BrokenRules(t *testing.T, rows []Row[R, B]) {
	t.Helper()
	var names []string
	for _, row := range rows {
		names = append(names, row.Name())
		t.Run(row.Name(), func(t *testing.T) {
			t.Parallel()
			for _, b := range row.Within {
				f := m.Run(&row.Broken, b)
				t.Logf("%d states: %s\n%s", f.States(), f.Broken, strings.Join(f.Trace, "\n"))
				assert.Equal(t, row.Breaks, f.Broken, "%+v", b)
				kept := m.run(new(R), b, f.States())
				assert.Empty(t, kept.Broken, "while the rules are kept: %s", strings.Join(kept.Trace, "\n"))
			}
		})
	}
	require.Equal(t, ruleNames[R](), names, "each rule has its row")
}

// InBubble makes calls on stores in memory, in a bubble. It fails if a call returns an error text, or if less than half of
// them can be made.
func InBubble[T any](t *testing.T, all []T, call func(t *testing.T, c T) (wrong string, done bool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		skipped := 0
		for _, c := range all {
			wrong, done := call(t, c)
			require.Empty(t, wrong, "store and model differ")
			if !done {
				skipped++
			}
		}
		t.Logf("%d calls, and %d that no call leads to", len(all)-skipped, skipped)
		assert.Less(t, 2*skipped, len(all))
	})
}

// InShares makes calls on several servers at once, a share on each, and fails if a call returns an error text.
func InShares[T, S any](t *testing.T, all []T, server func(t *testing.T) S, call func(t *testing.T, s S, c T) (wrong string)) {
	t.Helper()
	const servers = 4
	for i := range servers {
		t.Run(fmt.Sprint("share ", i), func(t *testing.T) {
			t.Parallel()
			s := server(t)
			for j := i; j < len(all); j += servers {
				require.Empty(t, call(t, s, all[j]), "script and model differ")
			}
		})
	}
	t.Logf("%d calls", len(all))
}

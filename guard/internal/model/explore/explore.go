package explore

import "slices"

// Step is something that may happen to an owner. What happens to all happens to the first one.
type Step[R, S any, O ~int8] struct {
	Name string
	// Calm steps are those that go on happening if nothing fails and nobody new comes. Of
	// several that can, the one with the lowest number does; 0 is no calm step.
	Calm int
	// Do says whether the step can happen, and if so changes the state.
	Do func(r *R, s *S, o O) bool
}

// OnlyIfBroken is for a calm step that cannot happen while all rules are kept.
const OnlyIfBroken = -1

// Model is what is searched: states S under rules R.
type Model[R, S any, O ~int8] struct {
	Steps  []Step[R, S, O]
	Owners O
	Who    func(o O) string
	Tidy   func(r *R, s *S)  // forgets what makes no difference, and checks what is left
	Print  func(s *S) uint64 // the same for states that are the same
	Broken func(s *S) bool   // a property does not hold
	Quiet  func(s *S) bool   // nobody wants anything
}

// Search is one that was made.
type Search[R, S any, O ~int8] struct {
	Taken []bool // which steps there were
	Bad   S      // the state in which a property does not hold, if there is one
	Stuck bool   // somebody never gets anywhere
	Trace []string

	m      *Model[R, S, O]
	rules  *R
	start  S
	index  map[uint64]int32 // of each state, by its fingerprint
	prints []uint64         // the rest is by index
	from   []int32          // the state before
	calm   []int32          // the state after the calm step
}

const (
	unknown = -1
	settled = -2 // nobody wants anything
)

// States is how many there are.
func (f *Search[R, S, O]) States() int { return len(f.prints) }

// Run explores until a property breaks. Trace is the shortest way to that.
func (m *Model[R, S, O]) Run(r *R, start S) *Search[R, S, O] {
	f := &Search[R, S, O]{
		m: m, rules: r, start: start, index: make(map[uint64]int32), Taken: make([]bool, len(m.Steps)),
	}
	f.add(&f.start, 0)
	level := []S{f.start}
	for at := int32(0); len(level) > 0; {
		var next []S
		for i := range level {
			if f.expand(at, &level[i], &next) {
				f.Trace = f.trace(f.path(int32(len(f.prints) - 1))) //nolint:gosec // fits
				return f
			}
			at++
		}
		level = next
	}
	if way := f.stuck(); way != nil {
		f.Stuck, f.Trace = true, f.trace(way)
	}
	return f
}

// add gives a state's index.
func (f *Search[R, S, O]) add(s *S, from int32) (at int32, isNew bool) {
	print := f.m.Print(s)
	at, known := f.index[print]
	if known {
		return at, false
	}
	at = int32(len(f.prints)) //nolint:gosec // fits
	f.index[print] = at
	f.prints, f.from, f.calm = append(f.prints, print), append(f.from, from), append(f.calm, unknown)
	return at, true
}

// expand finds the states after one.
func (f *Search[R, S, O]) expand(at int32, s *S, next *[]S) (broken bool) {
	calm := 0
	f.each(s, func(st *Step[R, S, O], _ O, n *S) bool {
		to, isNew := f.add(n, at)
		if isNew {
			*next = append(*next, *n)
			if broken = f.m.Broken(n); broken {
				f.Bad = *n
			}
		}
		if st.Calm > 0 && (calm == 0 || st.Calm < calm) {
			calm, f.calm[at] = st.Calm, to
		}
		return !broken
	})
	if calm == 0 && f.m.Quiet(s) {
		f.calm[at] = settled
	}
	return broken
}

// each makes every step that can happen, until told to stop.
func (f *Search[R, S, O]) each(s *S, visit func(st *Step[R, S, O], o O, n *S) bool) {
	n := *s
	for i := range f.m.Steps {
		for o := range f.m.Owners {
			if !f.m.Steps[i].Do(f.rules, &n, o) {
				continue
			}
			f.Taken[i] = true
			f.m.Tidy(f.rules, &n)
			if !visit(&f.m.Steps[i], o, &n) {
				return
			}
			n = *s
		}
	}
}

// stuck finds a state from which calm steps alone lead nowhere, or round in a circle.
func (f *Search[R, S, O]) stuck() (way []int32) {
	fine := make([]bool, len(f.prints))
	for at := range f.prints {
		way = way[:0]
		to := int32(at) //nolint:gosec // fits
		for ; !fine[to] && f.calm[to] != settled; to = f.calm[to] {
			way = append(way, to)
			if again := slices.Contains(way[:len(way)-1], to); again || f.calm[to] == unknown {
				return append(f.path(way[0]), way[1:]...)
			}
		}
		fine[to] = true
		for _, to := range way {
			fine[to] = true
		}
	}
	return nil
}

// path is how a state was reached first.
func (f *Search[R, S, O]) path(to int32) (way []int32) {
	for ; to > 0; to = f.from[to] {
		way = append(way, to)
	}
	slices.Reverse(way)
	return way
}

// trace tells what happens on a way.
func (f *Search[R, S, O]) trace(way []int32) (lines []string) {
	s := f.start
	for _, to := range way {
		f.each(&s, func(st *Step[R, S, O], o O, n *S) bool {
			if f.m.Print(n) != f.prints[to] {
				return true
			}
			lines = append(lines, "  "+f.m.Who(o)+" "+st.Name)
			s = *n
			return false
		})
	}
	return lines
}

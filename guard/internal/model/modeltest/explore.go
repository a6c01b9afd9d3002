package modeltest

import (
	"math"
	"slices"
)

// Step is something that may happen to an owner. What happens to all happens to the first one.
type Step[R, S any, O ~int8] struct {
	Name string
	// Calm steps still happen if nothing fails and no new caller comes. Of
	// several that can, the one with the lowest number does; 0 is no calm step.
	Calm int
	// Do reports whether the step can happen, and if so changes the state.
	Do func(r *R, s *S, o O) bool
}

// Can makes a step.
func Can[R, S any, O ~int8](name string, calm int, do func(r *R, s *S, o O) bool) Step[R, S, O] {
	return Step[R, S, O]{Name: name, Calm: calm, Do: do}
}

// Property is what must not happen, in words. The empty one is that nothing did.
type Property string

// Stuck is what a search finds where calm steps lead nowhere.
const Stuck Property = "a claim never gets anywhere, though nothing fails any more"

// Model is searched: states S under rules R, within bounds B.
type Model[R, S any, O ~int8, B any] struct {
	Steps  []Step[R, S, O]
	Start  func(b B) S
	Owners O
	Who    func(o O) string
	Tidy   func(r *R, s *S)  // forgets what makes no difference, and checks the rest
	Print  func(s *S) uint64 // the same for states that are the same
	Broken func(s *S) Property
	Quiet  func(s *S) bool // no claim wants anything
}

// Search is the result of a search.
type Search[R, S any, O ~int8, B any] struct {
	Taken  []bool   // which steps there were
	Broken Property // which does not hold
	Trace  []string // the shortest way there

	m      *Model[R, S, O, B]
	rules  *R
	start  S
	index  map[uint64]int32 // of each state, by its fingerprint
	prints []uint64         // the rest is by index
	from   []int32          // the state before
	calm   []int32          // the state after the calm step
}

const (
	unknown = -1
	settled = -2 // no claim wants anything
)

// States is how many there are.
func (f *Search[R, S, O, B]) States() int { return len(f.prints) }

// Run explores until a property breaks.
func (m *Model[R, S, O, B]) Run(r *R, b B) *Search[R, S, O, B] { return m.run(r, b, math.MaxInt32) }

// run looks at so many states, and some more.
func (m *Model[R, S, O, B]) run(r *R, b B, most int) *Search[R, S, O, B] {
	f := &Search[R, S, O, B]{
		m: m, rules: r, start: m.Start(b), index: make(map[uint64]int32), Taken: make([]bool, len(m.Steps)),
	}
	f.add(&f.start, 0)
	level := []S{f.start}
	for at := int32(0); len(level) > 0; {
		var next []S
		for i := range level {
			if f.expand(at, &level[i], &next) {
				f.Trace = f.trace(f.path(int32(len(f.prints) - 1)))
				return f
			}
			at++
		}
		if level = next; f.States() > most {
			return f
		}
	}
	if way := f.stuck(); way != nil {
		f.Broken, f.Trace = Stuck, f.trace(way)
	}
	return f
}

// add returns a state's index.
func (f *Search[R, S, O, B]) add(s *S, from int32) (at int32, isNew bool) {
	print := f.m.Print(s)
	at, known := f.index[print]
	if known {
		return at, false
	}
	at = int32(len(f.prints))
	f.index[print] = at
	f.prints, f.from, f.calm = append(f.prints, print), append(f.from, from), append(f.calm, unknown)
	return at, true
}

// expand finds the states after one.
func (f *Search[R, S, O, B]) expand(at int32, s *S, next *[]S) (broken bool) {
	calm := 0
	f.each(s, func(st *Step[R, S, O], _ O, n *S) bool {
		to, isNew := f.add(n, at)
		if isNew {
			*next = append(*next, *n)
			f.Broken = f.m.Broken(n)
		}
		if st.Calm > 0 && (calm == 0 || st.Calm < calm) {
			calm, f.calm[at] = st.Calm, to
		}
		return f.Broken == ""
	})
	if calm == 0 && f.m.Quiet(s) {
		f.calm[at] = settled
	}
	return f.Broken != ""
}

// each makes every step that can happen, until it is stopped.
func (f *Search[R, S, O, B]) each(s *S, visit func(st *Step[R, S, O], o O, n *S) bool) {
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
func (f *Search[R, S, O, B]) stuck() (way []int32) {
	fine := make([]bool, len(f.prints))
	for at := range f.prints {
		way = way[:0]
		to := int32(at)
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
func (f *Search[R, S, O, B]) path(to int32) (way []int32) {
	for ; to > 0; to = f.from[to] {
		way = append(way, to)
	}
	slices.Reverse(way)
	return way
}

// trace returns the steps of a way.
func (f *Search[R, S, O, B]) trace(way []int32) (lines []string) {
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

// Spend takes one out of a budget, and reports whether there was one.
func Spend(n *uint8) bool {
	if *n == 0 {
		return false
	}
	*n--
	return true
}

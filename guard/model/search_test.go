package model

import (
	"fmt"
	"slices"
)

// search explores every state that can be reached, breadth first.
type search struct {
	rules  *rules
	start  state
	index  map[uint64]int32 // of each state, by its fingerprint
	prints []uint64         // the rest is by index
	from   []int32          // the state before
	calm   []int32          // the state after the calm step
	taken  []bool           // which steps there were
}

const (
	unknown = -1
	settled = -2 // nobody wants anything
)

// run explores until a property breaks, and says which, and what leads there.
func run(r *rules, b budget) (f *search, broken property, trace []string) {
	f = &search{
		rules: r, start: state{now: gap, budget: b},
		index: make(map[uint64]int32), taken: make([]bool, len(steps)),
	}
	f.add(&f.start, 0)
	level := []state{f.start}
	for at := int32(0); len(level) > 0; {
		var next []state
		for i := range level {
			if bad := f.expand(at, &level[i], &next); bad != nothing {
				return f, bad, f.trace(f.path(int32(len(f.prints) - 1)))
			}
			at++
		}
		level = next
	}
	if way := f.stuck(); way != nil {
		return f, stuck, f.trace(way)
	}
	return f, nothing, nil
}

// add gives a state's index.
func (f *search) add(s *state, from int32) (at int32, isNew bool) {
	print := s.print()
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
func (f *search) expand(at int32, s *state, next *[]state) (broken property) {
	calm := 0
	f.each(s, func(st *step, _ owner, n *state) bool {
		to, isNew := f.add(n, at)
		if isNew {
			*next = append(*next, *n)
			broken = n.broken
		}
		if st.calm > 0 && (calm == 0 || st.calm < calm) {
			calm, f.calm[at] = st.calm, to
		}
		return broken == nothing
	})
	if calm == 0 && s.quiet() {
		f.calm[at] = settled
	}
	return broken
}

// each makes every step that can happen, until told to stop.
func (f *search) each(s *state, visit func(st *step, o owner, n *state) bool) {
	n := *s
	for i := range steps {
		for o := range owner(owners) {
			if !steps[i].do(f.rules, &n, o) {
				continue
			}
			f.taken[i] = true
			n.tidy(f.rules)
			n.checkLeftovers()
			if !visit(&steps[i], o, &n) {
				return
			}
			n = *s
		}
	}
}

// stuck finds a state from which calm steps alone lead nowhere, or round in a circle.
func (f *search) stuck() (way []int32) {
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
func (f *search) path(to int32) (way []int32) {
	for ; to > 0; to = f.from[to] {
		way = append(way, to)
	}
	slices.Reverse(way)
	return way
}

// trace tells what happens on a way.
func (f *search) trace(way []int32) (lines []string) {
	s := f.start
	for _, to := range way {
		f.each(&s, func(st *step, o owner, n *state) bool {
			if n.print() != f.prints[to] {
				return true
			}
			lines = append(lines, fmt.Sprintf("  %c%d %s", 'A'+rune(o)/slots, o%slots+1, st.name))
			s = *n
			return false
		})
	}
	return lines
}

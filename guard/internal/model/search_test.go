package model

import (
	"fmt"

	"github.com/redlatch/redlatch/guard/internal/model/explore"
)

type (
	step   = explore.Step[rules, state, owner]
	search = explore.Search[rules, state, owner]
)

const onlyIfBroken = explore.OnlyIfBroken

var protocol = explore.Model[rules, state, owner]{
	Owners: owners,
	Who:    func(o owner) string { return fmt.Sprintf("%c%d", 'A'+rune(o)/slots, o%slots+1) },
	Tidy: func(r *rules, s *state) {
		s.tidy(r)
		s.checkLeftovers()
	},
	Print:  (*state).print,
	Broken: func(s *state) bool { return s.broken != nothing },
	Quiet:  (*state).quiet,
}

// run explores until a property breaks, and says which, and what leads there.
func run(r *rules, b budget) (f *search, broken property, trace []string) {
	m := protocol
	m.Steps = steps
	f = m.Run(r, state{now: gap, budget: b})
	if broken = f.Bad.broken; f.Stuck {
		broken = stuck
	}
	return f, broken, f.Trace
}

func can(name string, calm int, do func(r *rules, s *state, o owner) bool) step {
	return step{Name: name, Calm: calm, Do: do}
}

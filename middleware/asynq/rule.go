package guardasynq

import (
	"slices"

	"github.com/redlatch/redlatch/guard"
)

// Rule is how tasks of one kind are locked: a row of Tasks.
type Rule struct {
	Key     KeyFunc  // names what a task locks; required
	Options []Option // come after those of Annotate, and override them
}

// Lock is the Rule of a key template, with options of the lock itself. It panics if the
// template is malformed, as Key does.
func Lock(template string, opts ...guard.LockOption) Rule {
	return Rule{Key: Key(template), Options: []Option{With(opts...)}}
}

// And gives the rule with the key of one more template, which is locked as well: see the
// option And. The rule itself stays as it is. It panics if the template is malformed.
//
//	Lock("account:{from}").And("account:{to}")
func (r Rule) And(template string) Rule { return r.With(And(Key(template))) }

// With gives the rule with more options, which override those it has. The rule itself
// stays as it is.
func (r Rule) With(opts ...Option) Rule {
	r.Options = slices.Concat(r.Options, opts)
	return r
}

package guardhttp

import (
	"slices"

	"github.com/redlatch/redlatch/guard"
)

// Routes says for patterns of http.ServeMux which lock a request takes.
type Routes map[string]Rule

// Rule is how the requests of a route are locked.
type Rule struct {
	// Key names what a request locks. It is required.
	Key KeyFunc
	// Options are applied behind those of Annotate.
	Options []Option

	placeholders []string // of the templates of Lock and And
}

// Lock is the Rule of a key template, as the package comment describes it. It panics if
// the template is malformed.
func Lock(template string, opts ...guard.LockOption) Rule {
	parsed := mustParse(template)
	return Rule{Key: parsed.Key, Options: []Option{With(opts...)}, placeholders: parsed.Placeholders()}
}

// And gives the Rule with the key of one more template, which is locked as well: see the
// option And. The Rule itself stays as it is. It panics if the template is malformed.
//
//	Lock("account:{from}").And("account:{to}")
func (r Rule) And(template string) Rule {
	parsed := mustParse(template)
	r.placeholders = slices.Concat(r.placeholders, parsed.Placeholders())
	return r.With(And(parsed.Key))
}

// With gives the Rule with opts applied behind its own. The Rule itself stays as it is.
func (r Rule) With(opts ...Option) Rule {
	r.Options = slices.Concat(r.Options, opts)
	return r
}

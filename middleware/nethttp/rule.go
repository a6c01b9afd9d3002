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

	placeholders []string // of Lock's template
}

// Lock is the Rule of a key template, as the package comment describes it. It panics if
// the template is malformed.
func Lock(template string, opts ...guard.LockOption) Rule {
	parsed := mustParse(template)
	return Rule{Key: parsed.Key, Options: []Option{With(opts...)}, placeholders: parsed.Placeholders()}
}

// With gives the Rule with opts applied behind its own. The Rule itself stays as it is.
func (r Rule) With(opts ...Option) Rule {
	r.Options = slices.Concat(r.Options, opts)
	return r
}

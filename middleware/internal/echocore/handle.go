package echocore

import (
	"context"
	"net/http"

	"github.com/redlatch/redlatch/middleware/internal/httprequest"
	"github.com/redlatch/redlatch/middleware/internal/httprule"
	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

const adapter = "guardecho"

// Context is what the contexts of both versions have in common.
type Context interface {
	Request() *http.Request
	SetRequest(r *http.Request)
	Path() string
}

// Rule is how requests are locked.
type Rule[C Context] = httprule.Rule[C, func(C, error) error]

// Framework is what has to be asked of each version in its own way.
type Framework[C Context] struct {
	// Routed says whether the request of c has a route, or may have one: middleware of a
	// group or of the Echo also runs for requests that are answered 404 or 405 further in.
	Routed func(c C) bool
	// Early says of a c without a path whether the router has yet to find one.
	Early func(c C) bool
	// Method is the method of c's route.
	Method func(c C) string
	// Answer gives what a middleware returns for an error of guard.
	Answer func(c C, err error) error
	// Known knows the errors of this version.
	Known outcome.HTTPError
}

// Handle calls next under the lock of the rule. Its error is next's own, or what OnError
// makes of guard's.
func (f *Framework[C]) Handle(rule *Rule[C], name string, c C, next func(C) error) error {
	ctx := rule.Context(c.Request().Context())
	if rule.Skips(c) {
		return callWith(ctx, c, next)
	}
	own, err := rule.Run(ctx, name, c, func(held context.Context) error {
		return callWith(held, c, next)
	})
	switch {
	case err == nil:
		return own
	// A key that does not fit must not turn a 404 into a 500.
	case isUnfit(err) && !f.Routed(c):
		return callWith(ctx, c, next)
	}
	rule.Log(ctx, adapter, name, err, f.Known)
	return callWith(ctx, c, func(c C) error { return rule.OnError(c, err) })
}

// Name is the lock's name for c, if nobody gives it another one.
func Name[C Context](c C) string {
	return httprequest.Name(c.Request().Method, c.Path())
}

// callWith calls next with a request that has ctx, and puts the old one back, also where
// next panics: outer layers must not see a context that is over.
func callWith[C Context](ctx context.Context, c C, next func(C) error) error {
	outer := c.Request()
	inner := outer.WithContext(ctx)
	c.SetRequest(inner)
	defer func() {
		httprequest.HandBack(outer, inner)
		c.SetRequest(outer)
	}()
	return next(c)
}

func isUnfit(err error) bool {
	value := keytemplate.ValueErrorIn(err)
	return value != nil && value.Unfit
}

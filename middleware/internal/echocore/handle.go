package echocore

import (
	"context"
	"net/http"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/answer"
	"github.com/redlatch/redlatch/middleware/internal/httprequest"
	"github.com/redlatch/redlatch/middleware/internal/httprule"
	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
	"github.com/redlatch/redlatch/middleware/internal/locking"
	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

// Context is what the contexts of both versions have in common.
type Context interface {
	Request() *http.Request
	SetRequest(r *http.Request)
	Path() string
}

type (
	// OnError answers an error of guard.
	OnError[C Context] = func(C, error) error
	// Rule is how requests are locked.
	Rule[C Context] = httprule.Rule[C, OnError[C]]
	// Locker is a Rule in use.
	Locker[C Context] = httprule.Locker[C, OnError[C]]
	// Table has the Rules of many routes.
	Table[C Context] = httprule.Table[C, OnError[C]]
)

const adapterName = "guardecho"

// Adapter knows the placeholders of guardecho's key templates. param gives a path parameter,
// as the router hands it out, and whether the route of c has it.
func Adapter[C Context](param func(c C, name string) (value string, ok bool)) *httprule.Adapter[C, OnError[C]] {
	path := func(c C, name string) (string, error) {
		value, ok := param(c, name)
		if !ok {
			return "", keytemplate.Unfit("the route has no such path parameter")
		}
		return httprequest.DecodePathValue(c.Request().URL, value)
	}
	return httprule.New[OnError[C]](adapterName, httprequest.Placeholders(func(c C) *http.Request { return c.Request() }, path))
}

// Framework is what has to be asked of each version in its own way.
type Framework[C Context] struct {
	// Routed says whether the request of c has a route, or may have one: middleware of a
	// group or of the Echo also runs for requests that are answered 404 or 405 further in.
	Routed func(c C) bool
	// Early says of a c without a path whether the router has yet to find one.
	Early func(c C) bool
	// Method is the method of c's route.
	Method func(c C) string
	// Writer gives what c's handler writes to.
	Writer func(c C) http.ResponseWriter
	// Response gives c's response, which notes what is written to it.
	Response func(c C) http.ResponseWriter
	// WriteTo has c's handler write to a. What it gives puts all back: after it, c's error
	// handler answers, unless a was sent.
	WriteTo func(c C, a *answer.Answer) (restore func())
	// Answer gives what a middleware returns for an error of guard.
	Answer func(c C, err error) error
	// Known knows the errors of this version.
	Known outcome.HTTPError

	faults locking.Faults
}

// Handle calls next under the locks of bound. Its error is next's own, or what OnError
// makes of guard's.
func (f *Framework[C]) Handle(bound *Locker[C], name string, c C, next func(C) error) error {
	ctx := bound.Context(c.Request().Context())
	if bound.Skips(c) {
		return callWith(ctx, c, next)
	}
	given, own, err := f.serve(ctx, bound, name, c, next)
	switch {
	case err == nil:
		return own
	// A key that does not fit must not turn a 404 into a 500.
	case locking.Unfit(err) && !f.Routed(c):
		return callWith(ctx, c, next)
	}
	bound.Log(ctx, adapterName, name, given, err, f.Known)
	return callWith(ctx, c, func(c C) error { return bound.OnError(f.Answer)(c, err) })
}

func (f *Framework[C]) serve(ctx context.Context, bound *Locker[C], name string, c C, next func(C) error) (given *answer.Answer, own, err error) {
	restore := func() {}
	defer func() { restore() }() // also where next panics
	call := httprule.Call[C]{Route: name, Src: c, Request: c.Request(), To: f.Writer(c), Replay: f.Response(c)}
	return bound.Serve(ctx, call, func(held context.Context, a *answer.Answer) error {
		restore = f.WriteTo(c, a)
		return callWith(held, c, next)
	})
}

// HandleRow calls next, under the locks of the row for the route of c, if there is one.
func (f *Framework[C]) HandleRow(table Table[C], c C, next func(C) error) error {
	if c.Path() == "" && f.Early(c) {
		// Without a route no row would ever apply, and nothing would be locked.
		err := &guard.KeyError{Reason: "the request has no route yet: Annotate belongs into Use, not into Pre"}
		f.faults.Log(c.Request().Context(), adapterName, "", locking.KeyFailed.Fault(), err)
		return f.Answer(c, err)
	}
	if row := table.Of(f.Method(c), c.Path()); row != nil {
		return f.Handle(row.Locker, row.Route, c, next)
	}
	return next(c)
}

// Name is the lock's name for c, if nobody gives it another one.
func Name[C Context](c C) string {
	return httprequest.Name(c.Request().Method, c.Path())
}

// callWith calls next with a request that has ctx, and puts the old one back, also where
// next panics: outer layers must not see a context that has ended.
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

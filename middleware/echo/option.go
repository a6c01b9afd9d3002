package guardecho

import (
	"github.com/labstack/echo/v4"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/echocore"
	"github.com/redlatch/redlatch/middleware/internal/httprule"
)

// Option configures Middleware and Annotate. A nil Option is ignored.
type Option interface{ apply(*rule) }

type option func(*rule)

func (o option) apply(r *rule) { o(r) }

// rule is what a key and options amount to.
type rule = echocore.Rule[echo.Context]

func newRule(g *guard.Guard, key KeyFunc, opts ...Option) (*rule, error) {
	r := httprule.New(g, key, HTTPError)
	for _, opt := range opts {
		if opt != nil {
			opt.apply(r)
		}
	}
	return r, r.Check()
}

// With sets options of the lock itself: guard.TTL, guard.Wait, guard.Name, and so on.
// Given more than once, the options add up and later ones win.
func With(opts ...guard.LockOption) Option {
	return option(func(r *rule) { r.Policy.Options = append(r.Policy.Options, opts...) })
}

// And adds keys that a request locks as well: all of them or none, as guard.WithLocks does,
// in an order that does not depend on how they are given, and within one Wait.
// Given more than once, the keys add up. A nil key, or more than 64 keys in all, are out of
// bounds.
func And(keys ...KeyFunc) Option {
	return option(func(r *rule) {
		for _, key := range keys {
			r.And = append(r.And, key)
		}
	})
}

// Skip lets requests pass without a lock: those for which skip returns true. Their
// context carries the Guard all the same. Given more than once, one true is enough. A
// nil skip is ignored.
func Skip(skip func(c echo.Context) bool) Option {
	return option(func(r *rule) {
		if skip != nil {
			r.Skip = append(r.Skip, skip)
		}
	})
}

// OnError replaces HTTPError as the one that turns guard's errors into what the
// middleware returns. handle is also called for a lock that was lost after the handler
// had begun to write. Nothing is logged any more. A nil handle is ignored.
func OnError(handle func(c echo.Context, err error) error) Option {
	return option(func(r *rule) {
		if handle != nil {
			r.OnError, r.OwnOnError = handle, true
		}
	})
}

// BusyStatus is the status for a busy lock: 409 (the default), 423, 429 or 503. It also
// applies where the handler has the error of a lock of its own converted by HTTPError.
func BusyStatus(code int) Option {
	return option(func(r *rule) { r.BusyStatus = code })
}

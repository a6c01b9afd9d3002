package guardecho

import (
	"fmt"

	"github.com/labstack/echo/v4"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/echocore"
)

// Config is Middleware in the form of echo's own middleware, for those who prefer an
// error over a panic. Only Key is required.
type Config struct {
	// Guard locks. Where it is nil, the Guard in the request's context does, or else the
	// one given to guard.SetDefault.
	Guard *guard.Guard
	// Key names what a request locks.
	Key KeyFunc
	// Skipper lets requests pass without a lock, as Skip does.
	Skipper func(c echo.Context) bool
	// Options are applied in order.
	Options []Option
}

// ToMiddleware makes the middleware, or says which field or option is out of its bounds.
func (config Config) ToMiddleware() (echo.MiddlewareFunc, error) {
	opts := append([]Option{Skip(config.Skipper)}, config.Options...)
	guarded, err := newRule(config.Guard, config.Key, opts...)
	if err != nil {
		return nil, fmt.Errorf("guardecho: %w", err)
	}
	// Echo calls this for every request: it must be nothing but a closure.
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		refuseNil(next)
		return func(c echo.Context) error { return v4.Handle(guarded, echocore.Name(c), c, next) }
	}, nil
}

func refuseNil(next echo.HandlerFunc) {
	if next == nil {
		panic("guardecho: no handler")
	}
}

// Middleware runs handlers under the lock that key names. With a nil g, the Guard in
// the request's context locks, or else the one given to guard.SetDefault. The lock's
// Name is the method and path of the route ("POST /orders/:id/pay") if With sets none,
// and its Wait is 2 seconds if neither With nor the Guard set one.
//
// It panics if key is nil or an option is out of its bounds; Config.ToMiddleware returns
// an error instead. The middleware may be used for any number of routes.
func Middleware(g *guard.Guard, key KeyFunc, opts ...Option) echo.MiddlewareFunc {
	middleware, err := Config{Guard: g, Key: key, Options: opts}.ToMiddleware()
	if err != nil {
		panic(err.Error())
	}
	return middleware
}

package guardecho

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/redlatch/redlatch/middleware/internal/httprequest"
	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

func (s *settings) handle(c echo.Context, next echo.HandlerFunc) error {
	ctx := outcome.WithBusyStatus(s.policy.Context(c.Request().Context()), s.busyStatus)
	for _, skip := range s.skip {
		if skip(c) {
			return nextWith(ctx, c, next)
		}
	}
	name := httprequest.Name(c.Request().Method, c.Path())
	key := func(context.Context) (string, error) { return s.key(c) }
	own, err := s.policy.Run(ctx, name, key, func(held context.Context) error {
		return nextWith(held, c, next)
	})
	switch {
	case err == nil:
		return own
	case isUnfit(err) && !routed(c):
		return nextWith(ctx, c, next)
	}
	return nextWith(ctx, c, func(c echo.Context) error { return s.onError(c, err) })
}

// nextWith calls next with a request that has ctx, and puts the old one back, also where
// next panics: outer layers must not see a context that is over.
func nextWith(ctx context.Context, c echo.Context, next echo.HandlerFunc) error {
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

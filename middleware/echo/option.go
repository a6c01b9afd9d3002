package guardecho

import (
	"errors"
	"fmt"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

// Option configures Middleware. A nil Option is ignored.
type Option interface{ apply(*settings) }

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

const defaultWait = 2 * time.Second

// settings are what a middleware goes by. They do not change once it is made.
type settings struct {
	policy     locking.Policy
	key        KeyFunc
	skip       []func(echo.Context) bool
	onError    func(echo.Context, error) error
	busyStatus int // 0 is the default
}

func newSettings(g *guard.Guard, key KeyFunc, opts []Option) (*settings, error) {
	s := &settings{
		policy:  locking.Policy{Guard: g, DefaultWait: defaultWait},
		key:     key,
		onError: HTTPError,
	}
	for _, opt := range opts {
		if opt != nil {
			opt.apply(s)
		}
	}
	if key == nil {
		return nil, errors.New("guardecho: no KeyFunc")
	}
	if err := s.policy.Check(); err != nil {
		return nil, fmt.Errorf("guardecho: %w", err)
	}
	if err := outcome.CheckBusyStatus(s.busyStatus); s.busyStatus != 0 && err != nil {
		return nil, fmt.Errorf("guardecho: %w", err)
	}
	return s, nil
}

// With sets options of the lock itself: guard.TTL, guard.Wait, guard.Name, and so on.
// Given more than once, the options add up and later ones win.
func With(opts ...guard.LockOption) Option {
	return option(func(s *settings) { s.policy.Options = append(s.policy.Options, opts...) })
}

// Skip lets requests pass without a lock: those for which skip returns true. Their
// context carries the Guard all the same. Given more than once, one true is enough. A
// nil skip is ignored.
func Skip(skip func(c echo.Context) bool) Option {
	return option(func(s *settings) {
		if skip != nil {
			s.skip = append(s.skip, skip)
		}
	})
}

// OnError replaces HTTPError as the one that turns guard's errors into what the
// middleware returns. handle is also called for a lock that was lost after the handler
// had begun to write. A nil handle is ignored.
func OnError(handle func(c echo.Context, err error) error) Option {
	return option(func(s *settings) {
		if handle != nil {
			s.onError = handle
		}
	})
}

// BusyStatus is the status for a busy lock: 409 (the default), 423, 429 or 503. It also
// applies where the handler has the error of a lock of its own converted by HTTPError.
func BusyStatus(code int) Option {
	return option(func(s *settings) { s.busyStatus = code })
}

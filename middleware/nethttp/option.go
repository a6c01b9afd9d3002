package guardhttp

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

// Option configures Middleware. A nil Option is ignored.
type Option interface{ apply(*config) }

type option func(*config)

func (o option) apply(c *config) { o(c) }

const defaultWait = 2 * time.Second

type config struct {
	policy     locking.Policy
	key        KeyFunc
	skip       []func(*http.Request) bool
	onError    func(http.ResponseWriter, *http.Request, error)
	busyStatus int // 0 is the default
}

func newConfig(g *guard.Guard, key KeyFunc, opts []Option) (*config, error) {
	c := &config{
		policy:  locking.Policy{Guard: g, DefaultWait: defaultWait},
		key:     key,
		onError: WriteError,
	}
	for _, opt := range opts {
		if opt != nil {
			opt.apply(c)
		}
	}
	if key == nil {
		return nil, errors.New("guardhttp: no KeyFunc")
	}
	if err := c.policy.Check(); err != nil {
		return nil, fmt.Errorf("guardhttp: %w", err)
	}
	if err := outcome.CheckBusyStatus(c.busyStatus); c.busyStatus != 0 && err != nil {
		return nil, fmt.Errorf("guardhttp: %w", err)
	}
	return c, nil
}

// With sets options of the lock itself: guard.TTL, guard.Wait, guard.Name, and so on.
// Given more than once, the options add up and later ones win.
func With(opts ...guard.LockOption) Option {
	return option(func(c *config) { c.policy.Options = append(c.policy.Options, opts...) })
}

// Skip lets requests pass without a lock: those for which skip returns true. Their
// context carries the Guard all the same. Given more than once, one true is enough. A
// nil skip is ignored.
func Skip(skip func(r *http.Request) bool) Option {
	return option(func(c *config) {
		if skip != nil {
			c.skip = append(c.skip, skip)
		}
	})
}

// OnError replaces WriteError as the one that answers guard's errors. handle is also
// called for a lock that was lost after the handler had begun to write; WriteError
// writes nothing then. A nil handle is ignored.
func OnError(handle func(w http.ResponseWriter, r *http.Request, err error)) Option {
	return option(func(c *config) {
		if handle != nil {
			c.onError = handle
		}
	})
}

// BusyStatus is the status for a busy lock: 409 (the default), 423, 429 or 503. It also
// applies where the handler has the error of a lock of its own answered by WriteError.
func BusyStatus(code int) Option {
	return option(func(c *config) { c.busyStatus = code })
}

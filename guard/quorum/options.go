package quorum

import (
	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
)

// Option configures a Store. A nil Option is ignored.
type Option interface{ apply(*config) error }

// config is what the options of New say.
type config struct {
	prefix string
	all    bool
}

type option func(*config) error

func (o option) apply(c *config) error { return o(c) }

// All has a lock need every server instead of a majority: two holders need all servers to
// forget, but a server that is down keeps all callers out.
func All() Option {
	return option(func(c *config) error { c.all = true; return nil })
}

// Prefix is the namespace of every key and channel, as guard.Prefix is for New. The default is
// guard.DefaultPrefix. A prefix that is empty, has a brace in it, or is not UTF-8 is a
// guard.OptionError.
func Prefix(prefix string) Option {
	return option(func(c *config) error {
		if fault := redisstore.PrefixFault(prefix); fault != "" {
			return &guard.OptionError{Option: "Prefix", Reason: fault}
		}
		c.prefix = prefix
		return nil
	})
}

func newConfig(opts []Option) (config, error) {
	c := config{prefix: guard.DefaultPrefix}
	for _, opt := range opts {
		if opt == nil {
			continue
		}
		if err := opt.apply(&c); err != nil {
			return config{}, err
		}
	}
	return c, nil
}

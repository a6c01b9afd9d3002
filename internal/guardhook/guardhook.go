// Package guardhook has functions of package guard that the adapters and the tests of this
// repository need, and users do not. Package guard sets them when it is initialized. Their types
// are any, as guard imports this package.
package guardhook

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// ErrNotBegun is what the function of guard.Once returns if it did nothing: no record stays, also if its context has ended.
var ErrNotBegun = errors.New("work did not begin")

// MaxLocks is how many different keys one call of WithLocks takes at most.
const MaxLocks = 64

var (
	// DefaultWait returns a guard.LockOption: the wait where neither the call nor the Guard set one.
	DefaultWait func(d time.Duration) any

	// CheckOptions returns the error of the first option of a []guard.LockOption that is out of its
	// bounds, as New or a call would.
	CheckOptions func(options any) error

	// CheckOnce returns the error of keep, or of the first option of a []guard.OnceOption that is out
	// of its bounds, as Once would.
	CheckOnce func(keep time.Duration, options any) error

	// GuardFor returns the *guard.Guard that the functions of package guard use for ctx, or a nil one.
	GuardFor func(ctx context.Context) any

	// Owner returns the token of a *guard.Lease: the field of the lock's hash in Redis.
	Owner func(lease any) string

	// Limit returns that of a *guard.Lease.
	Limit func(lease any) guardstore.Limit
)

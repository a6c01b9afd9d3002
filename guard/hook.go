package guard

import (
	"context"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/internal/guardhook"
)

//nolint:gochecknoinits // package guardhook cannot import this one
func init() {
	guardhook.DefaultWait = func(d time.Duration) any { return defaultWait(d) }
	guardhook.CheckOptions = func(options any) error {
		_, err := settings{}.with(options.([]LockOption)) //nolint:forcetypeassert // package locking gives them
		return err
	}
	guardhook.CheckOnce = func(keep time.Duration, options any) error {
		return checkOnce(keep, options.([]OnceOption)) //nolint:forcetypeassert // as above
	}
	guardhook.GuardFor = func(ctx context.Context) any { return guardFor(ctx) }
	guardhook.Owner = func(lease any) string { return lease.(*Lease).hold.Claim.Owner }           //nolint:forcetypeassert // as above
	guardhook.Limit = func(lease any) guardstore.Limit { return lease.(*Lease).hold.Claim.Limit } //nolint:forcetypeassert // as above
}

// defaultWait sets the wait where neither the call nor the Guard set one.
func defaultWait(d time.Duration) LockOption {
	return lockOption(func(s *settings) error {
		if d < 0 {
			return &OptionError{"DefaultWait", fmt.Sprintf("%v is negative", d)}
		}
		if !s.waitSet {
			s.wait = d
		}
		return nil
	})
}

// checkOnce returns the error of the first argument or option that is out of its bounds.
func checkOnce(keep time.Duration, opts []OnceOption) error {
	o, err := newOnce(keep, opts)
	if err != nil {
		return err
	}
	s, err := settings{}.with(o.lock)
	if err != nil {
		return err
	}
	s.once = &o
	return s.checkOnce()
}

package guard

import (
	"context"
	"iter"
)

type (
	guardKey struct{} // *Guard, see WithGuard
	leaseKey struct{} // *Lease, the innermost; the others hang on it
)

// FromContext returns the innermost lease that ctx carries: that of the handler or work around the
// caller, whatever its key, with Shared or a Limit, too, and whether or not it is still held (see
// Lease.Err). Before a write that needs the lock of a key, ask Held.
func FromContext(ctx context.Context) (*Lease, bool) {
	l := leaseIn(ctx)
	return l, l != nil
}

// Held returns the lease under which ctx runs for key, if ctx carries one and this process has
// not seen it end. It does not ask Redis: Lease.Check does. It sees exclusive leases only: a
// lease with Shared or a Limit may have others beside it. It returns false if key is nil or fails.
func Held(ctx context.Context, key KeyFunc) (*Lease, bool) {
	if leaseIn(ctx) == nil {
		return nil, false
	}
	wanted, _ := resolveKey(ctx, key) // no lease has the key of an error
	for l := range ExclusiveLeases(ctx) {
		if l.Key() == wanted && l.Err() == nil {
			return l, true
		}
	}
	return nil, false
}

// Fence returns the fencing token to claim a row with: call guardsql.Fence at the begin of each
// transaction that reads or writes what the lock protects, and the database refuses former
// holders (package github.com/redlatch/redlatch/guardsql). For a store without transactions, claim
// the record with the token when you read it, and write under the same condition:
// docs/guides/fencing.md has both.
//
// It is the token of the innermost exclusive lease of ctx, whether or not the lease is still held.
// Under two locks, use Held to choose one. It returns false if ctx has no exclusive lease, as in
// work that FailOpen let run.
func Fence(ctx context.Context) (uint64, bool) {
	for l := range ExclusiveLeases(ctx) {
		return l.Fence(), true
	}
	return 0, false
}

// ExclusiveLeases returns the exclusive leases that ctx carries, the innermost first, whether or
// not they are still held: for code that needs the key with its fence, as package guardsql does.
// Leases with Shared or a Limit are not among them.
func ExclusiveLeases(ctx context.Context) iter.Seq[*Lease] {
	return func(yield func(*Lease) bool) {
		for l := leaseIn(ctx); l != nil; l = l.outer {
			if l.exclusive() && !yield(l) {
				return
			}
		}
	}
}

// Detach gives a context with the values of ctx, but with none of its leases and not
// ended by it: for goroutines that outlive the work. What they lock, they lock anew.
func Detach(ctx context.Context) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), leaseKey{}, (*Lease)(nil))
}

// WithGuard puts a Guard into a context, for the package's WithLock and Do. Middleware
// does it for the handlers it wraps; under a lock, the lock's own Guard is found without.
// A nil g leaves them to that, or to the one given to SetDefault.
func WithGuard(ctx context.Context, g *Guard) context.Context {
	return context.WithValue(ctx, guardKey{}, g)
}

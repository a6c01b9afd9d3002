package guard

import "context"

type (
	guardKey struct{} // *Guard, see WithGuard
	leaseKey struct{} // *Lease, the innermost; the others hang on it
)

// FromContext gives the innermost lease that ctx carries, whether or not it is still
// held: ask its Err.
func FromContext(ctx context.Context) (*Lease, bool) {
	l := leaseIn(ctx)
	return l, l != nil
}

// Held gives the lease under which ctx runs for key, if it carries one and this process has
// not seen it end. It does not ask Redis: Lease.Check does. It sees exclusive leases only: a
// lease with Shared or a Limit may have others beside it.
func Held(ctx context.Context, key string) (*Lease, bool) {
	for l := leaseIn(ctx); l != nil; l = l.outer {
		if l.Key() == key && l.exclusive() && l.Err() == nil {
			return l, true
		}
	}
	return nil, false
}

// Fence gives the fencing token of the innermost exclusive lease of ctx, whether or not it
// is still held: a resource that is shown the token refuses the stale ones. Under two
// locks, use Held to say which one is meant. It is false where ctx has no lease, as in
// work that FailOpen let run.
func Fence(ctx context.Context) (uint64, bool) {
	for l := leaseIn(ctx); l != nil; l = l.outer {
		if l.exclusive() {
			return l.Fence(), true
		}
	}
	return 0, false
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

// leaseContext carries a lease that it is a part of: with context.WithValue it would be
// apart.
type leaseContext struct {
	context.Context //nolint:containedctx // it is one

	lease *Lease
}

// Value implements context.Context.
func (c *leaseContext) Value(key any) any {
	if key == (leaseKey{}) {
		return c.lease
	}
	return c.Context.Value(key)
}

func leaseIn(ctx context.Context) *Lease {
	if ctx == nil {
		return nil
	}
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// inChain gives the innermost lease of g on key in ctx, held or not.
func (g *Guard) inChain(ctx context.Context, key string) *Lease { return leaseIn(ctx).inChain(g, key) }

// inChain is Guard.inChain for the innermost lease of a context, which may be nil.
func (l *Lease) inChain(g *Guard, key string) *Lease {
	for ; l != nil; l = l.outer {
		if l.hold.g == g && l.Key() == key {
			return l
		}
	}
	return nil
}

// under says whether a context, of which this is the innermost lease, runs under one of g that is
// held.
func (l *Lease) under(g *Guard) bool {
	for ; l != nil; l = l.outer {
		if l.hold.g == g && l.Err() == nil {
			return true
		}
	}
	return false
}

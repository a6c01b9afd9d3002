package guard

import "context"

// What a Lease that Acquire did not make is like: one that is over.
var (
	errNoLease  error = &OptionError{"Lease", "is not one that Acquire made: it holds nothing"}
	overContext       = endedBy(errNoLease)
)

// made says whether l is the lease of a hold.
func (l *Lease) made() bool { return l != nil && l.hold != nil }

func endedBy(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

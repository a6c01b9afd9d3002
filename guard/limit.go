package guard

import (
	"fmt"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// maxLimit is the highest n that Limit takes.
const maxLimit = 10_000

// Limit lets at most n callers work under the key at once, in all processes: at most three
// exports for a tenant. n is 1 to 10,000; Limit(1) is a lock as any other.
//
// A caller gets a permit if the number of holders, with it, is within its own limit and within the
// limit of every holder. So callers may use different values of n: the lowest among the holders
// counts. An exclusive lock on the key waits until all permits are released, and lets no permit
// in. All callers wait in one queue: no claim passes another, even if it would fit.
//
// Each holder has a ttl of its own: after a crash its permit is free within that ttl. Within the
// HandoverWindow, a permit passes to the next caller of the same Guard that waits with the same
// TTL. The leases have fences, which name the permits. A resource cannot refuse late writes by
// them: n callers write at once. Held and Fence do not see these leases; FromContext does.
//
// It is for calls and for the rules of adapters: New refuses it. It does not go with Shared,
// and not with a quorum of servers.
func Limit(n int) LockOption {
	return callOption{"Limit", func(s *settings) error {
		switch {
		case n < 1 || n > maxLimit:
			return &OptionError{"Limit", fmt.Sprintf("%d is outside 1 to %d", n, maxLimit)}
		case s.limit == guardstore.Unlimited:
			return errLimitAndShared
		}
		s.limit = guardstore.Exclusive
		if n > 1 {
			s.limit = guardstore.Limit(n)
		}
		return nil
	}}
}

// Shared lets any number of callers work under the key at once, and none of them beside an
// exclusive one: many readers or one writer. Calls with Limit count them, and keep within
// their limit.
//
// Readers do not starve a writer that waits: readers that come later wait until it has had its
// turn. Readers that are next to each other in the queue start together.
//
// Readers of one Guard whose TTL is the same share one claim, with one owner and
// one fence, if they come within the HandoverWindow of its grant: its loss ends the context of
// each, and the last one releases it. To Limit they count as one, so do not mix Shared
// and Limit on one key if each reader is to count, or set HandoverWindow(0). With MaxHold a reader shares nothing.
//
// A reader's fence is above that of every earlier writer and below that of every later one:
// it says which version the reader may have seen. Held and Fence do not see a
// reader's lease, so that code which asks for a lock before it writes is not satisfied by one;
// FromContext returns it. To take the key exclusively under a reader's lease is an OptionError.
//
// It is for calls and for the rules of adapters: New refuses it. It does not go with Limit,
// and not with a quorum of servers.
func Shared() LockOption {
	return callOption{"Shared", func(s *settings) error {
		if s.limit > 0 {
			return errLimitAndShared
		}
		s.limit = guardstore.Unlimited
		return nil
	}}
}

var errLimitAndShared = &OptionError{"Limit", "does not go with Shared: say one of them"}

// callOption is a LockOption that a Guard cannot have as its default: all its locks would
// stop to exclude each other.
type callOption struct {
	name  string
	apply func(*settings) error
}

func (o callOption) applyLock(s *settings) error { return o.apply(s) }
func (o callOption) applyGuard(*config) error {
	return &OptionError{o.name, "is for a call or a rule, not for a Guard: no lock would be exclusive by default"}
}

func (l *Lease) exclusive() bool { return l.hold.Claim.Limit == guardstore.Exclusive }

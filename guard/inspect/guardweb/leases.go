package guardweb

import (
	"time"

	"github.com/redlatch/redlatch/guard"
)

// Leases adds what a Guard of this process holds. It does not ask Redis. Given more than once, the
// page shows all of them. A nil Guard is an error.
func Leases(g *guard.Guard) Option {
	return func(h *handler) error {
		if g == nil {
			return &guard.OptionError{Option: "Leases", Reason: "was given a nil Guard"}
		}
		before := h.leases
		h.leases = func() []own {
			var all []own
			if before != nil {
				all = before()
			}
			return append(all, ownOf(g.Leases(), time.Now())...)
		}
		return nil
	}
}

func ownOf(leases []guard.LeaseInfo, now time.Time) []own {
	all := make([]own, 0, len(leases))
	for _, l := range leases {
		all = append(all, own{
			Key: l.Key, Name: l.Name, Since: since(now, l.Since), Fence: l.Fence,
			Left: barOf(max(time.Millisecond, l.Deadline.Sub(now))), Depth: l.Depth, Waiting: l.Waiting,
		})
	}
	return all
}

package guard

import (
	"cmp"
	"slices"
	"time"
)

// LeaseInfo is a hold of this process, see Guard.Leases.
type LeaseInfo struct {
	Key, Name string
	Fence     uint64
	Since     time.Time // when the work under it got the lock
	Deadline  time.Time // as Lease.Deadline
	Depth     int       // how many calls of the hold are open
	Waiting   int       // how many callers of this Guard wait for the key
}

// Leases are the holds of this Guard at this moment, the oldest first. It does not ask
// Redis: it is exact for this process, and says nothing of others. Package inspect does. A nil or zero Guard has none.
func (g *Guard) Leases() []LeaseInfo {
	if !g.made() {
		return nil
	}
	held := g.cohorts.Held()
	all := make([]LeaseInfo, 0, len(held))
	for _, one := range held {
		h := one.Holder.(*hold) //nolint:forcetypeassert // nobody else holds anything
		all = append(all, LeaseInfo{
			Key: h.Label.Key, Name: h.Label.Name, Fence: h.Fence, Depth: h.open(),
			Since: max(one.Since, h.root.started).Time(), Deadline: one.Deadline.Time(), Waiting: h.Waiting(),
		})
	}
	slices.SortFunc(all, func(a, b LeaseInfo) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Key, b.Key))
	})
	return all
}

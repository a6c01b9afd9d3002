package guard

import (
	"cmp"
	"slices"
	"time"
)

// HoldInfo is a hold of this process, see Guard.Holds.
type HoldInfo struct {
	Key, Name string
	Fence     uint64
	Since     time.Time // when the work under it got the lock
	Deadline  time.Time // as Lease.Deadline
	Depth     int       // how many calls of the hold are open
	Waiting   int       // how many callers of this Guard wait for the key
}

// Holds are the holds of this Guard at this moment, the oldest first. It does not ask
// Redis: it is exact for this process, and says nothing of others. Package inspect does. A nil or zero Guard has none.
func (g *Guard) Holds() []HoldInfo {
	if !g.made() {
		return nil
	}
	held := g.cohorts.Held()
	all := make([]HoldInfo, 0, len(held))
	for _, one := range held {
		h := one.Holder.(*hold) //nolint:forcetypeassert // no other type holds anything
		all = append(all, HoldInfo{
			Key: h.Label.Key, Name: h.Label.Name, Fence: h.Fence, Depth: h.open(),
			Since: max(one.Since, h.root.started).Time(), Deadline: one.Deadline.Time(), Waiting: h.Waiting(),
		})
	}
	slices.SortFunc(all, func(a, b HoldInfo) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Key, b.Key))
	})
	return all
}

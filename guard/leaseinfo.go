package guard

import (
	"cmp"
	"slices"
	"time"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

// LeaseInfo is a hold of this process, see Guard.Leases.
type LeaseInfo struct {
	Key, Name string
	Fence     uint64
	Since     time.Time // when the work under it got the lock
	Deadline  time.Time // as Lease.Deadline
	Depth     int       // how many calls of the hold are open
	Waiting   int       // how many callers of this Guard wait behind it
}

// Leases are the holds of this Guard at this moment, the oldest first. It asks nobody: it
// is exact for this process, and says nothing of others. That is what package inspect is
// for. A nil or zero Guard has none.
func (g *Guard) Leases() []LeaseInfo {
	if !g.made() {
		return nil
	}
	all, behind := g.watchdog.leases()
	g.contenders.mu.Lock()
	for i, c := range behind {
		all[i].Waiting = c.line.Len()
	}
	g.contenders.mu.Unlock()
	slices.SortFunc(all, func(a, b LeaseInfo) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Key, b.Key))
	})
	return all
}

// leases are what is watched, and where callers wait for each.
func (w *watchdog) leases() (all []LeaseInfo, behind []*contender) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := clock.Now()
	for _, t := range w.tenures {
		h, ok := t.holder.(*hold)
		if !ok || t.overBy(at) != nil {
			continue
		}
		all = append(all, LeaseInfo{
			Key: h.lock.Key, Name: h.lock.Name, Fence: h.fence, Depth: int(t.depth.Load()),
			Since: max(t.begun, t.ended).Time(), Deadline: t.deadline.Time(),
		})
		behind = append(behind, h.contender)
	}
	return all, behind
}

package guard

import (
	"context"
	"slices"
	"time"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/cohort"
)

// endAllAfter ends the leases that this call took, all at the same time, d from now.
func endAllAfter(taken []*Lease, d time.Duration) {
	until := clock.Now().Add(min(d, clock.Forever))
	for _, l := range taken {
		if l == &l.hold.root { // the others were re-entered
			l.hold.EndAt(until)
		}
	}
}

// releasePatience is for how long the releases of one call are sent one after another. A release that is not
// answered by then does not delay the others. To one Redis all are sent at once.
const releasePatience = 50 * time.Millisecond

// endWork ends the leases of work that is done, the last one first, and returns the loss of each, as
// Lease.endWork does.
func endWork(ctx context.Context, taken []*Lease, async bool) []*LostError {
	if !async {
		endAll(ctx, taken, afterWork)
	}
	lost := make([]*LostError, len(taken))
	for i, l := range slices.Backward(taken) {
		lost[i] = l.endWork(ctx, async)
	}
	return lost
}

// endAll ends leases, the last one first, and waits for that. For a lease that another call has begun to
// end, it does not wait: Lease.Release and Lease.endWork do.
func endAll(ctx context.Context, taken []*Lease, p cohort.Patience) {
	if len(taken) == 0 {
		return
	}
	defer endEach(ctx, taken, p)
	g, last := taken[0].hold.g, len(taken)-1
	patience := releasePatience
	if g.oneRedis {
		patience = 0
	}
	g.tasks.InTurn(len(taken), patience, func(i int) { taken[last-i].end(ctx, p) })
}

// endEach ends the leases that an Observer's panic left.
func endEach(ctx context.Context, taken []*Lease, p cohort.Patience) {
	if last := len(taken) - 1; last >= 0 {
		defer endEach(ctx, taken[:last], p)
		taken[last].end(ctx, p)
	}
}

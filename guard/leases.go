package guard

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/cohort"
)

// Leases are what AcquireAll took: one Lease for each key. The methods may be called from
// many goroutines.
//
// Only AcquireAll makes one. With an error, it returns nil, whose methods panic.
type Leases struct {
	taken   []*Lease // in the order in which they were taken: each under the one before
	ending  atomic.Bool
	done    chan struct{} // closed when the first Release has its result
	failure error         // that result
}

// Context is derived from the caller's, and carries every lease. It ends when any of them is
// lost or released (the cause is its LostError), and when the Guard closes.
func (ls *Leases) Context() context.Context {
	return ls.taken[len(ls.taken)-1].ctx
}

// Err is nil while all leases are held, else the LostError of one that is not: of one that
// was lost, if there is one.
func (ls *Leases) Err() error {
	var first error
	for _, l := range ls.taken {
		err := l.Err()
		if err != nil && !errors.Is(err, ErrReleased) {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// Lease gives the lease of a key, whether or not it is still held: false if AcquireAll was not
// asked for that key.
func (ls *Leases) Lease(key string) (*Lease, bool) {
	at := slices.IndexFunc(ls.taken, func(l *Lease) bool { return l.Key() == key })
	if at < 0 {
		return nil, false
	}
	return ls.taken[at], true
}

// All gives the leases, sorted by key. The slice is the caller's.
func (ls *Leases) All() []*Lease {
	all := slices.Clone(ls.taken)
	slices.SortFunc(all, func(a, b *Lease) int { return strings.Compare(a.Key(), b.Key()) })
	return all
}

// Release gives back all leases: on one Redis all at the same time, else the one that was
// taken last first. It does not stop at one that fails. One that is not answered for 50 ms
// does not keep the rest: they go out beside it. Release may be called more than once: later calls wait for the first one's result and
// return it.
//
// The result is nil when all locks were held to the end and every release was confirmed. Else
// it is what Lease.Release returned for those that were not, joined: LostErrors, StoreErrors,
// and the error of ctx once. As there, ctx bounds the wait only, and a nil ctx bounds nothing.
func (ls *Leases) Release(ctx context.Context) error { //nolint:contextcheck // a nil ctx has no parent
	if ctx == nil {
		ctx = context.Background()
	}
	if ls.ending.CompareAndSwap(false, true) {
		endAll(ctx, ls.taken, cohort.Patience{Most: clock.Forever})
		ls.failure = ls.result(ctx)
		close(ls.done)
		return ls.failure
	}
	select {
	case <-ls.done:
		return ls.failure
	case <-ctx.Done():
		return ended(ctx)
	}
}

// result joins what came of the releases.
func (ls *Leases) result(ctx context.Context) error {
	var all []error
	ctxEnded := false
	for _, l := range ls.taken {
		err := l.Release(ctx)
		switch {
		case err == nil:
			continue
		case errors.Is(err, ErrLost), errors.Is(err, ErrStore):
		case ctxEnded:
			continue
		default:
			ctxEnded = true
		}
		all = append(all, err)
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}

// limit lets all leases that this call took end at once, d from now.
func (ls *Leases) limit(d time.Duration) {
	until := clock.Now().Add(min(d, clock.Forever))
	for _, l := range ls.taken {
		if l == &l.hold.root { // the others were re-entered
			l.hold.EndAt(until)
		}
	}
}

// releasePatience is how long releases of one call go out one after another. What is not
// answered by then does not keep the others. To one Redis they go at once.
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

// endEach ends what an Observer that panicked left.
func endEach(ctx context.Context, taken []*Lease, p cohort.Patience) {
	if last := len(taken) - 1; last >= 0 {
		defer endEach(ctx, taken[:last], p)
		taken[last].end(ctx, p)
	}
}

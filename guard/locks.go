package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/cohort"
	"github.com/redlatch/redlatch/internal/guardhook"
)

// maxLocks is how many different keys one call of WithLocks takes at most.
const maxLocks = guardhook.MaxLocks

// WithLocks runs fn while nothing else runs under any of keys: for work that needs several
// things at once, as a transfer needs two accounts. It is WithLock nested once for each key,
// and its comment holds for each key, with these rules:
//
//   - The keys are sorted by their bytes, and a key that is there twice counts once. Calls
//     that need the same keys take them in the same order, so they never wait for each other
//     in a circle. The keys that ctx holds already are re-entered first, which never waits.
//     No order protects a key that ctx held before: nest calls in one order everywhere.
//   - On one Redis all keys are asked for at the same time; if all are free, that costs the
//     time of one. Else, and on a cluster or a quorum, the keys are taken one after another,
//     each with a place in its own queue. What was taken stays taken while the next one is
//     waited for: take few, 64 at most. Nothing that comes later is held meanwhile.
//   - Either all are taken or none: if one cannot be had, those before it are given back,
//     the last one first, and the error names that one key alone.
//   - If one is lost, fn's context ends with its LostError as the cause. If that happens while
//     another one is waited for, fn does not run and the LostError is the result.
//   - All are given back after fn, on one Redis at the same time, else the last one first,
//     whatever becomes of one of them. If several were lost, their LostErrors are joined.
//
// The options hold for all keys. Wait is one budget for all: what the first key leaves of it
// is for the next. NoWait tries each key once. TTL counts from the grant of
// each key. MaxHold counts from fn's start, for the keys that this call took. MinHold counts from the grant of each key,
// and keeps those that this call took and did not lose; none is kept if fn did not run. Limit
// and Shared are those of each key: a call that finds one key full is inside of none. FailOpen runs fn without a lease when
// a key ended in a StoreError, after the others were given back. Name and Metadata are those
// of each lock. Observers are notified of each key.
//
// Held gives the lease of each key, and so its fence; with Limit or Shared it gives none, and
// FromContext returns the lease that was taken last. Fence gives that of the key that was
// taken last: the largest that ctx did not hold already.
//
// No keys, or more than 64 different ones, are an OptionError. A nil key function is a
// KeyError, as is a key that WithLock would refuse. Nothing is taken then.
func (g *Guard) WithLocks(ctx context.Context, keys []KeyFunc, fn func(ctx context.Context) error, opts ...LockOption) error {
	if fn == nil {
		return &OptionError{"fn", "is nil"}
	}
	c, sorted, err := g.prepareAll(ctx, keys, opts)
	if err != nil {
		return err
	}
	taken, err := g.acquireAll(ctx, c, sorted)
	if err != nil {
		var failure *StoreError
		if c.failOpen && isAcquireFailure(err) && errors.As(err, &failure) {
			lock := Lock{Name: failure.Name, Key: failure.Key, Limit: c.limit}
			g.noteOutage(ctx, lock, c.ttl, err)
			g.observers.Event(ctx, lock, Event{Kind: EventFailedOpen, Op: "acquire", Err: err})
			return fn(ctx)
		}
		return err
	}
	returned := false
	defer func() {
		if !returned {
			endWork(ctx, taken, c.asyncRelease)
		}
	}()
	err = fn(taken[len(taken)-1].ctx) //nolint:contextcheck // it descends from ctx
	returned = true
	var all []error
	for _, lost := range endWork(ctx, taken, c.asyncRelease) {
		if lost != nil && !errors.Is(err, lost) { // else err has the loss already
			all = append(all, lost)
		}
	}
	if len(all) == 0 {
		return err
	}
	return errors.Join(append(all, err)...)
}

// prepareAll checks a request for several locks. The call has no lock yet.
func (g *Guard) prepareAll(ctx context.Context, keys []KeyFunc, opts []LockOption) (c call, sorted []Lock, err error) {
	s, err := g.settingsOf(ctx, opts)
	if err != nil {
		return call{}, nil, err
	}
	if sorted, err = s.resolveKeys(ctx, keys); err != nil {
		return call{}, nil, err
	}
	claims := func(lock Lock) bool { return leaseIn(ctx).inChain(g, lock.Key) == nil }
	if s.metadataOf != nil && slices.ContainsFunc(sorted, claims) {
		if s.metadata, err = s.callMetadata(ctx); err != nil {
			return call{}, nil, err
		}
	}
	return call{settings: s, under: leaseIn(ctx)}, sorted, nil
}

// resolveKeys runs all key functions, and sorts the keys. A key that is there twice has
// the first of its names.
func (s settings) resolveKeys(ctx context.Context, keys []KeyFunc) ([]Lock, error) {
	if len(keys) == 0 {
		return nil, &OptionError{"keys", fmt.Sprintf("is empty: give 1 to %d", maxLocks)}
	}
	sorted := make([]Lock, len(keys))
	for i, fn := range keys {
		if fn == nil {
			return nil, &KeyError{Reason: fmt.Sprintf("no key function at index %d of keys", i)}
		}
		key, err := resolveKey(ctx, fn)
		if err != nil {
			return nil, err
		}
		sorted[i] = Lock{Name: cmp.Or(s.name, formats.Name(formatOf(fn))), Key: key, Limit: s.limit} //nolint:contextcheck // no key is asked for
	}
	slices.SortStableFunc(sorted, func(a, b Lock) int { return cmp.Compare(a.Key, b.Key) })
	sorted = slices.CompactFunc(sorted, func(a, b Lock) bool { return a.Key == b.Key })
	if len(sorted) > maxLocks {
		return nil, &OptionError{"keys", fmt.Sprintf("has %d different keys, the most is %d", len(sorted), maxLocks)}
	}
	return sorted, nil
}

// acquireAll takes the locks of sorted keys, each under the context of the one before.
func (g *Guard) acquireAll(ctx context.Context, c call, sorted []Lock) ([]*Lease, error) {
	maxHold := c.maxHold
	c.maxHold, c.since, c.alone = 0, clock.Now(), maxHold > 0 // the cap begins when all are there
	var taken []*Lease
	var order, others []Lock // those that ctx holds come first
	for _, lock := range sorted {
		if leaseIn(ctx).inChain(g, lock.Key) != nil {
			order = append(order, lock)
		} else {
			others = append(others, lock)
		}
	}
	reentered := len(order)
	order = append(order, others...)
	inner := ctx //nolint:contextcheck // each lease's descends from it
	var free []claimed
	used, kept := 0, false
	defer func() {
		if !kept {
			g.releaseFrom(ctx, free, used)
			endUnused(ctx, taken)
		}
	}()
	for i, lock := range order {
		if i == reentered && g.oneRedis {
			free = g.claimFree(inner, c, order[i:])
		}
		c.lock, c.claimed = lock, nil
		if at := i - reentered; at >= 0 && at < len(free) {
			c.claimed, used = &free[at], at+1
		}
		l, err := g.acquire(inner, &c)
		if err != nil {
			return nil, err
		}
		taken = append(taken, l)
		inner = l.ctx //nolint:fatcontext // locks nest
	}
	// The first locks were held while the call waited for the others: they may have lapsed.
	for _, l := range taken {
		if err := l.hold.err(); err != nil {
			return nil, err
		}
	}
	if maxHold > 0 {
		endAllAfter(taken, maxHold)
	}
	kept = true
	return taken, nil
}

// claimFree asks for several keys at the same time, and waits for none of them: on one Redis,
// keys that are free cost the time of one. It returns what came of the keys up to the first that it
// did not get: of that key, too, unless it is busy and the call waits for it. Keys after it are
// released before it returns: a caller that waits for a key holds none that comes later in the order.
func (g *Guard) claimFree(ctx context.Context, c call, locks []Lock) []claimed {
	waits := c.wait > 0
	c.wait, c.begun = 0, clock.Now()
	got := make([]claimed, len(locks))
	var claims sync.WaitGroup
	claim := func(i int) {
		one := c
		one.lock = locks[i]
		got[i] = g.claim(ctx, &one)
	}
	for i := range locks[1:] {
		claims.Go(func() { claim(i + 1) })
	}
	claim(0)
	claims.Wait()
	known := 0
	for known < len(got) && got[known].err == nil {
		known++
	}
	g.releaseFrom(ctx, got, known)
	if known < len(got) && (!waits || !errors.Is(got[known].err, ErrBusy)) {
		known++
	}
	return got[:known]
}

// releaseFrom releases the keys that were taken, from one of them on.
func (g *Guard) releaseFrom(ctx context.Context, got []claimed, from int) {
	var releases sync.WaitGroup
	for _, one := range got[from:] {
		if one.err == nil {
			releases.Go(func() { g.releaseUnused(ctx, one.hold) })
		}
	}
	releases.Wait()
}

// releaseUnused releases a hold under which no work ran.
func (g *Guard) releaseUnused(ctx context.Context, h cohort.Hold) {
	defer g.inside.Leave()
	_, _ = h.Release(context.WithoutCancel(ctx), afterWork)
}

// endAllAfter ends the leases that this call took, all at the same time, d from now.
func endAllAfter(taken []*Lease, d time.Duration) {
	until := clock.Now().Add(d) // negative, as none, if it is for centuries
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

// endUnused releases leases under which no work has run, without their MinHold.
func endUnused(ctx context.Context, taken []*Lease) {
	for _, l := range taken {
		if l == &l.hold.root {
			l.hold.Unused()
		}
	}
	endAll(ctx, taken, afterWork)
}

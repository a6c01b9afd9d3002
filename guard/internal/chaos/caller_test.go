package chaos_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/guardhook"
)

// lease is one hold, as far as its worker knows it. Instants are nanoseconds of the wall
// clock, which all processes of the machine share, and by which Redis lets keys expire.
type lease struct {
	ID       int64 // unique in its process
	Key      string
	Fence    uint64
	TTL      time.Duration
	Called   int64 // just before the lock was asked for
	Entered  int64 // the work began
	Believed int64 // the latest instant for which the lease said later that it was held
	Left     int64 // the work ended
	Ended    int64 // the context ended, for whatever reason
	Returned int64 // the lock was given back, or the library gave up
	Deadline int64 // of the lease, when the work ended
	Local    bool  // handed over within the process
	Trusting bool  // the work looked at its context only
	Limit    int   // how many may hold it at once; 0 = one, shared = any number
	MinHold  time.Duration
	Outcome  outcome // the library's word, or what became of the process
}

// shared is the limit of a hold beside which there may be any number.
const shared = -1

type outcome string

const (
	kept    outcome = "kept"    // WithLock or Release found nothing wrong
	lost    outcome = "lost"    // a LostError
	expired outcome = "expired" // a LostError: MaxHold
	closed  outcome = "closed"  // a LostError: the Guard was closed
	killed  outcome = "killed"  // with its process
)

// until is the latest instant at which the holder was entitled to believe that it held.
func (l *lease) until() int64 {
	if l.Outcome == kept {
		return l.Left
	}
	return max(l.Believed, l.Called)
}

func stamp() int64 { return time.Now().UnixNano() }

// caller is a goroutine that takes one lock after another.
type caller struct {
	w   *worker
	rng *rand.Rand
}

func (c *caller) run() {
	for !isClosed(c.w.stop) {
		pause := 5 * time.Millisecond
		if err := c.call(c.draw()); errors.Is(err, guard.ErrStore) {
			pause = 100 * time.Millisecond // a store that refuses does so at once
		}
		rest(upTo(c.rng, pause), c.w.stop)
	}
	if c.w.command == finish {
		c.takeAll()
	}
}

// recoverTimeout is for how long a command, or a renewal, may go unanswered after the last fault: a
// busy machine still catches up then.
const recoverTimeout = 15 * time.Second

// takeAll takes every lock once more, waiting without an end. Faults have ended then.
func (c *caller) takeAll() {
	for i, key := range allKeys {
		ttl := ttls[i]
		for begun := time.Now(); ; {
			err := c.call(plan{lease: lease{Key: key, TTL: ttl}, opts: []guard.LockOption{guard.TTL(ttl)}})
			if err == nil {
				break
			}
			if again := errors.Is(err, guard.ErrStore) || errors.Is(err, guard.ErrLost); !again || time.Since(begun) > recoverTimeout {
				c.w.reportWrong("after the faults were over: %q: %v", key, err)
				break
			}
		}
	}
}

// hold is one call, and the hold that comes of it.
type hold struct {
	*caller
	plan

	ended atomic.Int64
	held  *guard.Lease
}

// call carries out a plan and reports the result to the driver.
func (c *caller) call(p plan) error {
	h := &hold{caller: c, plan: p}
	h.lease.ID = c.w.ids.Add(1)
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), holdKey{}, h))
	defer cancel()
	if p.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, p.timeout)
		defer cancel()
	}
	if p.cancel > 0 {
		defer time.AfterFunc(p.cancel, cancel).Stop()
	}
	h.lease.Called = stamp()
	err := h.lock(ctx)
	if h.lease.Entered == 0 {
		if !isMiss(err) {
			c.w.reportWrong("a call that took no lock returned %v", err)
		}
		c.w.send(event{Kind: missed})
		return err
	}
	h.lease.Outcome, h.lease.Returned = outcomeOf(err), stamp()
	c.w.send(event{Kind: left, Lease: &h.lease})
	return err
}

// lock takes the lock and works under it.
func (h *hold) lock(ctx context.Context) error {
	if h.manual {
		return h.byHand(ctx)
	}
	return h.w.guard.WithLock(ctx, guard.Key(h.lease.Key), func(ctx context.Context) error {
		l, _ := guard.FromContext(ctx)
		h.work(ctx, l)
		return nil
	}, h.opts...)
}

// byHand does what WithLock does, with Acquire and Release.
func (h *hold) byHand(ctx context.Context) error {
	l, err := h.w.guard.Acquire(ctx, guard.Key(h.lease.Key), h.opts...)
	if err != nil {
		return err
	}
	h.work(l.Context(), l)
	if err = l.Release(context.WithoutCancel(ctx)); errors.Is(err, guard.ErrStore) {
		return nil // held to the end, although Redis did not confirm the release
	}
	return err
}

// work is what runs under the lock.
func (h *hold) work(ctx context.Context, l *guard.Lease) {
	h.lease.Entered, h.lease.Fence, h.held = stamp(), l.Fence(), l
	h.w.noteOwner(guardhook.Owner(l))
	stop := context.AfterFunc(ctx, func() { h.ended.Store(stamp()) })
	defer func() {
		stop()
		h.lease.Left, h.lease.Ended, h.lease.Deadline = stamp(), h.ended.Load(), l.Deadline().UnixNano()
	}()
	h.believe()
	h.send()
	if h.lease.Trusting {
		rest(h.duration, ctx.Done())
	}
	for begun := time.Now(); !h.lease.Trusting && time.Since(begun) < h.duration && h.believe(); h.send() {
		rest(5*time.Millisecond, nil)
	}
}

// believe asks the lease whether it is held. What it answers was true a moment before.
// Work that trusts its context does not ask: that would end the lease, too.
func (h *hold) believe() bool {
	at := stamp()
	if h.lease.Trusting || h.held.Err() != nil {
		return false
	}
	h.lease.Believed = at
	return true
}

func (h *hold) send() {
	l := h.lease // a copy: the worker changes it
	h.w.send(event{Kind: working, Lease: &l})
}

// isMiss returns whether an error says why a call got no lock.
func isMiss(err error) bool {
	var busy *guard.BusyError
	return errors.As(err, &busy) && busy.Err == nil ||
		slices.ContainsFunc([]error{guard.ErrClosed, context.Canceled, context.DeadlineExceeded, guard.ErrStore},
			func(reason error) bool { return errors.Is(err, reason) })
}

func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return kept
	case errors.Is(err, guard.ErrMaxHold):
		return expired
	case errors.Is(err, guard.ErrClosed):
		return closed
	}
	return lost
}

// rest waits for a while, or until done is closed.
func rest(d time.Duration, done <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-done:
	}
}

// Keys that are locked: by one at a time, two of them traps for a hash tag; with a MinHold; by at most so
// many at once; by readers beside readers, and now and then a writer.
const (
	plainKeys = 4 // are spelled in Redis as they are here
	lockKeys  = 6 // are a mutex
	tickKey   = "tick"
	exportKey = "export"
	bookKey   = "book"

	longestTTL = time.Second
)

var (
	allKeys = []string{"order:1", "order:2", "order:3", "order:4", "{a}b", "}c", tickKey, exportKey, bookKey}
	// ttls are those of most calls for each key, as a lock is handed over only between calls with one ttl.
	ttls = []time.Duration{
		200 * time.Millisecond, 300 * time.Millisecond, 400 * time.Millisecond, 600 * time.Millisecond, 800 * time.Millisecond, longestTTL,
		400 * time.Millisecond, 500 * time.Millisecond, 500 * time.Millisecond,
	}
)

// plan is what one call is going to do.
type plan struct {
	lease    lease
	opts     []guard.LockOption
	manual   bool          // Acquire and Release instead of WithLock
	timeout  time.Duration // of the context; 0 = none
	cancel   time.Duration // cancel it after that; 0 = never
	duration time.Duration // of the work
}

func (c *caller) draw() (p plan) {
	rng, i := c.rng, c.rng.IntN(lockKeys)
	switch n := rng.IntN(100); {
	case n < 6: // each of them takes its time
		i = lockKeys
	case n < 26 && c.w.order.Topology != "quorum": // a majority cannot count
		i = lockKeys + 1 + n%2
	}
	l := &p.lease
	*l = lease{Key: allKeys[i], TTL: ttls[i], Trusting: chance(rng, 66)}
	p.drawWait(rng)
	p.drawWork(rng)
	switch {
	case l.Key == tickKey: // so short that the lock is kept even if its holder dies or cannot give it back
		l.MinHold = upTo(rng, l.TTL/2).Truncate(time.Millisecond)
		p.opts = append(p.opts, guard.MinHold(l.MinHold))
	case l.Key == exportKey:
		l.Limit = pick(rng, 2, 3, 3)
	case l.Key == bookKey:
		l.Limit = pick(rng, 0, 3, shared, shared, shared, shared)
	case chance(rng, 10):
		l.TTL = pick(rng, ttls...)
	case chance(rng, 3):
		p.opts = append(p.opts, guard.MaxHold(l.TTL/4))
	}
	if l.Limit == shared {
		p.opts = append(p.opts, guard.Shared())
	} else if l.Limit > 0 {
		p.opts = append(p.opts, guard.Limit(l.Limit))
	}
	if i > lockKeys {
		p.duration += upTo(rng, 20*time.Millisecond)
	}
	p.opts = append(p.opts, guard.TTL(l.TTL))
	return p
}

func (p *plan) drawWait(rng *rand.Rand) {
	switch n := rng.IntN(100); {
	case n < 10:
		p.opts = append(p.opts, guard.NoWait())
	case n < 30:
		p.opts = append(p.opts, guard.Wait(upTo(rng, 300*time.Millisecond).Truncate(time.Millisecond)))
	case n < 50:
		p.timeout = upTo(rng, time.Second)
	case n < 60:
		p.cancel = upTo(rng, 50*time.Millisecond)
	case n < 62:
		p.timeout = time.Nanosecond
	}
}

func (p *plan) drawWork(rng *rand.Rand) {
	ttl := p.lease.TTL
	switch n := rng.IntN(1000); {
	case n < 600: // none: only the lock takes time
	case n < 900:
		p.duration = upTo(rng, 5*time.Millisecond)
	case n < 980:
		p.duration = upTo(rng, 50*time.Millisecond)
	case n < 985:
		p.duration = upTo(rng, ttl)
	default:
		p.duration = ttl + upTo(rng, ttl)
	}
	p.manual = chance(rng, 20)
	if chance(rng, 25) {
		p.opts = append(p.opts, guard.AsyncRelease())
	}
}

func chance(rng *rand.Rand, percent int) bool { return rng.IntN(100) < percent }

func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	return 1 + time.Duration(rng.Int64N(int64(d)))
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

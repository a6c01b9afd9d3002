package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/guardhook"
)

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
	c.takeAll()
}

// recoverTimeout is for how long a command, or a renewal, may go unanswered after the last fault: a
// busy machine still catches up then.
const recoverTimeout = 15 * time.Second

// takeAll takes every lock once more, waiting without an end. Faults have ended then.
func (c *caller) takeAll() {
	for i, key := range allKeys {
		ttl := ttls[i]
		for begun := time.Now(); ; {
			err := c.call(plan{lease: lease{Key: key, TTL: ttl, Limit: exclusive}, opts: []guard.LockOption{guard.TTL(ttl)}})
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

// call carries out a plan and reports the result to the driver.
func (c *caller) call(p plan) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if p.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, p.timeout)
		defer cancel()
	}
	if p.cancel > 0 {
		defer time.AfterFunc(p.cancel, cancel).Stop()
	}
	l := &p.lease
	l.ID, l.Called = c.w.ids.Add(1), stamp()
	err := c.w.guard.WithLock(ctx, guard.Key(l.Key), func(ctx context.Context) error {
		c.work(ctx, l, p.duration)
		return nil
	}, p.opts...)
	if l.Entered == 0 {
		if !isMiss(err) {
			c.w.reportWrong("a call that took no lock returned %v", err)
		}
		c.w.send(event{})
		return err
	}
	if l.Outcome = lost; err == nil {
		l.Outcome = kept
	}
	c.w.send(event{Lease: l})
	return err
}

// work is what runs under the lock. It asks the lease whether it is held: what that answers was true a moment before. Work
// that trusts its context does not ask, as that would end the lease, too.
func (c *caller) work(ctx context.Context, l *lease, duration time.Duration) {
	held, _ := guard.FromContext(ctx)
	l.Entered, l.Owner, l.Fence = stamp(), guardhook.Owner(held), held.Fence()
	_, l.Local = c.w.owners.LoadOrStore(l.Owner, true)
	defer func() { l.Left, l.Deadline = stamp(), held.Deadline().UnixNano() }()
	if l.Trusting {
		c.w.send(event{Lease: l})
		rest(duration, ctx.Done())
		return
	}
	for begun, at := time.Now(), stamp(); held.Err() == nil; at = stamp() {
		l.Believed = at
		c.w.send(event{Lease: l})
		if time.Since(begun) >= duration {
			return
		}
		rest(5*time.Millisecond, nil)
	}
}

// isMiss returns whether an error says why a call got no lock.
func isMiss(err error) bool {
	var busy *guard.BusyError
	return errors.As(err, &busy) && busy.Err == nil ||
		slices.ContainsFunc([]error{guard.ErrClosed, context.Canceled, context.DeadlineExceeded, guard.ErrStore},
			func(reason error) bool { return errors.Is(err, reason) })
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
	*l = lease{Key: allKeys[i], TTL: ttls[i], Limit: exclusive, Trusting: chance(rng, 66)}
	p.drawWait(rng)
	p.drawWork(rng)
	switch {
	case l.Key == tickKey: // so short that the lock is kept even if its holder dies or cannot give it back
		l.MinHold = upTo(rng, l.TTL/2).Truncate(time.Millisecond)
		p.opts = append(p.opts, guard.MinHold(l.MinHold))
	case l.Key == exportKey:
		l.Limit = pick(rng, 2, 3, 3)
	case l.Key == bookKey:
		l.Limit = pick(rng, exclusive, 3, shared, shared, shared, shared)
	case chance(rng, 10):
		l.TTL = pick(rng, ttls...)
	case chance(rng, 3):
		p.opts = append(p.opts, guard.MaxHold(l.TTL/4))
	}
	if l.Limit == shared {
		p.opts = append(p.opts, guard.Shared())
	} else if l.Limit > exclusive {
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
	if chance(rng, 25) {
		p.opts = append(p.opts, guard.AsyncRelease())
	}
}

func chance(rng *rand.Rand, percent int) bool { return rng.IntN(100) < percent }

func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	return 1 + time.Duration(rng.Int64N(int64(d)))
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

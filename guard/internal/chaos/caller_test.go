package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard"
)

// caller is a goroutine that takes one lock after another.
type caller struct {
	w   *worker
	rng *rand.Rand
}

func (c *caller) run() {
	for !c.w.finishing() {
		pause := 5 * time.Millisecond
		if err := c.call(context.Background(), c.plan()); errors.Is(err, guard.ErrStore) {
			pause = 100 * time.Millisecond // a store that refuses does so at once
		}
		rest(upTo(c.rng, pause), c.w.stop)
	}
	if c.w.deed == finish {
		c.takeAll()
	}
}

func (c *caller) plan() plan {
	switch n := c.rng.IntN(100); {
	case n < 6: // each of them takes its time
		return drawTick(c.rng)
	case n < 26 && c.w.order.Topology != "quorum": // a majority cannot count
		return drawMany(c.rng)
	}
	return draw(c.rng, 0)
}

// lead stands for the leadership, again and again, until ctx ends or the Guard is closed.
func (c *caller) lead(ctx context.Context) {
	called := stamp()
	err := c.w.guard.Lead(ctx, guard.Key(leadKey), func(ctx context.Context) error {
		l, _ := guard.FromContext(ctx)
		h := &hold{caller: c, plan: plan{key: leadKey, manner: careful, duration: upTo(c.rng, leadTTL)}, lease: lease{
			ID: c.w.ids.Add(1), Key: leadKey, TTL: leadTTL, Called: called,
			Outcome: unwound, // nobody has a last word about a term
		}}
		h.work(ctx, l)
		c.w.tell(event{Kind: left, Lease: &h.lease})
		called = stamp()
		return nil
	}, guard.TTL(leadTTL))
	if !errors.Is(err, context.Canceled) && !errors.Is(err, guard.ErrClosed) {
		c.w.tell(event{Kind: missed, Wrong: fmt.Sprintf("Lead returned %v", err)})
	}
}

// recoverTimeout is for how long a command, or a renewal, may go unanswered after the faults are
// over: a machine with much to do still catches up then.
const recoverTimeout = 15 * time.Second

// takeAll takes every lock once more, waiting without an end. Faults are over then.
func (c *caller) takeAll() {
	for i, key := range slices.Concat(lockKeys, otherKeys) {
		ttl := longestTTL
		if i < len(ttls) {
			ttl = ttls[i]
		}
		begun := time.Now()
		take := func() error {
			return c.call(context.Background(), plan{key: key, ttl: ttl, opts: []guard.LockOption{guard.TTL(ttl)}})
		}
		err := take()
		for (errors.Is(err, guard.ErrStore) || errors.Is(err, guard.ErrLost)) && time.Since(begun) < recoverTimeout {
			err = take()
		}
		if err != nil {
			c.w.tell(event{Kind: missed, Wrong: fmt.Sprintf("after the faults were over: %q: %v", key, err)})
		}
	}
}

// hold is one call, and the hold that comes of it.
type hold struct {
	*caller
	plan   plan
	lease  lease
	waited time.Duration
	ended  atomic.Int64
	held   *guard.Lease

	returned atomic.Bool // the library had its last word
}

var errPlanned = errors.New("a panic that was planned")

// call carries out a plan and tells the driver what came of it.
func (c *caller) call(ctx context.Context, p plan) error {
	h := &hold{caller: c, plan: p, lease: lease{
		ID: c.w.ids.Add(1), Key: p.key, TTL: p.ttl, Trusting: p.manner == trusting,
		Limit: p.limit, MinHold: p.minHold,
	}}
	ctx, cancel := context.WithCancel(context.WithValue(ctx, holdKey{}, h))
	defer cancel()
	if p.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, p.timeout)
		defer cancel()
	}
	if p.cancel > 0 {
		defer time.AfterFunc(p.cancel, cancel).Stop()
	}
	h.lease.Called = stamp()
	err, returned := h.lock(ctx)
	h.returned.Store(true)
	if h.lease.Entered == 0 {
		_, nested := guard.FromContext(ctx)
		miss, wrong := missOf(err, nested)
		c.w.tell(event{Kind: missed, Miss: miss, Waited: h.waited, Wrong: wrong})
		return err
	}
	h.lease.Outcome, h.lease.Returned = outcomeOf(err, returned), stamp()
	c.w.tell(event{Kind: left, Lease: &h.lease, Waited: h.waited})
	return err
}

// lock takes the lock and works under it. returned says that the library had a last word.
func (h *hold) lock(ctx context.Context) (err error, returned bool) {
	done := make(chan struct{})
	run := func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil && r != any(errPlanned) {
				panic(r)
			}
		}()
		if h.plan.manual {
			err, returned = h.byHand(ctx)
			return
		}
		err = h.w.guard.WithLock(ctx, guard.Key(h.plan.key), func(ctx context.Context) error {
			l, _ := guard.FromContext(ctx)
			h.work(ctx, l)
			return nil
		}, h.plan.opts...)
		returned = true
	}
	if h.plan.ending == exits {
		go run()
		<-done
	} else {
		run()
	}
	return err, returned
}

// byHand does what WithLock does, with Acquire and Release.
func (h *hold) byHand(ctx context.Context) (err error, returned bool) {
	l, err := h.w.guard.Acquire(ctx, guard.Key(h.plan.key), h.plan.opts...)
	if err != nil {
		return err, true
	}
	h.work(l.Context(), l)
	release, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if h.plan.forget {
		cancel()
	}
	err = l.Release(release)
	switch {
	case errors.Is(err, guard.ErrStore):
		return nil, true // held to the end, although nobody confirmed that it was given back
	case err != nil && release.Err() != nil && !errors.Is(err, guard.ErrLost):
		return err, false // nobody waited for the last word
	}
	return err, true
}

// missOf names the reason why a call got no lock. One under another lock may be told that that one was lost.
func missOf(err error, nested bool) (miss, wrong string) {
	var busy *guard.BusyError
	switch {
	case errors.Is(err, guard.ErrClosed):
		return "closed", ""
	case errors.As(err, &busy) && busy.Err == nil && busy.Waited == 0:
		return "busy", ""
	case errors.As(err, &busy) && busy.Err == nil:
		return "timed out", ""
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "canceled", ""
	case errors.Is(err, guard.ErrStore):
		return "store", ""
	case nested && errors.Is(err, guard.ErrLost):
		return "outer lost", ""
	case err == nil:
		return "", "a call that took no lock returned nil"
	}
	return "", "a call returned " + err.Error()
}

func outcomeOf(err error, returned bool) outcome {
	switch {
	case !returned:
		return unwound
	case err == nil:
		return kept
	case errors.Is(err, guard.ErrMaxHold):
		return expired
	case errors.Is(err, guard.ErrClosed):
		return closed
	case errors.Is(err, guard.ErrRevoked):
		return revoked
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

package guard

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
)

// trip is one command on its way to the store, repeated until it is answered.
//
// Whoever waits for it can leave at once. A trip that was left can be taken up again, by
// another goroutine, with run.
type trip[T any] struct {
	g     *Guard
	op    string
	lock  Lock
	slots *slots[T]
	send  sender[T]
	clock time.Time     // when the trip began
	begun clock.Instant // the same
	sent  clock.Instant // when the latest attempt had not gone out yet

	inFlight   chan answer[T] // nil when no attempt is being waited for
	attempts   int
	unanswered bool // the outcome of some attempt is not known: it may yet take effect
	err        error
}

// sender sends the command, as a carrier does; again says that it is not the first time.
type sender[T any] func(ctx, leave context.Context, again bool, done func(T, error))

type answer[T any] struct {
	reply T
	err   error
}

// slots keeps channels on which attempts were answered, for others: each is answered
// once. The zero value makes them.
type slots[T any] struct{ idle sync.Pool }

func (a *slots[T]) get() chan answer[T] {
	if ch, _ := a.idle.Get().(chan answer[T]); ch != nil {
		return ch
	}
	return make(chan answer[T], 1)
}

// patience is how long one attempt is waited for: however long a call may take, a server
// that hangs or was replaced is to be noticed soon.
func (c *config) patience() time.Duration {
	return min(c.storeTimeout/2, time.Second+c.replicas.timeout)
}

// How long a trip pauses between two attempts at most. To learn that nobody listens is
// cheap.
const (
	longestPause = 200 * time.Millisecond
	refusedPause = 25 * time.Millisecond
)

// The ends of a run without an answer.
var (
	errGaveUp = errors.New("no answer in time")
	errStop   = errors.New("told to stop")
	errSilent = errors.New("connection went silent")
)

// newTrip makes a trip; run begins it.
func newTrip[T any](g *Guard, op string, lock Lock, slots *slots[T], send sender[T]) *trip[T] {
	t := &trip[T]{g: g, op: op, lock: lock, slots: slots, send: send}
	t.clock, t.begun = clock.Reading()
	return t
}

// run waits for an answer, repeating the command as needed, until ctx or limit is over
// (errGaveUp) or stop is closed (errStop). A refusal is returned as it came. The values of
// ctx go with each attempt, its end does not.
func (t *trip[T]) run(ctx context.Context, stop <-chan struct{}, limit clock.Instant) (reply T, err error) {
	for {
		if t.inFlight == nil {
			t.attempt(ctx, limit)
		}
		reply, err = t.await(ctx, stop, limit)
		if err == nil || errors.Is(err, errGaveUp) || errors.Is(err, errStop) {
			return reply, err
		}
		var refused *guardstore.RefusedError
		if errors.As(err, &refused) {
			return reply, err
		}
		t.failed(ctx, err)
		longest := longestPause
		if called := t.begun.Add(t.g.storeTimeout); errors.Is(err, syscall.ECONNREFUSED) && clock.Now() < called {
			// Nobody listens there: that is known sooner than that nobody answers. What may go
			// on for longer than a call, as a release behind its caller does, goes on.
			longest = refusedPause
			if limit <= called {
				limit = min(limit, t.begun.Add(t.g.storeTimeout/2))
			}
		}
		if err := t.pause(ctx, stop, limit, longest); err != nil {
			return reply, err
		}
	}
}

// runWithGrace runs to the end of ctx or limit; if it was ctx that ended, for a little
// longer.
func (t *trip[T]) runWithGrace(ctx context.Context, limit clock.Instant, grace time.Duration) (reply T, err error) {
	reply, err = t.run(ctx, nil, limit)
	if errors.Is(err, errGaveUp) && ctx.Err() != nil && grace > 0 {
		reply, err = t.run(context.WithoutCancel(ctx), nil, min(limit, clock.Now().Add(grace)))
	}
	return reply, err
}

// attempt sends the command. It is not waited for longer than its patience, so that a
// connection that went silent does not use up all the time there is, nor beyond limit:
// whoever sends it may be the one who waits.
func (t *trip[T]) attempt(ctx context.Context, limit clock.Instant) {
	again := t.attempts > 0
	wall := t.clock
	if t.sent = t.begun; again {
		wall, t.sent = clock.Reading()
	}
	t.attempts++
	t.inFlight = t.slots.get()
	results := t.inFlight
	late := wall.Add(min(t.g.patience(), limit.Sub(t.sent)))
	t.send(clock.WithDeadline(ctx, late), ctx, again, func(reply T, err error) {
		results <- answer[T]{reply, err}
	})
}

// await waits for the attempt in flight.
func (t *trip[T]) await(ctx context.Context, stop <-chan struct{}, limit clock.Instant) (reply T, err error) {
	select { // an answer that is there counts, whatever else is over
	case a := <-t.inFlight:
		return t.answered(a)
	default:
	}
	patience := t.sent.Add(t.g.patience())
	timer := t.g.newTimer(min(patience, limit).Until())
	defer t.g.free(timer)
	select {
	case a := <-t.inFlight:
		return t.answered(a)
	case <-ctx.Done():
		return reply, errGaveUp
	case <-stop:
		return reply, errStop
	case <-timer.C:
		if patience >= limit {
			return reply, errGaveUp
		}
		t.inFlight = nil // it may still take effect
		return reply, errSilent
	}
}

func (t *trip[T]) answered(a answer[T]) (T, error) {
	t.slots.idle.Put(t.inFlight)
	t.inFlight = nil
	if errors.Is(a.err, redisconn.ErrLeft) {
		t.unanswered = true
		return a.reply, errGaveUp
	}
	return a.reply, a.err
}

func (t *trip[T]) failed(ctx context.Context, err error) {
	t.unanswered, t.err = true, err
	t.g.observers.Event(ctx, t.lock, Event{Kind: StoreFailure, Op: t.op, Err: err})
}

// pause waits a little before the next attempt, longer from time to time.
func (t *trip[T]) pause(ctx context.Context, stop <-chan struct{}, limit clock.Instant, longest time.Duration) error {
	wait := min(10*time.Millisecond<<min(t.attempts, 5), longest)
	wait = wait/2 + rand.N(wait/2) //nolint:gosec // jitter
	timer := time.NewTimer(min(wait, limit.Until()))
	defer timer.Stop()
	select {
	case <-timer.C:
		if clock.Now() >= limit {
			return errGaveUp
		}
		return nil
	case <-ctx.Done():
		return errGaveUp
	case <-stop:
		return errStop
	}
}

// storeError is what a caller gets for a trip that got no answer, or a refusal.
func (t *trip[T]) storeError(err error) *StoreError {
	var refused *guardstore.RefusedError
	answered := errors.As(err, &refused)
	switch {
	case answered:
		err = refused.Err
	case t.err != nil:
		err = t.err
	}
	return &StoreError{Op: t.op, Key: t.lock.Key, Err: err, answered: answered}
}

package retry

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// Policy says how calls are made. Make one for all calls that share it, and do not copy it.
type Policy struct {
	Timeout        time.Duration // for how long a call goes on without an answer
	AttemptTimeout time.Duration // for how long one attempt is waited for

	// OnFailure is told of each attempt that failed, unless it is nil. It must not block.
	OnFailure func(ctx context.Context, op string, label Label, err error)

	timers sync.Pool // of *time.Timer
}

// Label says which lock a call is about.
type Label struct {
	Name string // low cardinality
	Key  string

	Mode  string // see guard.Lock
	Limit int
}

// Call is one command on its way to the store, repeated until it is answered.
//
// Whoever waits for it can leave at once. A call that was left can be taken up again, by
// another goroutine, with Run.
type Call[T any] struct {
	Begun    clock.Instant  // when it was made
	Sent     clock.Instant  // when the latest attempt had not gone out yet
	Attempts int            // how many there were
	InDoubt  bool           // the outcome of some attempt is not known: it may yet take effect
	InFlight chan Answer[T] // the attempt that is under way and was left; nil = none

	policy *Policy
	op     string
	label  Label
	slots  *Slots[T]
	send   Sender[T]
	wall   time.Time // Begun, by package time
	err    error     // of the latest attempt that failed
}

// Sender sends a command for a caller that may leave at the end of leave; again says that it
// is not the first time. done is called once, when the command is answered or failed, with
// task.ErrLeft if the caller's leaving ended it. The end of ctx is its deadline alone.
type Sender[T any] func(ctx, leave context.Context, again bool, done func(T, error))

// Answer is what came of an attempt.
type Answer[T any] struct {
	Reply T
	Err   error
}

// Error says that a call got no answer, or a refusal.
type Error struct {
	Op      string
	Key     string
	Err     error // what was reported last
	Refused bool
}

// Error gives the operation, never the key.
func (e *Error) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Slots keeps channels on which attempts were answered, for others: each is answered
// once. The zero value makes them.
type Slots[T any] struct{ idle sync.Pool }

func (a *Slots[T]) get() chan Answer[T] {
	if ch, _ := a.idle.Get().(chan Answer[T]); ch != nil {
		return ch
	}
	return make(chan Answer[T], 1)
}

// How long a call pauses between two attempts at most. To learn that nobody listens is
// cheap.
const (
	longestPause = 200 * time.Millisecond
	refusedPause = 25 * time.Millisecond
)

// The ends of a Run without an answer.
var (
	ErrNoAnswer = errors.New("no answer in time")
	ErrStopped  = errors.New("told to stop")

	errSilent = errors.New("connection went silent")
)

// NewCall makes a call; Run begins it. slots serves all calls with such answers.
func NewCall[T any](p *Policy, op string, label Label, slots *Slots[T], send Sender[T]) *Call[T] {
	c := &Call[T]{policy: p, op: op, label: label, slots: slots, send: send}
	c.wall, c.Begun = clock.Reading()
	return c
}

// Run waits for an answer, repeating the command as needed, until ctx or limit is over
// (ErrNoAnswer) or stop is closed (ErrStopped). A refusal is returned as it came. The values of
// ctx go with each attempt, its end does not.
func (c *Call[T]) Run(ctx context.Context, stop <-chan struct{}, limit clock.Instant) (reply T, err error) {
	for {
		if c.InFlight == nil {
			c.attempt(ctx, limit)
		}
		reply, err = c.await(ctx, stop, limit)
		if err == nil || errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrStopped) {
			return reply, err
		}
		var refused *guardstore.RefusedError
		if errors.As(err, &refused) {
			return reply, err
		}
		c.failed(ctx, err)
		longest := longestPause
		if called := c.Begun.Add(c.policy.Timeout); errors.Is(err, syscall.ECONNREFUSED) && clock.Now() < called {
			// Nobody listens there: that is known sooner than that nobody answers. What may go
			// on for longer than a call, as a release behind its caller does, goes on.
			longest = refusedPause
			if limit <= called {
				limit = min(limit, c.Begun.Add(c.policy.Timeout/2))
			}
		}
		if err := c.pause(ctx, stop, limit, longest); err != nil {
			return reply, err
		}
	}
}

// RunWithGrace runs to the end of ctx or limit; if it was ctx that ended, for a little
// longer.
func (c *Call[T]) RunWithGrace(ctx context.Context, limit clock.Instant, grace time.Duration) (reply T, err error) {
	reply, err = c.Run(ctx, nil, limit)
	if errors.Is(err, ErrNoAnswer) && ctx.Err() != nil && grace > 0 {
		reply, err = c.Run(context.WithoutCancel(ctx), nil, min(limit, clock.Now().Add(grace)))
	}
	return reply, err
}

// attempt sends the command. It is not waited for longer than AttemptTimeout, so that a
// connection that went silent does not use up all the time there is, nor beyond limit:
// whoever sends it may be the one who waits.
func (c *Call[T]) attempt(ctx context.Context, limit clock.Instant) {
	again := c.Attempts > 0
	wall := c.wall
	if c.Sent = c.Begun; again {
		wall, c.Sent = clock.Reading()
	}
	c.Attempts++
	c.InFlight = c.slots.get()
	results := c.InFlight
	late := wall.Add(min(c.policy.AttemptTimeout, limit.Sub(c.Sent)))
	c.send(clock.WithDeadline(ctx, late), ctx, again, func(reply T, err error) {
		results <- Answer[T]{reply, err}
	})
}

// await waits for the attempt in flight.
func (c *Call[T]) await(ctx context.Context, stop <-chan struct{}, limit clock.Instant) (reply T, err error) {
	select { // an answer that is there counts, whatever else is over
	case a := <-c.InFlight:
		return c.answered(a)
	default:
	}
	patience := c.Sent.Add(c.policy.AttemptTimeout)
	timer := c.policy.newTimer(min(patience, limit).Until())
	defer c.policy.free(timer)
	select {
	case a := <-c.InFlight:
		return c.answered(a)
	case <-ctx.Done():
		return reply, ErrNoAnswer
	case <-stop:
		return reply, ErrStopped
	case <-timer.C:
		if patience >= limit {
			return reply, ErrNoAnswer
		}
		c.InFlight = nil // it may still take effect
		return reply, errSilent
	}
}

func (c *Call[T]) answered(a Answer[T]) (T, error) {
	c.slots.idle.Put(c.InFlight)
	c.InFlight = nil
	if errors.Is(a.Err, task.ErrLeft) {
		c.InDoubt = true
		return a.Reply, ErrNoAnswer
	}
	return a.Reply, a.Err
}

func (c *Call[T]) failed(ctx context.Context, err error) {
	c.InDoubt, c.err = true, err
	if c.policy.OnFailure != nil {
		c.policy.OnFailure(ctx, c.op, c.label, err)
	}
}

// pause waits a little before the next attempt, longer from time to time.
func (c *Call[T]) pause(ctx context.Context, stop <-chan struct{}, limit clock.Instant, longest time.Duration) error {
	wait := min(10*time.Millisecond<<min(c.Attempts, 5), longest)
	wait = wait/2 + rand.N(wait/2) //nolint:gosec // jitter
	timer := time.NewTimer(min(wait, limit.Until()))
	defer timer.Stop()
	select {
	case <-timer.C:
		if clock.Now() >= limit {
			return ErrNoAnswer
		}
		return nil
	case <-ctx.Done():
		return ErrNoAnswer
	case <-stop:
		return ErrStopped
	}
}

// Failure is the error of a call whose Run ended with err.
func (c *Call[T]) Failure(err error) *Error {
	var refusal *guardstore.RefusedError
	refused := errors.As(err, &refusal)
	switch {
	case refused:
		err = refusal.Err
	case c.err != nil:
		err = c.err
	}
	return &Error{Op: c.op, Key: c.label.Key, Err: err, Refused: refused}
}

// newTimer is time.NewTimer for a timer that is freed again soon.
func (p *Policy) newTimer(d time.Duration) *time.Timer {
	if t, _ := p.timers.Get().(*time.Timer); t != nil {
		t.Reset(d)
		return t
	}
	return time.NewTimer(d)
}

// free stops a timer. Nothing of it is left in its channel then.
func (p *Policy) free(t *time.Timer) {
	t.Stop()
	p.timers.Put(t)
}

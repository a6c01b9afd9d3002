package guard

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// Observer is notified of what happens to locks. Its methods are called synchronously, from
// many goroutines, those of the Guard among them: they must not block, panic, or end their
// goroutine. A method that blocks holds up its caller and later notifications. It does
// not hold up the end of a context whose lease has ended. A panic on the goroutine of a call ends the call, and
// the lock is released; on a goroutine of the Guard it ends the program. The
// context that a Start method returns is handed to the matching End method; the one of
// HoldStart is also what the work's context descends from. Embed NopObserver to be
// ready for methods to come.
type Observer interface {
	// WaitStart is called before a lock is asked for, with the caller's context.
	WaitStart(ctx context.Context, l Lock) context.Context
	// WaitEnd is called when the lock was taken, or is not going to be.
	WaitEnd(ctx context.Context, l Lock, r WaitResult)
	// HoldStart is called when a hold begins, with the caller's context (not the one of
	// WaitStart: waiting and holding are siblings).
	HoldStart(ctx context.Context, l Lock, h Hold) context.Context
	// HoldEnd is called once for each HoldStart: when the hold was released or lost,
	// whichever came first. A goroutine of the Guard reports a loss, perhaps a moment
	// after the call that held the lock returned.
	HoldEnd(ctx context.Context, l Lock, r HoldResult)
	// Event is called for what happens in between.
	Event(ctx context.Context, l Lock, e Event)
}

// The outcomes of a wait (WaitResult) and of a hold (HoldResult). Both may be closed.
const (
	OutcomeAcquired = "acquired" // a wait that ended with the lock
	OutcomeBusy     = "busy"     // busy, and the caller does not wait
	OutcomeTimeout  = "timeout"  // busy for as long as Wait says
	OutcomeCanceled = "canceled" // the caller's context ended the wait
	OutcomeError    = "error"    // the store failed, or the hold to re-enter has ended
	OutcomeClosed   = "closed"   // the Guard was closed, or shut down
	OutcomeRecorded = "recorded" // Once found a record: nothing is to run

	OutcomeReleased = "released" // a hold that was given back in good order
	OutcomeLost     = "lost"     // ended under its work
	OutcomeMaxHold  = "max_hold" // MaxHold was used up
)

// Lock says which lock an observation is about.
type Lock struct {
	Name  string           // low cardinality: fit for metrics; see the option Name
	Key   string           // unbounded: not fit for metrics
	Limit guardstore.Limit // that of the call: Unlimited with Shared
}

// WaitResult says how the wait for a lock ended.
type WaitResult struct {
	Outcome string        // one of the first seven outcomes: OutcomeAcquired to OutcomeRecorded
	Elapsed time.Duration // from WaitStart
	Queued  bool          // the lock was busy and had to be waited for
	Local   bool          // handed over within this process
	Depth   int           // 1 for a new hold, more for a re-entry, 0 if there is no hold
	Holder  string        // Metadata of the holder, if it was busy
	Err     error         // what the caller got, nil when acquired
}

// Hold describes a hold at its start.
type Hold struct {
	Fence uint64 // the fencing token
	Depth int    // 1, or more for a re-entry
}

// HoldResult says how a hold ended.
type HoldResult struct {
	Hold
	Outcome string        // OutcomeReleased, OutcomeLost, OutcomeMaxHold or OutcomeClosed
	Elapsed time.Duration // from HoldStart
	Err     error         // nil when released, else the LostError
}

// EventKind is the kind of an Event. New kinds may be added.
type EventKind int

// The kinds of events.
const (
	EventRenewal        EventKind = iota + 1 // a lease was renewed
	EventHandover                            // a lock was handed to the next waiter
	EventLoss                                // a lease ended under its work
	EventReleaseFailure                      // a release was not confirmed; it is repeated until the lease ends
	EventStoreFailure                        // a command failed and may be repeated
	EventFailedOpen                          // work runs without a lease, as FailOpen allows
	EventReplayed                            // Once gave a result that was kept
	EventOtherInput                          // Once refused a call: the key was used with another Fingerprint
	EventUnknownOutcome                      // Once refused a call: it is not known how an earlier call ended
	EventNotKept                             // a result of Once was not kept (Op "release"), or a later call asked for it ("acquire")
)

// String names the kind in snake_case.
func (k EventKind) String() string {
	switch k {
	case EventRenewal:
		return "renewal"
	case EventHandover:
		return "handover"
	case EventLoss:
		return "loss"
	case EventReleaseFailure:
		return "release_failure"
	case EventStoreFailure:
		return "store_failure"
	case EventFailedOpen:
		return "failed_open"
	case EventReplayed:
		return "replayed"
	case EventOtherInput:
		return "other_input"
	case EventUnknownOutcome:
		return "unknown_outcome"
	case EventNotKept:
		return "not_kept"
	}
	return "unknown"
}

// Event is something that happened to a lock between the start and the end of a wait or
// a hold.
type Event struct {
	Kind EventKind
	Op   string // the store operation it is about, if any
	Err  error  // what went wrong, if anything did
}

// NopObserver does nothing. Embed it in observers.
type NopObserver struct{}

// WaitStart returns ctx.
func (NopObserver) WaitStart(ctx context.Context, _ Lock) context.Context { return ctx }

// WaitEnd does nothing.
func (NopObserver) WaitEnd(context.Context, Lock, WaitResult) {}

// HoldStart returns ctx.
func (NopObserver) HoldStart(ctx context.Context, _ Lock, _ Hold) context.Context { return ctx }

// HoldEnd does nothing.
func (NopObserver) HoldEnd(context.Context, Lock, HoldResult) {}

// Event does nothing.
func (NopObserver) Event(context.Context, Lock, Event) {}

// observers nest: the first given is notified of a start first and of an end last.
type observers []Observer

func (os observers) WaitStart(ctx context.Context, l Lock) context.Context {
	for _, o := range os {
		ctx = o.WaitStart(ctx, l) //nolint:fatcontext // observers nest
	}
	return ctx
}

func (os observers) WaitEnd(ctx context.Context, l Lock, r WaitResult) {
	for i := len(os) - 1; i >= 0; i-- {
		os[i].WaitEnd(ctx, l, r)
	}
}

func (os observers) HoldStart(ctx context.Context, l Lock, h Hold) context.Context {
	for _, o := range os {
		ctx = o.HoldStart(ctx, l, h) //nolint:fatcontext // observers nest
	}
	return ctx
}

func (os observers) HoldEnd(ctx context.Context, l Lock, r HoldResult) {
	for i := len(os) - 1; i >= 0; i-- {
		os[i].HoldEnd(ctx, l, r)
	}
}

func (os observers) Event(ctx context.Context, l Lock, e Event) {
	for _, o := range os {
		o.Event(ctx, l, e)
	}
}

package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/cohort"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/internal/guardhook"
)

// Once runs fn once for a key, and gives its result to each caller that asks again until keep has
// passed: replayed is true then, and fn did not run. keep is 1 ms to 366 days, counted from the end of
// the work (after a crash or a panic, from the end of its lease), and cut to whole milliseconds. With a nil Guard it uses the Guard that the package's WithLock would.
//
// fn runs under the lock of the key, as in Do, and with the same options and errors. Redis notes that
// the work began in the step in which it grants the lock, and keeps the result in the step in which the lock is
// released. A first call takes two round trips, a replay one.
//
//   - A call that comes while fn runs waits as Wait says, and gets the result. If the wait
//     ends before, that is a BusyError.
//   - If fn returns an error, nothing is kept: the error is the caller's, and the next call runs fn.
//   - If the process dies, or fn panics, or fn returns an error after its context has ended, it is not known how
//     far the work came. The next call runs fn, which can ask Interrupted. With AtMostOnce it
//     does not run: that is ErrUnknownOutcome.
//   - If the lock is lost under fn, the error has the LostError, as in WithLock. Redis keeps the result if
//     the lock is still this call's there, or, with AtMostOnce, if no other call began since.
//   - If Redis does not answer after fn, the caller gets what fn returned. Observers are notified
//     (EventReleaseFailure), the release is repeated until the lease ends, and the record says that the work began.
//   - A result of more than MaxResult bytes, a result that cannot be encoded, and a result that JSON does not give back as it
//     was (unexported fields, an integer above 2^53 in an any, invalid UTF-8) are not kept: the caller has it, observers are
//     notified (EventNotKept, whose error says why), and all others get ErrNotKept.
//   - If the value under the name of the record in Redis is no record, fn does not run: that is ErrDamagedRecord.
//   - With FailOpen, where Redis does not answer, fn runs without a lock and without a record.
//
// A record is in Redis, and as safe as what else is there: after FLUSHALL, an eviction, or a
// failover that loses it, fn runs again. Where an effect must never happen twice, also give it an
// idempotency key of its own, or write a row of the key in its transaction: see docs/guides/idempotency-keys.md. Give all
// calls of a key the same keep, TTL and AtMostOnce.
//
// Limit and Shared, FailOpen with AtMostOnce, a quorum, a Store that is no guardstore.Recorder, and a key that ctx
// holds already, are an OptionError.
//
// The idea is from idempotency keys (IETF draft-ietf-httpapi-idempotency-key-header-07).
func Once[T any](ctx context.Context, g *Guard, key KeyFunc, keep time.Duration,
	fn func(ctx context.Context) (T, error), opts ...OnceOption,
) (v T, replayed bool, err error) {
	if fn == nil {
		return v, false, &OptionError{"fn", "is nil"}
	}
	if g == nil {
		g = guardFor(ctx)
	}
	o, err := newOnce(keep, opts)
	if err != nil {
		return v, false, err
	}
	o.decode = func(data []byte) (err error) {
		v, err = decodeResult[T](&o, data)
		return err
	}
	o.lock = append(o.lock, lockOption(func(s *settings) error { s.once, s.asyncRelease = &o, false; return nil }))
	err = g.WithLock(ctx, key, func(ctx context.Context) error {
		work := func(ctx context.Context) (err error) {
			v, err = fn(ctx)
			return err
		}
		if o.hold == nil { // FailOpen
			return work(ctx)
		}
		return o.run(ctx, work, func() ([]byte, error) { return encodeResult(&o, v) })
	}, o.lock...)
	return v, o.replayed, err
}

// run runs the work of Once under its hold, and notes what the release is to write: nothing if it is not known how the
// work ended. Once it has succeeded, a panic of encode, or of an observer, does not make its outcome unknown.
func (o *once) run(ctx context.Context, work func(ctx context.Context) error, encode func() ([]byte, error)) error {
	h := o.hold
	outcome := &guardstore.Outcome{Once: o.Once, Holder: h.Metadata}
	if ctx.Err() != nil { // the work does not begin
		h.Outcome = outcome
		return ended(ctx)
	}
	err := work(ctx)
	if err != nil {
		if ctx.Err() == nil || errors.Is(err, guardhook.ErrNotBegun) { // else it may have had its effect
			h.Outcome = outcome
		}
		return err
	}
	h.Outcome = outcome
	outcome.State = guardstore.RecordNotKept
	result, err := encode()
	if len(result) > o.max {
		err = fmt.Errorf("it has %d bytes, MaxResult is %d", len(result), o.max)
	}
	if err != nil {
		h.event(Event{Kind: EventNotKept, Op: "release", Err: &OnceError{
			Name: h.Label.Name, Key: h.Label.Key, Fence: h.Fence, Err: fmt.Errorf("%w: %w", ErrNotKept, err),
		}})
		return nil
	}
	outcome.State, outcome.Result = guardstore.RecordDone, result
	return nil
}

// Interrupted says, under Once, that an earlier call of the key began and never finished: it crashed, or
// lost its lock. fence is the fencing token of that call. Whether it had its effect is for fn to find out, such as by
// asking the bank for it. ok is false where nothing of the kind is known.
func Interrupted(ctx context.Context) (fence uint64, ok bool) {
	for l := leaseIn(ctx); l != nil; l = l.outer {
		if l.hold.Claim.Once != nil {
			return l.hold.Earlier, l.hold.Earlier > 0
		}
	}
	return 0, false
}

// Forget deletes what Once knows of a key at this moment: the next call runs. It is for an operator that found out
// what became of the work. It takes two round trips, and does not delete what a later call wrote. It returns false if there was no record, and a BusyError while the work runs. Other errors
// are those of Once. It takes no lock, and may be called by any process.
func (g *Guard) Forget(ctx context.Context, key KeyFunc) (bool, error) {
	c, err := g.prepare(ctx, key, nil)
	if err != nil {
		return false, err
	}
	store, ok := g.store.(guardstore.Recorder)
	if !ok {
		return false, &OptionError{"Forget", "needs one Redis, Sentinel or Cluster: this Guard's store keeps no records, as a quorum"}
	}
	stop, open := g.inside.Enter(false)
	if !open {
		return false, ErrClosed
	}
	defer g.inside.Leave()
	call := retry.Call{Op: "forget", Label: retry.Label(c.lock), For: g.storeTimeout, Stop: stop}
	found, err := retry.Do(ctx, g.cohorts.Calls, call, store.Recorded, c.lock.Key)
	if err != nil {
		return false, c.failure(ctx, 0, cohort.Waited{}, err)
	}
	if found.Reply.State == guardstore.RecordNone {
		return false, nil
	}
	// The command names the record: executed late, or once more, it does not delete a newer one.
	deleted, err := retry.Do(ctx, g.cohorts.Calls, call, store.Forget, guardstore.Forget{Key: c.lock.Key, RecordID: found.Reply})
	switch {
	case err != nil:
		return false, c.failure(ctx, 0, cohort.Waited{}, err)
	case deleted.Reply == guardstore.ForgetBusy:
		return false, &BusyError{Name: c.lock.Name, Key: c.lock.Key, RetryAfter: time.Second}
	}
	return deleted.Reply == guardstore.ForgetDone || deleted.InDoubt, nil // an attempt that was not answered may have done it
}

// replayed returns whether Once kept the result of an earlier call, and has decoded it: there is nothing to run.
func (c *call) replayed() bool { return c.once != nil && c.once.replayed }

// recorded is the answer to a call whose key has a record: nil if the result was kept, see replayed.
func (c *call) recorded(r *guardstore.Record) error {
	e := &OnceError{Name: c.lock.Name, Key: c.lock.Key, Fence: r.Fence, Err: ErrNotKept}
	switch r.State {
	case guardstore.RecordDone:
		err := c.once.decode(r.Result)
		if err == nil {
			c.once.replayed = true
			return nil
		}
		e.Err = fmt.Errorf("%w: decode it: %w", ErrNotKept, err)
	case guardstore.RecordOtherInput:
		e.Err = ErrOtherInput
	case guardstore.RecordBegun:
		e.Err = ErrUnknownOutcome
	case guardstore.RecordDamaged:
		e.Err = ErrDamagedRecord
	}
	return e
}

// observeRecord notifies observers why a call of Once did not run.
func (g *Guard) observeRecord(ctx context.Context, c *call, err error) {
	kind := EventNotKept
	switch {
	case c.replayed():
		kind = EventReplayed
	case errors.Is(err, ErrOtherInput):
		kind = EventOtherInput
	case errors.Is(err, ErrUnknownOutcome):
		kind = EventUnknownOutcome
	case !errors.Is(err, ErrNotKept):
		return
	}
	g.observers.Event(ctx, c.lock, Event{Kind: kind, Op: "acquire", Err: err})
}

package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// The sentinels of this package. Match them with errors.Is; more details
// is in the typed error that carries them (BusyError, LostError, StoreError, KeyError,
// OptionError).
var (
	// ErrBusy says that another caller held the lock until the wait ended.
	// The work did not run. See BusyError.
	ErrBusy error = &sentinel{"lock_busy", "guard: lock is busy"}

	// ErrLost says that a lease ended under the work it guarded. See LostError.
	ErrLost error = &sentinel{"lock_lost", "guard: lock was lost"}

	// ErrMaxHold is the cause of a LostError when MaxHold was used up.
	ErrMaxHold error = &sentinel{"lock_max_hold", "guard: MaxHold is used up"}

	// ErrReleased is the cause of a LostError when the lease is used after its release.
	ErrReleased error = &sentinel{"lock_released", "guard: lock was released"}

	// ErrRevoked is the cause of a LostError when an operator revoked or broke the hold, with
	// package inspect or the command redlatch.
	ErrRevoked error = &sentinel{"lock_revoked", "guard: lock was revoked"}

	// ErrStore says that Redis did not answer, or refused. The work did not run. See
	// StoreError.
	ErrStore error = &sentinel{"lock_store_unavailable", "guard: lock store is unavailable"}

	// ErrKey says that the key cannot be locked. The work did not run. See KeyError.
	ErrKey error = &sentinel{"lock_key_invalid", "guard: invalid lock key"}

	// ErrOption says that an option or argument is out of its bounds. Nothing ran. See
	// OptionError.
	ErrOption error = &sentinel{"option_invalid", "guard: invalid option"}

	// ErrOtherInput says that the key of Once was used with another Fingerprint. See OnceError.
	ErrOtherInput error = &sentinel{"idempotency_key_reused", "guard: the key was used with another input"}

	// ErrUnknownOutcome says that an earlier call of Once began and never finished, and that
	// AtMostOnce forbids another one; or that its record is damaged, see ErrDamagedRecord. See OnceError.
	ErrUnknownOutcome error = &sentinel{"idempotency_outcome_unknown", "guard: an earlier call began, and its outcome is not known"}

	// ErrNotKept says that the work of Once was done, and that its result is not to be had.
	// See OnceError.
	ErrNotKept error = &sentinel{"idempotency_result_not_kept", "guard: the work was done, its result was not kept"}

	// ErrDamagedRecord says that the value under the name of the record in Redis was not written by Once, or was
	// changed since. The work does not run, not even with FailOpen. Guard.Forget deletes the record. See OnceError.
	// It matches ErrUnknownOutcome.
	ErrDamagedRecord = fmt.Errorf("%w: its record in Redis is damaged", ErrUnknownOutcome)

	// ErrClosed says that the Guard takes no new work: Shutdown or Close was called.
	ErrClosed error = &sentinel{"shutting_down", "guard: closed"}

	// ErrNoGuard says that there is no Guard to lock with: the one that was given is nil or
	// was not made by New or NewWithStore, or none was given and neither the
	// context nor SetDefault supplied one.
	ErrNoGuard error = &sentinel{"no_guard", "guard: no Guard: give one that New made, or put it into the context (WithGuard), or call SetDefault"}
)

type sentinel struct{ kind, text string }

func (e *sentinel) Error() string     { return e.text }
func (e *sentinel) ErrorType() string { return e.kind }

// BusyError says that another caller held the lock until the wait ended. Redis still said so at
// the end of the wait: if it did not answer any more, the error is a StoreError. A lock that this
// Guard holds itself is busy even if Redis does not answer.
// It matches ErrBusy, and what Err matches.
type BusyError struct {
	Name       string        // the lock's Name, or ""
	Key        string        // the key that was asked for
	Waited     time.Duration // how long the caller waited; 0 with NoWait
	RetryAfter time.Duration // when another try makes sense; at least 1 s; with HeldOver, when MinHold ends
	Holder     string        // Metadata of the holder, if it set any
	HeldOver   bool          // the work is done; only the MinHold of the last hold keeps the key
	Err        error         // nil, or the end of ctx: matches ctx.Err() and context.Cause(ctx)

	// Limit is the strictest limit of those inside, where it was a Limit that kept the call
	// out, or may have been; 0 where it was an exclusive lock, or readers.
	Limit guardstore.Limit
}

// Error names the lock's Name, never its key or holder.
func (e *BusyError) Error() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("guard: %s is busy, gave up after %v: %v", named("lock", e.Name), e.Waited, e.Err)
	case e.HeldOver:
		return fmt.Sprintf("guard: %s is kept after its work: its MinHold has not passed", named("lock", e.Name))
	case e.Waited > 0:
		return fmt.Sprintf("guard: %s is busy, waited %v", named("lock", e.Name), e.Waited)
	}
	return fmt.Sprintf("guard: %s is busy", named("lock", e.Name))
}

// ErrorType is canceled or deadline_exceeded where the end of ctx ended the wait, lock_held_over
// where only the MinHold of work that is done kept the key, lock_full where a Limit kept the call
// out, else lock_wait_timeout after a wait, and lock_busy without one.
func (e *BusyError) ErrorType() string {
	switch {
	case errors.Is(e.Err, context.DeadlineExceeded):
		return "deadline_exceeded"
	case e.Err != nil:
		return "canceled"
	case e.HeldOver:
		return "lock_held_over"
	case e.Limit > 0:
		return "lock_full"
	case e.Waited > 0:
		return "lock_wait_timeout"
	}
	return "lock_busy"
}

// Is makes every BusyError match ErrBusy.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// Unwrap returns Err.
func (e *BusyError) Unwrap() error { return e.Err }

// Format prints Error with every verb, and the key after it with %+v alone.
func (e *BusyError) Format(state fmt.State, verb rune) { formatError(state, verb, e, e.Key) }

// LogValue gives log/slog the error's fields: msg, type, lock, waited and retry_after. Never the key.
func (e *BusyError) LogValue() slog.Value {
	return logValue(e, nameAttr(e.Name), slog.Duration("waited", e.Waited), slog.Duration("retry_after", e.RetryAfter))
}

// LostError says that a lease ended although the work under it may still run. It
// matches ErrLost and its Cause, and it is the context.Cause of the lease's context.
type LostError struct {
	Name  string // the lock's Name
	Key   string // the key that was held
	Cause error  // ErrMaxHold, ErrReleased, ErrRevoked, ErrClosed, or what kept the lease from being renewed
}

// Error names the lock's Name, never its key or owner.
func (e *LostError) Error() string {
	if errors.Is(e.Cause, ErrReleased) {
		return fmt.Sprintf("guard: %s was released", named("lock", e.Name))
	}
	return fmt.Sprintf("guard: %s was lost: %v", named("lock", e.Name), e.Cause)
}

// ErrorType is lock_lost, or lock_max_hold, lock_released or lock_revoked by the Cause.
func (e *LostError) ErrorType() string {
	switch {
	case errors.Is(e.Cause, ErrMaxHold):
		return "lock_max_hold"
	case errors.Is(e.Cause, ErrReleased):
		return "lock_released"
	case errors.Is(e.Cause, ErrRevoked):
		return "lock_revoked"
	}
	return "lock_lost"
}

// Is makes every LostError match ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns Cause.
func (e *LostError) Unwrap() error { return e.Cause }

// Format prints Error with every verb, and the key after it with %+v alone.
func (e *LostError) Format(state fmt.State, verb rune) { formatError(state, verb, e, e.Key) }

// LogValue gives log/slog the error's fields: msg, type and lock. Never the key.
func (e *LostError) LogValue() slog.Value {
	return logValue(e, nameAttr(e.Name))
}

// StoreError says that Redis did not answer within StoreTimeout, or refused. Whether
// the command took effect is not known; what it may have taken is given back. It
// matches ErrStore and Err.
type StoreError struct {
	Op   string // acquire, enter, leave, renew, release, check, ping, forget; inspect, revoke, break
	Name string // the lock's Name; "" where the operation was about no lock of a call
	Key  string // the key that the operation was about
	Err  error  // what the client reported

	answered bool // it refused, or was slow
}

// Error names the operation and the lock's Name, never the key.
func (e *StoreError) Error() string {
	if e.Name != "" {
		return fmt.Sprintf("guard: lock store is unavailable: %s of %s: %v", e.Op, named("lock", e.Name), e.Err)
	}
	return fmt.Sprintf("guard: lock store is unavailable: %s: %v", e.Op, e.Err)
}

// ErrorType is lock_store_unavailable.
func (e *StoreError) ErrorType() string { return "lock_store_unavailable" }

// Is makes every StoreError match ErrStore.
func (e *StoreError) Is(target error) bool { return target == ErrStore }

// Unwrap returns Err.
func (e *StoreError) Unwrap() error { return e.Err }

// Format prints Error with every verb, and the key after it with %+v alone.
func (e *StoreError) Format(state fmt.State, verb rune) { formatError(state, verb, e, e.Key) }

// LogValue gives log/slog the error's fields: msg, type, lock and op. Never the key.
func (e *StoreError) LogValue() slog.Value {
	return logValue(e, nameAttr(e.Name), slog.String("op", e.Op))
}

// KeyError says that a key cannot be locked: it is empty, longer than MaxKeyLength, not
// UTF-8, or its function failed. It matches ErrKey and Err.
type KeyError struct {
	Key    string // the offending key, if there is one
	Reason string // what is wrong with it, without the key
	Err    error  // the key function's own error, or nil
}

// Error gives the reason, never the key.
func (e *KeyError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("guard: invalid lock key: %s: %v", e.Reason, e.Err)
	}
	return "guard: invalid lock key: " + e.Reason
}

// ErrorType is lock_key_invalid.
func (e *KeyError) ErrorType() string { return "lock_key_invalid" }

// Is makes every KeyError match ErrKey.
func (e *KeyError) Is(target error) bool { return target == ErrKey }

// Unwrap returns Err.
func (e *KeyError) Unwrap() error { return e.Err }

// Format prints Error with every verb, and the key after it with %+v alone.
func (e *KeyError) Format(state fmt.State, verb rune) { formatError(state, verb, e, e.Key) }

// LogValue gives log/slog the error's fields: msg and type. Never the key.
func (e *KeyError) LogValue() slog.Value {
	return logValue(e)
}

// OptionError says that an option or argument is out of its bounds. Nothing ran. It
// matches ErrOption.
type OptionError struct {
	Option string // the option or argument: "TTL", "fn", …
	Reason string // the value and the bound it breaks
}

// Error names the option and the bound.
func (e *OptionError) Error() string { return fmt.Sprintf("guard: %s %s", e.Option, e.Reason) }

// ErrorType is option_invalid.
func (e *OptionError) ErrorType() string { return "option_invalid" }

// Is makes every OptionError match ErrOption.
func (e *OptionError) Is(target error) bool { return target == ErrOption }

// OnceError says why Once did not run, and has no result. It matches Err.
type OnceError struct {
	Name  string // the lock's Name
	Key   string // the key that was asked for
	Fence uint64 // under which the earlier work began
	Err   error  // matches ErrOtherInput, ErrUnknownOutcome, ErrDamagedRecord or ErrNotKept
}

// Error names the lock's Name, never its key.
func (e *OnceError) Error() string {
	return fmt.Sprintf("guard: %s: %s", named("once", e.Name), strings.TrimPrefix(e.Err.Error(), "guard: "))
}

// ErrorType is idempotency_key_reused, idempotency_outcome_unknown, idempotency_record_damaged or idempotency_result_not_kept.
func (e *OnceError) ErrorType() string {
	switch {
	case errors.Is(e.Err, ErrDamagedRecord):
		return "idempotency_record_damaged"
	case errors.Is(e.Err, ErrOtherInput):
		return "idempotency_key_reused"
	case errors.Is(e.Err, ErrUnknownOutcome):
		return "idempotency_outcome_unknown"
	}
	return "idempotency_result_not_kept"
}

// Unwrap returns Err.
func (e *OnceError) Unwrap() error { return e.Err }

// Format prints Error with every verb, and the key after it with %+v alone.
func (e *OnceError) Format(state fmt.State, verb rune) { formatError(state, verb, e, e.Key) }

// LogValue gives log/slog the error's fields: msg, type and lock. Never the key.
func (e *OnceError) LogValue() slog.Value {
	return logValue(e, nameAttr(e.Name))
}

// named is a noun with the name of the lock, if the lock has one.
func named(noun, name string) string {
	if name == "" {
		return noun
	}
	return fmt.Sprintf("%s %q", noun, name)
}

// nameAttr is the name of a lock in a log, or the empty Attr, which handlers leave out.
func nameAttr(name string) slog.Attr {
	if name == "" {
		return slog.Attr{}
	}
	return slog.String("lock", name)
}

// formatError prints an error of this package as its text, and its key with %+v.
func formatError(state fmt.State, verb rune, err error, key string) {
	text := err.Error()
	if verb == 'v' && state.Flag('+') && key != "" {
		text += fmt.Sprintf(" (key %q)", key)
	}
	_, _ = fmt.Fprintf(state, fmt.FormatString(state, verb), text)
}

// logValue is a group of an error's text, its type and its fields.
func logValue(err interface {
	error
	ErrorType() string
}, fields ...slog.Attr,
) slog.Value {
	return slog.GroupValue(append([]slog.Attr{slog.String("msg", err.Error()), slog.String("type", err.ErrorType())}, fields...)...)
}

// orLoss returns the LostError that ended ctx instead of err: another error of a call under a
// lost lease, such as a busy lock, is not the reason. If the Guard was closed, it returns
// ErrClosed, as for every caller that waits.
func (g *Guard) orLoss(ctx context.Context, err error) error {
	lost, ok := context.Cause(ctx).(*LostError) //nolint:errorlint // a lease's own
	switch {
	case !ok:
		return err
	case errors.Is(lost, ErrClosed) && task.IsClosed(g.inside.Closed()):
		return ErrClosed
	}
	return lost
}

// ended is the error of a context that has ended: it matches ctx.Err() and
// context.Cause(ctx).
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// storeError is what a caller gets for a call that ended without an answer, or refused, about
// the lock that it calls name.
func storeError(e *retry.Error, name string) *StoreError {
	return &StoreError{Op: e.Op, Name: name, Key: e.Key, Err: e.Err, answered: e.Refused}
}

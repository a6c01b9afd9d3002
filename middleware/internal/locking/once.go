package locking

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/guardhook"
)

// once holds the arguments of Rule.Once.
type once struct {
	keep    time.Duration
	options []guard.OnceOption
}

// Once runs the work of a key once. Later callers get its result until keep has passed.
func (r Rule[S]) Once(keep time.Duration, opts []guard.OnceOption) Rule[S] {
	r.once = &once{keep, slices.Clone(opts)}
	return r
}

// SharedAnswer allows a key of Once that names no caller.
func (r Rule[S]) SharedAnswer() Rule[S] {
	r.anyCaller = true
	return r
}

// IsOnce reports whether Once was called.
func (r Rule[S]) IsOnce() bool { return r.once != nil }

func (r Rule[S]) checkOnce() error {
	if r.once == nil {
		return nil
	}
	if callers := r.adapter.Callers; len(callers) > 0 && !r.anyCaller && !slices.ContainsFunc(r.keys[0].template.Placeholders(), r.namesCaller) {
		return fmt.Errorf("Once: the template names no caller, so that one gets the answer of another: "+
			"add a placeholder such as {%s:X-Tenant}, or one of Value, or call SharedAnswer", callers[0])
	}
	return guardhook.CheckOnce(r.once.keep, slices.Concat(onceOptions(r.options), r.once.options))
}

// namesCaller reports whether a placeholder tells callers apart, as a value of the program does. An idempotency key
// does not: two callers may choose the same key.
func (r Rule[S]) namesCaller(placeholder string) bool {
	kind, name, _ := strings.Cut(placeholder, ":")
	return r.values[placeholder] != nil || slices.Contains(r.adapter.Callers, kind) && !strings.EqualFold(name, "Idempotency-Key")
}

// ErrFailed is returned by work that failed without an error of its own: redlatch records nothing.
var ErrFailed = errors.New("work failed")

// InProgressError is the error of a lock that an earlier call with the same key of Once holds.
type InProgressError struct{ error } // has a *guard.BusyError

// Unwrap returns the *guard.BusyError.
func (e *InProgressError) Unwrap() error { return e.error }

// RunOnce is Locker.Run for a Rule with Once. The first key keeps the result; the other keys are locked while work
// runs. v is the result of work, of this call or, if replayed, of an earlier call. extra is applied last. own is nil if
// work returned ErrFailed. Work that did nothing returns guardhook.ErrNotBegun.
func RunOnce[S, T any](ctx context.Context, l *Locker[S], name string, src S,
	work func(context.Context) (T, error), extra ...guard.OnceOption,
) (v T, replayed bool, own, err error) {
	began, ran := false, false
	var others error // the error of the locks of the other keys
	run := func(ctx context.Context) (err error) {
		ran = true
		v, err = work(ctx)
		return err
	}
	opts := slices.Concat(onceOptions(l.named(name)), l.rule.once.options, extra)
	kept, replayed, err := guard.Once(ctx, l.guard, l.key(0, src), l.rule.once.keep, func(ctx context.Context) (T, error) {
		began = true
		if len(l.keys) == 1 {
			own = run(ctx)
		} else {
			own, others = l.run(ctx, name, src, 1, run)
		}
		switch {
		case !ran, errors.Is(own, guardhook.ErrNotBegun):
			return v, guardhook.ErrNotBegun
		case own != nil:
			return v, ErrFailed
		}
		return v, nil // the work is done, even if a lock of another key was lost
	}, opts...)
	failed := own != nil || began && !ran
	if own == ErrFailed { //nolint:errorlint // as work returned it
		own = nil
	}
	var lost *guard.LostError
	switch {
	case errors.As(err, new(*guard.BusyError)):
		err = &InProgressError{err}
	case !failed:
	case !errors.As(err, &lost): // it is own, or in others
		err = nil
	default:
		err = errors.Join(lost, own)
	}
	if err == nil {
		err = others
	}
	return kept, replayed, own, err
}

func onceOptions(opts []guard.LockOption) []guard.OnceOption {
	all := make([]guard.OnceOption, len(opts))
	for i, opt := range opts {
		all[i] = opt
	}
	return all
}

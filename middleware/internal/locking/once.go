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

// once is what Rule.Once was given.
type once struct {
	keep    time.Duration
	options []guard.OnceOption
}

// Once has the work of a key run once, and its result given to callers that ask again until keep has passed.
func (r Rule[S]) Once(keep time.Duration, opts []guard.OnceOption) Rule[S] {
	r.once = &once{keep, slices.Clone(opts)}
	return r
}

// SharedAnswer allows a key of Once that names no caller.
func (r Rule[S]) SharedAnswer() Rule[S] {
	r.anyCaller = true
	return r
}

// IsOnce says whether Once was called.
func (r Rule[S]) IsOnce() bool { return r.once != nil }

func (r Rule[S]) checkOnce() error {
	if r.once == nil {
		return nil
	}
	if len(r.keys) > 1 {
		return errors.New("Once needs one key, And adds others")
	}
	if callers := r.adapter.Callers; len(callers) > 0 && !r.anyCaller && !slices.ContainsFunc(r.placeholders, r.adapter.namesCaller) {
		return fmt.Errorf("Once: the template names no caller, so that one gets the answer of another: "+
			"add a placeholder such as {%s:X-Tenant}, or call SharedAnswer", callers[0])
	}
	return guardhook.CheckOnce(r.once.keep, slices.Concat(onceOptions(r.options), r.once.options))
}

// namesCaller says whether a placeholder stands for something that tells callers apart. An idempotency key does not: two
// callers may choose the same.
func (a *Adapter[S]) namesCaller(placeholder string) bool {
	kind, name, _ := strings.Cut(placeholder, ":")
	return slices.Contains(a.Callers, kind) && !strings.EqualFold(name, "Idempotency-Key")
}

// ErrFailed is what work returns that failed without an error of its own: nothing is kept.
var ErrFailed = errors.New("work failed")

// RunOnce is Locker.Run for a Rule with Once. v is what work returned, now or, if replayed, in an earlier
// call. extra is applied last. work's own error is nil where work returned ErrFailed.
func RunOnce[S, T any](ctx context.Context, l *Locker[S], name string, src S,
	work func(context.Context) (T, error), extra ...guard.OnceOption,
) (v T, replayed bool, own, err error) {
	opts := slices.Concat(onceOptions(l.named(name)), l.rule.once.options, extra)
	v, replayed, err = guard.Once(ctx, l.guard, l.key(0, src), l.rule.once.keep, func(ctx context.Context) (v T, err error) {
		if v, own = work(ctx); own != nil {
			err = ErrFailed
		}
		return v, err
	}, opts...)
	failed := own != nil
	if own == ErrFailed { //nolint:errorlint // as work returned it
		own = nil
	}
	var lost *guard.LostError
	switch {
	case !failed:
	case !errors.As(err, &lost):
		err = nil
	case own != nil:
		err = errors.Join(lost, own)
	default:
		err = lost
	}
	return v, replayed, own, err
}

func onceOptions(opts []guard.LockOption) []guard.OnceOption {
	all := make([]guard.OnceOption, len(opts))
	for i, opt := range opts {
		if opt != nil {
			all[i] = opt
		}
	}
	return all
}

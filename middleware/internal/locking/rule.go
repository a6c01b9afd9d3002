package locking

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/guardhook"
)

// Adapter is what one adapter has of its own: its name, for texts, and the placeholders of
// its key templates. S is what it knows a call by.
type Adapter[S any] struct {
	Name    string
	Grammar Grammar[S]
	// Callers are the kinds of placeholders that name a caller, where a Rule with Once has to have one.
	Callers []string
}

// Parse reads a key template.
func (a *Adapter[S]) Parse(template string) (*Template[S], error) {
	parsed, err := Parse(template, a.Grammar)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Name, err)
	}
	return parsed, nil
}

// ParseKey makes the key function of a template.
func (a *Adapter[S]) ParseKey(template string) (func(S) (string, error), error) {
	parsed, err := a.Parse(template)
	if err != nil {
		return nil, err
	}
	return parsed.Key, nil
}

// Lock is the Rule of a key template. It panics if the template is malformed.
func (a *Adapter[S]) Lock(template string, opts []guard.LockOption) Rule[S] {
	return a.LockFunc(nil, opts).And(template)
}

// LockFunc is the Rule of a key function. With a nil key, the Rule has none yet.
func (a *Adapter[S]) LockFunc(key func(S) (string, error), opts []guard.LockOption) Rule[S] {
	r := Rule[S]{adapter: a, options: slices.Clone(opts)}
	if key != nil {
		r.keys = []func(S) (string, error){key}
		r.anyCaller = true // the program's own function knows what it names
	}
	return r
}

// Rule is how calls are locked. Its methods give a changed copy.
type Rule[S any] struct {
	adapter      *Adapter[S]
	keys         []func(S) (string, error)
	placeholders []string // of the templates
	options      []guard.LockOption
	unlocked     []func(S) bool
	once         *once // nil without
	anyCaller    bool  // the key need not name a caller
}

// And adds the key of a template. It panics if the template is malformed.
func (r Rule[S]) And(template string) Rule[S] {
	if r.adapter == nil {
		return r // the zero Rule stays without a key, which Bind refuses
	}
	parsed, err := r.adapter.Parse(template)
	if err != nil {
		panic(err.Error())
	}
	r.keys = append(slices.Clip(r.keys), parsed.Key)
	r.placeholders = slices.Concat(r.placeholders, parsed.Placeholders())
	return r
}

// Unlocked lets calls pass without a lock for which unlocked returns true. A nil unlocked is ignored.
func (r Rule[S]) Unlocked(unlocked func(S) bool) Rule[S] {
	if unlocked != nil {
		r.unlocked = append(slices.Clip(r.unlocked), unlocked)
	}
	return r
}

// Placeholders returns those of the Rule's templates, without their braces.
func (r Rule[S]) Placeholders() []string { return r.placeholders }

// Bind makes the Rule one of g, or says what is wrong with it. wait bounds the wait for a
// lock where neither the Rule nor the Guard do. With a nil g, the Guard in the context of a
// call locks, or else the default one.
func (r Rule[S]) Bind(g *guard.Guard, wait time.Duration) (*Locker[S], error) {
	switch n := len(r.keys); {
	case n == 0:
		return nil, errors.New("no KeyFunc")
	case n > guardhook.MaxLocks:
		return nil, fmt.Errorf("%d keys with those of And, the most is %d", n, guardhook.MaxLocks)
	}
	if err := guardhook.CheckOptions(r.options); err != nil {
		return nil, err
	}
	wanted := guardhook.DefaultWait(wait).(guard.LockOption) //nolint:forcetypeassert // it returns nothing else
	return &Locker[S]{guard: g, rule: r, options: append([]guard.LockOption{nil, wanted}, r.options...)}, r.checkOnce()
}

// Locker is a Rule in use. It may be used concurrently.
type Locker[S any] struct {
	guard   *guard.Guard // nil for that of the context, or else the default one
	rule    Rule[S]
	options []guard.LockOption // a place for the name, the default wait, and the Rule's
	last    atomic.Pointer[named]
}

type named struct {
	name    string
	options []guard.LockOption
}

// named returns the options with the name of a lock. Those of the last name are kept, as most Lockers have one name.
func (l *Locker[S]) named(name string) []guard.LockOption {
	last := l.last.Load()
	if last == nil || last.name != name {
		last = &named{name, slices.Clone(l.options)}
		last.options[0] = guard.Name(name)
		l.last.Store(last)
	}
	return slices.Clip(last.options)
}

// Context returns ctx with the Guard in it, so that the work can lock more.
func (l *Locker[S]) Context(ctx context.Context) context.Context {
	if l.guard == nil {
		return ctx
	}
	return guard.WithGuard(ctx, l.guard)
}

// Skips says whether the call src passes without a lock.
func (l *Locker[S]) Skips(src S) bool {
	for _, skip := range l.rule.unlocked {
		if skip(src) {
			return true
		}
	}
	return false
}

// Run calls work under the locks of the call src, with a name for telemetry that the Rule's
// options may override. extra is applied last. own is what work returned, identical. err is
// guard's: work did not run, or a lock was lost under it, whatever it returned; own is in
// err then, too.
func (l *Locker[S]) Run(ctx context.Context, name string, src S, work func(context.Context) error, extra ...guard.LockOption) (own, err error) {
	// The work's own error stays here: a loss in it may be that of another lock, and none of ours.
	run := func(ctx context.Context) error {
		own = work(ctx)
		return nil
	}
	opts := append(l.named(name), extra...)
	g := l.guard
	if g == nil {
		g = guardhook.GuardFor(ctx).(*guard.Guard) //nolint:forcetypeassert // it returns nothing else
	}
	if len(l.rule.keys) == 1 {
		err = g.WithLock(ctx, l.key(0, src), run, opts...)
	} else {
		keys := make([]guard.KeyFunc, len(l.rule.keys))
		for i := range keys {
			keys[i] = l.key(i, src)
		}
		err = g.WithLocks(ctx, keys, run, opts...)
	}
	switch {
	case own == nil:
		return nil, err
	case errors.Is(err, guard.ErrLost):
		return own, errors.Join(err, own)
	}
	return own, nil
}

// key is the i-th key of the call src.
func (l *Locker[S]) key(i int, src S) guard.KeyFunc {
	return func(context.Context) (string, error) { return l.rule.keys[i](src) }
}

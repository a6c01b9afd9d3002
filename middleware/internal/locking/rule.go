package locking

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/guardhook"
)

// Adapter holds what differs between adapters. S is the source of a key: a request, a call or a task.
type Adapter[S any] struct {
	Name    string // for texts
	Grammar Grammar[S]
	// Callers are the kinds of placeholders that name a caller. If there are any, a Rule with Once needs one of them.
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

// ParseKey returns the key function of a template.
func (a *Adapter[S]) ParseKey(template string) (func(S) (string, error), error) {
	parsed, err := a.Parse(template)
	if err != nil {
		return nil, err
	}
	return parsed.Key, nil
}

// Lock returns the Rule of a key template. It panics if the template is malformed.
func (a *Adapter[S]) Lock(template string, opts []guard.LockOption) Rule[S] {
	return a.LockFunc(nil, opts).And(template)
}

// LockFunc returns the Rule of a key function, or a Rule without a key for nil.
func (a *Adapter[S]) LockFunc(key func(S) (string, error), opts []guard.LockOption) Rule[S] {
	r := Rule[S]{adapter: a, options: slices.Clone(opts)}
	if key != nil {
		r.keys = []keyOf[S]{{of: key}}
		r.anyCaller = true // the program answers for its own function
	}
	return r
}

// Rule is how calls are locked. Its methods return a changed copy.
type Rule[S any] struct {
	adapter   *Adapter[S]
	keys      []keyOf[S]
	values    map[string]Extract[S] // of Value, by placeholder
	options   []guard.LockOption
	unlocked  []func(S) bool
	once      *once // nil without
	anyCaller bool  // the key of Once need not name a caller
}

// keyOf is a key of a Rule: a template, or a function of the program.
type keyOf[S any] struct {
	template *Template[S]
	of       func(S) (string, error)
}

// And adds the key of a template. It panics if the template is malformed.
func (r Rule[S]) And(template string) Rule[S] {
	if r.adapter == nil {
		return r // Bind refuses the zero Rule, which has no key
	}
	parsed, err := r.adapter.Parse(template)
	if err != nil {
		panic(err.Error())
	}
	r.keys = append(slices.Clip(r.keys), keyOf[S]{template: parsed})
	return r
}

// Value fills the placeholder {name} of the Rule's templates with value.
func (r Rule[S]) Value(name string, value func(S) (string, error)) Rule[S] {
	r.values = maps.Clone(r.values)
	if r.values == nil {
		r.values = map[string]Extract[S]{}
	}
	r.values[name] = value
	return r
}

// Unlocked lets a call pass without a lock if unlocked returns true for it. A nil unlocked is ignored.
func (r Rule[S]) Unlocked(unlocked func(S) bool) Rule[S] {
	if unlocked != nil {
		r.unlocked = append(slices.Clip(r.unlocked), unlocked)
	}
	return r
}

// Placeholders returns the placeholders of the Rule's templates that Value does not fill, without their braces.
func (r Rule[S]) Placeholders() (all []string) {
	for _, key := range r.keys {
		if key.template != nil {
			all = append(all, key.template.Placeholders()...)
		}
	}
	return slices.DeleteFunc(all, func(name string) bool { return r.values[name] != nil })
}

// Spells reports whether a template has :name as text, which almost certainly means the value of that name.
func (r Rule[S]) Spells(name string) bool {
	return slices.ContainsFunc(r.keys, func(key keyOf[S]) bool { return key.template != nil && key.template.Spells(name) })
}

// keyFuncs returns the function of each key, with the functions of Value in the templates.
func (r Rule[S]) keyFuncs() (funcs []func(S) (string, error), err error) {
	unused := maps.Clone(r.values)
	for _, key := range r.keys {
		if key.template != nil {
			key.of = key.template.with(r.values).Key
			for _, name := range key.template.Placeholders() {
				delete(unused, name)
			}
		}
		funcs = append(funcs, key.of)
	}
	for _, name := range slices.Sorted(maps.Keys(r.values)) {
		if _, is := unused[name]; is {
			return nil, fmt.Errorf("Value: no template has the placeholder {%s}", name)
		}
		if r.values[name] == nil {
			return nil, fmt.Errorf("Value: the function of {%s} is nil", name)
		}
	}
	return funcs, nil
}

// Bind binds the Rule to g. It returns an error if the Rule has no key or an option is out of its bounds. wait is the
// wait for a busy lock if neither the Rule nor the Guard set one. With a nil g, the Guard in the context of a call
// locks, or else the default one.
func (r Rule[S]) Bind(g *guard.Guard, wait time.Duration) (*Locker[S], error) {
	switch n := len(r.keys); {
	case n == 0:
		return nil, errors.New("no KeyFunc")
	case n > guardhook.MaxLocks:
		return nil, fmt.Errorf("%d keys with those of And, the most is %d", n, guardhook.MaxLocks)
	}
	keys, err := r.keyFuncs()
	if err != nil {
		return nil, err
	}
	if err := guardhook.CheckOptions(r.options); err != nil {
		return nil, err
	}
	wanted := guardhook.DefaultWait(wait).(guard.LockOption) //nolint:forcetypeassert // it returns nothing else
	return &Locker[S]{guard: g, rule: r, keys: keys, options: append([]guard.LockOption{wanted}, r.options...)}, r.checkOnce()
}

// Locker is a Rule in use. It may be used concurrently.
type Locker[S any] struct {
	guard   *guard.Guard // nil for the Guard of the context, or else the default one
	rule    Rule[S]
	keys    []func(S) (string, error)
	options []guard.LockOption // the default wait, and the options of the Rule
}

// named returns the options with the name of a lock.
func (l *Locker[S]) named(name string) []guard.LockOption {
	return append([]guard.LockOption{guard.Name(name)}, l.options...)
}

// Context returns ctx with the Guard in it, so that the work can lock more.
func (l *Locker[S]) Context(ctx context.Context) context.Context {
	if l.guard == nil {
		return ctx
	}
	return guard.WithGuard(ctx, l.guard)
}

// Skips reports whether the call src passes without a lock.
func (l *Locker[S]) Skips(src S) bool {
	for _, skip := range l.rule.unlocked {
		if skip(src) {
			return true
		}
	}
	return false
}

// Run calls work under the locks of the call src. The lock has that name, unless the Rule's options have one. extra is
// applied last. own is the error of work, identical. err is guard's: work did not run, or lost a lock; it then includes
// own.
func (l *Locker[S]) Run(ctx context.Context, name string, src S, work func(context.Context) error, extra ...guard.LockOption) (own, err error) {
	return l.run(ctx, name, src, 0, work, extra...)
}

// run is Run without the keys before first.
func (l *Locker[S]) run(ctx context.Context, name string, src S, first int, work func(context.Context) error, extra ...guard.LockOption) (own, err error) {
	// guard does not see the work's own error, which may be the loss of another lock.
	run := func(ctx context.Context) error {
		own = work(ctx)
		return nil
	}
	opts := append(l.named(name), extra...)
	g := l.guard
	if g == nil {
		g = guardhook.GuardFor(ctx).(*guard.Guard) //nolint:forcetypeassert // it returns nothing else
	}
	if first+1 == len(l.keys) {
		err = g.WithLock(ctx, l.key(first, src), run, opts...)
	} else {
		keys := make([]guard.KeyFunc, 0, len(l.keys))
		for i := first; i < len(l.keys); i++ {
			keys = append(keys, l.key(i, src))
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

// key returns the i-th key of the call src.
func (l *Locker[S]) key(i int, src S) guard.KeyFunc {
	return func(context.Context) (string, error) { return l.keys[i](src) }
}

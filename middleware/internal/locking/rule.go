package locking

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/guardhook"
	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
)

// Adapter is what one adapter has of its own: its name, for texts, and the placeholders of
// its key templates. S is what it knows a call by.
type Adapter[S any] struct {
	Name    string
	Grammar keytemplate.Grammar[S]
	// Callers are the kinds of placeholders that name a caller, where a Rule with Once has to have one.
	Callers []string
}

// Parse reads a key template.
func (a *Adapter[S]) Parse(template string) (*keytemplate.Template[S], error) {
	parsed, err := keytemplate.Parse(template, a.Grammar)
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

// Unlocked has calls pass without a lock for which unlocked returns true. A nil unlocked is ignored.
func (r Rule[S]) Unlocked(unlocked func(S) bool) Rule[S] {
	if unlocked != nil {
		r.unlocked = append(slices.Clip(r.unlocked), unlocked)
	}
	return r
}

// Placeholders gives those of the Rule's templates, without their braces.
func (r Rule[S]) Placeholders() []string { return r.placeholders }

// Bind makes the Rule one of g, or says what is wrong with it. wait bounds the wait for a
// lock where neither the Rule nor the Guard do. With a nil g, the Guard in the context of a
// call locks, or else the default one.
func (r Rule[S]) Bind(g *guard.Guard, wait time.Duration) (*Locker[S], error) {
	l := &Locker[S]{Policy{Guard: g, DefaultWait: wait, Options: r.options}, r}
	switch n := len(r.keys); {
	case n == 0:
		return nil, errors.New("no KeyFunc")
	case n > guardhook.MaxLocks:
		return nil, fmt.Errorf("%d keys with those of And, the most is %d", n, guardhook.MaxLocks)
	}
	if err := l.Check(); err != nil {
		return nil, err
	}
	return l, r.checkOnce()
}

// Locker is a Rule in use. It may be used concurrently.
type Locker[S any] struct {
	Policy
	rule Rule[S]
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
	keys := make([]guard.KeyFunc, len(l.rule.keys))
	for i, key := range l.rule.keys {
		keys[i] = func(context.Context) (string, error) { return key(src) }
	}
	return l.RunAll(ctx, name, keys, work, extra...)
}

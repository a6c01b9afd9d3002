package taskrule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// Source is what the placeholders of a key are read from.
type Source[T any] struct {
	Ctx  context.Context //nolint:containedctx // lives for one call
	Task T
}

// Grammar is the set of placeholders that an adapter knows.
type Grammar[T any] = keytemplate.Grammar[Source[T]]

// Adapter is what one adapter has of its own.
type Adapter[T any] struct {
	locking.Adapter[Source[T]]
	Wait       time.Duration // for a lock, where neither the Rule nor the Guard say how long
	Strategies []string      // the names of what may become of a task whose lock stays busy; 0 is the default

	// Input is what work differs in: the type and payload of its task.
	Input func(Source[T]) [][]byte
}

// Rule is a locking.Rule for tasks. A copy that is changed leaves the original alone.
type Rule[T any] struct {
	locking.Rule[Source[T]]
	OnError  func(ctx context.Context, t T, err error) error // the program's hook; nil for none
	Strategy int                                             // one of the Adapter's
}

// Lock is the Rule of a key template. It panics if the template is malformed.
func (a *Adapter[T]) Lock(template string, opts []guard.LockOption) Rule[T] {
	return Rule[T]{Rule: a.Adapter.Lock(template, opts)}
}

// LockFunc is the Rule of a key function.
func (a *Adapter[T]) LockFunc(key func(context.Context, T) (string, error), opts []guard.LockOption) Rule[T] {
	if key == nil {
		return Rule[T]{}
	}
	return Rule[T]{Rule: a.Adapter.LockFunc(func(s Source[T]) (string, error) { return key(s.Ctx, s.Task) }, opts)}
}

// ParseKey makes the key function of a template.
func (a *Adapter[T]) ParseKey(template string) (func(context.Context, T) (string, error), error) {
	parsed, err := a.Parse(template)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, t T) (string, error) { return parsed.Key(Source[T]{ctx, t}) }, nil
}

// And adds the key of a template. It panics if the template is malformed.
func (r Rule[T]) And(template string) Rule[T] {
	r.Rule = r.Rule.And(template)
	return r
}

// Once has the work of a key done once, until keep has passed.
func (r Rule[T]) Once(keep time.Duration, opts []guard.OnceOption) Rule[T] {
	r.Rule = r.Rule.Once(keep, opts)
	return r
}

// Unlocked has tasks worked on without a lock for which unlocked returns true. A nil unlocked is ignored.
func (r Rule[T]) Unlocked(unlocked func(context.Context, T) bool) Rule[T] {
	if unlocked != nil {
		r.Rule = r.Rule.Unlocked(func(s Source[T]) bool { return unlocked(s.Ctx, s.Task) })
	}
	return r
}

// Must is Bind, but for the error: it panics with the adapter's name before it.
func (a *Adapter[T]) Must(g *guard.Guard, r Rule[T]) *Locker[T] {
	l, err := a.Bind(g, r)
	if err != nil {
		panic(a.Name + ": " + err.Error())
	}
	return l
}

// Bind makes the Rule one of g, or says what is wrong with it.
func (a *Adapter[T]) Bind(g *guard.Guard, r Rule[T]) (*Locker[T], error) {
	bound, err := r.Bind(g, a.Wait)
	if err == nil && (r.Strategy < 0 || r.Strategy >= len(a.Strategies)) {
		err = fmt.Errorf("BusyStrategy %d is none of %s", r.Strategy, strings.Join(a.Strategies, ", "))
	}
	return &Locker[T]{bound, r, a.Input}, err
}

// Locker is a Rule in use. It may be used concurrently.
type Locker[T any] struct {
	*locking.Locker[Source[T]]
	rule  Rule[T]
	input func(Source[T]) [][]byte
}

// Strategy is that of the Rule.
func (l *Locker[T]) Strategy() int { return l.rule.Strategy }

// Run calls work under the locks of the task t: see locking.Locker. With Once, it does not where work for
// the key was done: that is a success.
func (l *Locker[T]) Run(ctx context.Context, name string, t T, work func(context.Context) error, extra ...guard.LockOption) (own, err error) {
	return l.RunKeeping(ctx, name, t, nothing, work, extra...)
}

// RunKeeping is Run for work that leaves something for others to see: with Once, result, a
// guard.Encoding, reads and writes it.
func (l *Locker[T]) RunKeeping(ctx context.Context, name string, t T, result guard.OnceOption,
	work func(context.Context) error, extra ...guard.LockOption,
) (own, err error) {
	src := Source[T]{ctx, t}
	if !l.rule.IsOnce() {
		return l.Locker.Run(ctx, name, src, work, extra...)
	}
	opts := []guard.OnceOption{guard.Fingerprint(l.input(src)...), result}
	for _, opt := range extra {
		opts = append(opts, opt)
	}
	_, _, own, err = locking.RunOnce(ctx, l.Locker, name, src, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, work(ctx)
	}, opts...)
	return own, err
}

// nothing is what a record has of work without a result.
var nothing = guard.Encoding(
	func(any) ([]byte, error) { return nil, nil },
	func([]byte, any) error { return nil })

// Process has the task t worked on: by lock, which does work under the locks of t, or by work alone
// where the Rule skips t. What work returns comes back identical. Where guard has an error
// instead, settle gives the one that the framework is to see, and the program's hook may have
// another.
func (l *Locker[T]) Process(ctx context.Context, t T, work func(context.Context) error,
	lock func(context.Context) (own, err error), settle func(error) error,
) error {
	ctx = l.Context(ctx)
	if l.Skips(Source[T]{ctx, t}) {
		return work(ctx)
	}
	own, err := lock(ctx)
	if own != nil || err == nil {
		return own
	}
	if err = settle(err); err == nil || l.rule.OnError == nil {
		return err
	}
	return l.rule.OnError(ctx, t, err)
}

// Busy says whether err is that of a lock that stayed busy for as long as it was waited for.
// What else keeps a task from running, such as Redis being down or the end of its context, is not.
func Busy(err error) bool {
	var busy *guard.BusyError
	_, passes := locking.RetryAfter(err)
	return passes && errors.As(err, &busy) && busy.Err == nil
}

// StaysBad says whether err is that of a task for which another run is of no use: it lacks a value of
// its key, or has one that cannot be used, or Once refuses to run it.
func StaysBad(err error) bool {
	if errors.As(err, new(*guard.OnceError)) {
		return true
	}
	value := keytemplate.ValueErrorIn(err)
	return value != nil && !value.Unfit && errors.Is(err, guard.ErrKey)
}

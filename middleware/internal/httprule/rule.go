package httprule

import (
	"context"
	"net/http"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/answer"
	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
	"github.com/redlatch/redlatch/middleware/internal/locking"
	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

// defaultWait is short: net/http does not notice a client that left before its body was
// read, and the wait counts against Server.WriteTimeout.
const defaultWait = 2 * time.Second

// Adapter is what one adapter has of its own. S is what it knows a request by, and H what
// answers an error of guard.
type Adapter[S, H any] struct{ locking.Adapter[S] }

// New is the Adapter of a name, for texts, and a set of placeholders.
func New[H, S any](name string, grammar keytemplate.Grammar[S]) *Adapter[S, H] {
	return &Adapter[S, H]{locking.Adapter[S]{Name: name, Grammar: grammar, Callers: []string{"header", "cookie"}}}
}

// Lock is the Rule of a key template. It panics if the template is malformed.
func (a *Adapter[S, H]) Lock(template string, opts []guard.LockOption) Rule[S, H] {
	return Rule[S, H]{Rule: a.Adapter.Lock(template, opts)}
}

// LockFunc is the Rule of a key function.
func (a *Adapter[S, H]) LockFunc(key func(S) (string, error), opts []guard.LockOption) Rule[S, H] {
	return Rule[S, H]{Rule: a.Adapter.LockFunc(key, opts)}
}

// Must is Rule.Bind, but for the error: it panics with the adapter's name before it.
func (a *Adapter[S, H]) Must(g *guard.Guard, r Rule[S, H]) *Locker[S, H] {
	bound, err := r.Bind(g)
	if err != nil {
		panic(a.Name + ": " + err.Error())
	}
	return bound
}

// Rule is a locking.Rule for requests. Its methods give a changed copy.
type Rule[S, H any] struct {
	locking.Rule[S]
	onError    *H  // the program's hook; nil for none
	busyStatus int // 0 for the default
}

// And adds the key of a template. It panics if the template is malformed.
func (r Rule[S, H]) And(template string) Rule[S, H] {
	r.Rule = r.Rule.And(template)
	return r
}

// Unlocked has requests pass without a lock for which unlocked returns true. A nil unlocked is ignored.
func (r Rule[S, H]) Unlocked(unlocked func(S) bool) Rule[S, H] {
	r.Rule = r.Rule.Unlocked(unlocked)
	return r
}

// OnError has the program answer errors, or the adapter again, if handle is not given.
func (r Rule[S, H]) OnError(handle H, given bool) Rule[S, H] {
	r.onError = nil
	if given {
		r.onError = &handle
	}
	return r
}

// BusyStatus is the status for a busy lock.
func (r Rule[S, H]) BusyStatus(code int) Rule[S, H] {
	r.busyStatus = code
	return r
}

// Bind makes the Rule one of g, or says what is wrong with it.
func (r Rule[S, H]) Bind(g *guard.Guard) (*Locker[S, H], error) {
	bound, err := r.Rule.Bind(g, defaultWait)
	if err == nil && r.busyStatus != 0 {
		err = outcome.CheckBusyStatus(r.busyStatus)
	}
	return &Locker[S, H]{Locker: bound, rule: r}, err
}

// Locker is a Rule in use. It may be used concurrently.
type Locker[S, H any] struct {
	*locking.Locker[S]
	rule   Rule[S, H]
	faults locking.Faults
}

// Context gives ctx with what locks taken in code need: the Guard, and the status of a
// busy lock.
func (l *Locker[S, H]) Context(ctx context.Context) context.Context {
	return outcome.WithBusyStatus(l.Locker.Context(ctx), l.rule.busyStatus)
}

// OnError gives the program's hook for errors, or else the adapter's.
func (l *Locker[S, H]) OnError(adapters H) H {
	if l.rule.onError != nil {
		return *l.rule.onError
	}
	return adapters
}

// Call is a request as an adapter has it.
type Call[S any] struct {
	Route   string // the lock's name, if nobody gives it another one
	Src     S
	Request *http.Request
	To      answer.To           // of an Answer
	Replay  http.ResponseWriter // what an earlier answer is written to: the framework's
}

// Serve calls next under the locks of c. ctx comes from Context. next gets the context of
// the lease, and the Answer to write to. own is what next returned. err is
// guard's: next did not run, which has the Answer nil, or its lock was lost, whatever it
// returned. With an err, c is still to be answered unless the Answer was Sent. Without an Answer and an err, an
// earlier answer was sent.
func (l *Locker[S, H]) Serve(ctx context.Context, c Call[S], next func(context.Context, *answer.Answer) error) (given *answer.Answer, own, err error) {
	if l.rule.IsOnce() {
		return l.serveOnce(ctx, c, next)
	}
	own, err = l.Run(ctx, c.Route, c.Src, func(held context.Context) error {
		given = answer.New(held, c.To)
		return next(held, given)
	})
	if given != nil {
		err = given.Finish(err)
	}
	return given, own, err
}

// Log logs an error of Serve that no caller would see, unless the program has a hook
// for errors, which may log what it likes.
func (l *Locker[S, H]) Log(ctx context.Context, adapter, route string, given *answer.Answer, err error, known outcome.HTTPError) {
	switch {
	case l.rule.onError != nil:
	case given != nil && given.Sent() && given.Failed(): // the caller was told
	case given != nil && given.Sent():
		locking.LogLost(ctx, adapter, route, err)
	default:
		l.faults.Log(ctx, adapter, route, outcome.Of(ctx, err, known).Fault, err)
	}
}

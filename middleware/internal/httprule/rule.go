package httprule

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/answer"
	"github.com/redlatch/redlatch/middleware/internal/locking"
	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

// defaultWait is short: net/http does not notice a client that left before its body was
// read, and the wait counts against Server.WriteTimeout.
const defaultWait = 2 * time.Second

// Rule is a locking.Rule for requests. A copy that is changed leaves the original alone.
type Rule[S, H any] struct {
	locking.Rule[S]
	OnError    *H  // the program's hook; nil for none
	BusyStatus int // 0 for the default
}

// Bind makes the Rule one of g, or says what is wrong with it.
func (r Rule[S, H]) Bind(g *guard.Guard) (*Locker[S, H], error) {
	bound, err := r.Rule.Bind(g, defaultWait)
	if err == nil && r.BusyStatus != 0 {
		err = outcome.CheckBusyStatus(r.BusyStatus)
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
	return outcome.WithBusyStatus(l.Locker.Context(ctx), l.rule.BusyStatus)
}

// OnError gives the program's hook for errors, or else the adapter's.
func (l *Locker[S, H]) OnError(adapters H) H {
	if l.rule.OnError != nil {
		return *l.rule.OnError
	}
	return adapters
}

// Serve calls next under the locks of src. ctx comes from Context. next gets the context of
// the lease, and the Answer to write to instead of w. own is what next returned. err is
// guard's: next did not run, which has the Answer nil, or its lock was lost, whatever it
// returned. With an err, w is still to be answered unless the Answer was Sent.
func (l *Locker[S, H]) Serve(ctx context.Context, name string, src S, w answer.To, next func(context.Context, *answer.Answer) error) (given *answer.Answer, own, err error) {
	own, err = l.Run(ctx, name, src, func(held context.Context) error {
		given = answer.New(held, w)
		return next(held, given)
	})
	if given != nil {
		err = given.Finish(err)
	}
	return given, own, err
}

// Log logs an error of Serve that nobody else would be told, unless the program has a hook
// for errors, which may log what it likes.
func (l *Locker[S, H]) Log(ctx context.Context, adapter, route string, given *answer.Answer, err error, known outcome.HTTPError) {
	switch {
	case l.rule.OnError != nil:
	case given != nil && given.Sent():
		locking.LogLost(ctx, adapter, route, err)
	default:
		l.faults.Log(ctx, adapter, route, outcome.Of(ctx, err, known).Fault, err)
	}
}

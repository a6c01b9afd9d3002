package httplock

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// defaultWait is short: net/http does not notice that a client left before its body was read, and the wait counts
// against Server.WriteTimeout.
const defaultWait = 2 * time.Second

// Adapter holds what differs between adapters.
type Adapter struct {
	Name  string    // for texts
	Known HTTPError // reads the errors of its framework; may be nil

	faults locking.Faults
}

// Early returns the error of a table that runs before the router, where no row applies. It logs the error once.
func (a *Adapter) Early(ctx context.Context) error {
	err := &guard.KeyError{Reason: "the request has no route yet: Annotate belongs into Use, not into Pre"}
	a.faults.Log(ctx, a.Name, "", locking.KeyFailed.Fault(), err)
	return err
}

// Keys makes the locks of a guardhttp.Rule.
var Keys = locking.Adapter[*http.Request]{Name: "guardhttp", Grammar: Grammar, Callers: []string{"header", "cookie"}}

// Rule is the content of a guardhttp.Rule.
type Rule struct {
	Locks      locking.Rule[*http.Request]
	OnError    func(w http.ResponseWriter, r *http.Request, err error) // nil for the adapter's answer
	BusyStatus int                                                     // 0 for the default

	Headers     []string                              // more headers of an answer that Once keeps
	Fingerprint func(r *http.Request) ([]byte, error) // replaces query and body; nil for these
}

// RuleOf returns the content of a guardhttp.Rule. Package guardhttp sets it; rule is any because guardhttp imports this
// package.
var RuleOf func(rule any) Rule

// Bind binds a guardhttp.Rule to g. It returns an error if the Rule has no key or an option is out of its bounds.
func (a *Adapter) Bind(g *guard.Guard, rule any) (*Route, error) {
	r := RuleOf(rule)
	locker, err := r.Locks.Bind(g, defaultWait)
	headers, wrong := keepable(r.Headers)
	return &Route{Locker: locker, adapter: a, rule: r, kept: headers}, cmp.Or(err, checkBusyStatus(r.BusyStatus), wrong)
}

// Must is Bind, except that it panics with the adapter's name and the error.
func (a *Adapter) Must(g *guard.Guard, rule any) *Route {
	route, err := a.Bind(g, rule)
	if err != nil {
		panic(a.Name + ": " + err.Error())
	}
	return route
}

// Route is a Rule in use. It may be used concurrently.
type Route struct {
	*locking.Locker[*http.Request]
	Name    string // of a row of a table
	adapter *Adapter
	rule    Rule
	kept    headers
	faults  locking.Faults
}

// Keeps reports whether the Rule has Once.
func (l *Route) Keeps() bool { return l.rule.Locks.IsOnce() }

// Context returns ctx with the Guard and the status of a busy lock, for locks that the handler takes itself.
func (l *Route) Context(ctx context.Context) context.Context {
	return withBusyStatus(l.Locker.Context(ctx), l.rule.BusyStatus)
}

// Result is how Serve went.
type Result struct {
	Own     error   // what the handler returned, unchanged
	Err     error   // guard's error: the handler did not run, or its lock was lost
	Outcome Outcome // the answer to Err
	Answer  *Answer // to the request
	name    string  // of the lock
	kept    *Kept   // the answer of an earlier request; nil if the handler ran
}

// Unfit reports whether Err says that the key template needs what the route of the request does not have.
func (r *Result) Unfit() bool { return r.Outcome.Kind == locking.KeyUnfit }

// Serve calls next under the locks of r, whose context is one of Route.Context. The lock has that name, unless the Rule
// has another name. next gets the context of the lease, and must write to a.
func (l *Route) Serve(a *Answer, r *http.Request, name string, next func(context.Context) error) Result {
	result := Result{Answer: a, name: name}
	if l.Keeps() {
		l.serveOnce(&result, r, next)
	} else {
		result.Own, result.Err = l.Run(r.Context(), name, r, func(held context.Context) error {
			a.start(held)
			return next(held)
		})
	}
	if a.ctx != nil {
		result.Err = a.finish(result.Err)
	}
	if result.Err != nil {
		result.Outcome = Of(r.Context(), result.Err, l.adapter.Known)
	}
	return result
}

// Handled reports whether the request needs no answer of the adapter: it repeats the answer of an earlier request, or
// gives result.Err to the program's hook. Without a hook, it logs an error that no caller would see. The Answer may be
// Sent where it returns false.
func (l *Route) Handled(w http.ResponseWriter, r *http.Request, result *Result) bool {
	a, err, hook := result.Answer, result.Err, l.rule.OnError
	switch {
	case result.kept != nil:
		result.kept.Replay(w)
		return true
	case err == nil:
		return false
	case hook != nil && a.sent:
		hook(a.Writer(), r.WithContext(a.Context(r.Context())), err) // by which WriteError sees that the Answer was sent
	case hook != nil:
		hook(w, r, err)
	case !a.sent:
		l.faults.Log(r.Context(), l.adapter.Name, result.name, result.Outcome.Fault, err)
	case !a.Failed(): // else the caller was told
		locking.LogLost(r.Context(), l.adapter.Name, result.name, err)
	}
	return hook != nil
}

// Name returns the lock's name for a method and the pattern of a route, or "" for no route. It returns few different
// names, whatever clients send, as metrics are labelled with them.
func Name(method, pattern string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
	default:
		method = "_OTHER"
	}
	if pattern == "" {
		return method
	}
	return method + " " + pattern
}

package guardgrpc

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// KeyFunc names what a call locks. It is called once a call, before anything is locked, and
// from many goroutines at a time. req is the request message, nil for a stream. An error with
// a status of its own is answered with that one, and any other one with Internal; see
// guard.JoinKey for how to put a key together.
type KeyFunc func(ctx context.Context, req any) (string, error)

// call is what a Rule knows a call by.
type call struct {
	ctx context.Context //nolint:containedctx // it is gone when the call is
	req any             // nil for a stream
}

// Rule is how the calls of a method are locked: a row of Methods. Lock and LockFunc make
// one. Its methods give a changed copy.
type Rule struct {
	rule    locking.Rule[call]
	onError func(ctx context.Context, err error) error
}

// Lock is the Rule of a key template, as the package comment describes it. opts are those of
// the lock itself: guard.TTL, guard.Wait and so on. It panics if the template is malformed.
func Lock(template string, opts ...guard.LockOption) Rule {
	return Rule{rule: adapter.Lock(template, opts)}
}

// LockFunc is the Rule of a KeyFunc.
func LockFunc(key KeyFunc, opts ...guard.LockOption) Rule {
	if key == nil {
		return Rule{rule: adapter.LockFunc(nil, opts)}
	}
	return Rule{rule: adapter.LockFunc(func(c call) (string, error) { return key(c.ctx, c.req) }, opts)}
}

// And adds the key of one more template: all keys are locked or none, as guard.WithLocks
// does. Up to 64 keys are possible. It panics if the template is malformed.
func (r Rule) And(template string) Rule {
	r.rule = r.rule.And(template)
	return r
}

// Once has a call of the key run once: whoever calls again gets the same response, with the header metadata
// idempotent-replayed: true, and the handler does not run, until keep has passed: 1 ms to 366 days, counted from
// the end of the call. Only OK is kept: what ends with an error runs again. Metadata that the handler
// sent is not repeated.
//
// Have the key name the caller as well, such as by a KeyFunc that reads its identity from ctx: whoever has the key and sends the
// same request gets the response.
//
//	guardgrpc.Lock("pay:{metadata:x-tenant}:{metadata:idempotency-key}").Once(24 * time.Hour)
//
// The fingerprint is the method and the request, in the deterministic encoding of protocol buffers. The package comment
// says how calls are answered that get no response. After a crash, a panic or a loss of the lock, the next call
// runs, and learns of it by guard.Earlier; with guard.AtMostOnce in opts, none runs. A response of more than guard.MaxResult, 64
// KiB by default, or one that is no protocol buffer, is not kept. guard.Fingerprint and guard.Encoding have no effect.
//
// Unary and Stream panic if keep or an option is out of its bounds, or with And, guard.Limit or guard.Shared. Once does not
// go with a stream: Check says so, and its calls are Internal. Given more than once, the last one counts.
func (r Rule) Once(keep time.Duration, opts ...guard.OnceOption) Rule {
	r.rule = r.rule.Once(keep, opts)
	return r
}

// Skip lets calls pass without a lock: those for which skip returns true. Their context
// carries the Guard all the same. req is nil for a stream. A nil skip is ignored.
func (r Rule) Skip(skip func(ctx context.Context, req any) bool) Rule {
	if skip != nil {
		r.rule = r.rule.Skip(func(c call) bool { return skip(c.ctx, c.req) })
	}
	return r
}

// OnError replaces StatusError as what turns guard's errors into what the client gets. A
// handle that returns nil leaves it to StatusError: work without its lock is no success.
// Nothing is logged any more. Given nil, StatusError answers.
func (r Rule) OnError(handle func(ctx context.Context, err error) error) Rule {
	r.onError = handle
	return r
}

package guardgrpc

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// KeyFunc names what a call locks, by guard.JoinKey for example. It is called once a call, before
// anything is locked, and from many goroutines at a time. req is the request message, nil for a
// stream. An error is answered with its own status if it has one, and else Internal.
type KeyFunc func(ctx context.Context, req any) (string, error)

// call is what a Rule knows a call by.
type call struct {
	ctx context.Context //nolint:containedctx // it is gone when the call is
	req any             // nil for a stream
}

// Rule is how the calls of a method are locked: a row of Methods. Lock and LockFunc make one. Its
// methods give a changed copy; given more than once, the last call counts, but for And and Unlocked.
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

// And adds the key of one more template: all keys, 64 at most, are locked or none, as
// guard.WithLocks does. It panics if the template is malformed.
func (r Rule) And(template string) Rule {
	r.rule = r.rule.And(template)
	return r
}

// Value has value fill the placeholder {name} of the rule's templates. req is nil for a stream. It is called once a
// call for each time the name stands in a template; its error is answered as that of a KeyFunc is.
func (r Rule) Value(name string, value func(ctx context.Context, req any) (string, error)) Rule {
	var of func(c call) (string, error)
	if value != nil {
		of = func(c call) (string, error) { return value(c.ctx, c.req) }
	}
	r.rule = r.rule.Value(name, of)
	return r
}

// Once has a call of the key run once. Who calls again until keep has passed gets the same response, with the header
// metadata idempotent-replayed: true: 1 ms to 366 days, counted from the end of the call. Only OK is kept, without the
// metadata that the handler sent. The template must name the caller by metadata, unless SharedAnswer is set, or one
// caller would get the response of another. Metadata that clients choose freely names nobody: have authentication check
// it.
//
//	guardgrpc.Lock("pay:{metadata:x-tenant}:{metadata:idempotency-key}").Once(24 * time.Hour)
//
// The handler's context ends with the lock, and neither with the client nor with its deadline. The fingerprint is the
// method and the request. After a crash, the next call runs, and learns of it by guard.Interrupted; with
// guard.AtMostOnce, none runs. A response of more than guard.MaxResult, 64 KiB by default, or one that is no protocol
// buffer, is not kept. The first key keeps the response; those of And are locked while the handler runs. Once goes
// without guard.Limit and guard.Shared, and with no stream, as Check says. guard.Fingerprint and guard.Encoding have no
// effect.
func (r Rule) Once(keep time.Duration, opts ...guard.OnceOption) Rule {
	r.rule = r.rule.Once(keep, opts)
	return r
}

// SharedAnswer allows a key of Once that names no caller: every call with the key gets the response.
func (r Rule) SharedAnswer() Rule {
	r.rule = r.rule.SharedAnswer()
	return r
}

// Unlocked lets calls pass without a lock for which any unlocked returns true. Their context carries the
// Guard all the same. req is nil for a stream. A nil unlocked is ignored.
func (r Rule) Unlocked(unlocked func(ctx context.Context, req any) bool) Rule {
	if unlocked != nil {
		r.rule = r.rule.Unlocked(func(c call) bool { return unlocked(c.ctx, c.req) })
	}
	return r
}

// OnError replaces StatusError as what turns guard's errors into what the client gets. Where handle
// returns nil, StatusError answers: work without its lock is no success. Nothing is logged any more.
func (r Rule) OnError(handle func(ctx context.Context, err error) error) Rule {
	r.onError = handle
	return r
}

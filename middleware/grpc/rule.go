package guardgrpc

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// KeyFunc returns the key that a call locks, made by guard.JoinKey for example. It is called once a call, before
// anything is locked, and concurrently. req is the request message, or nil for a stream. An error is answered with its
// own status, or else Internal.
type KeyFunc func(ctx context.Context, req any) (string, error)

// call is the source of a key.
type call struct {
	ctx context.Context //nolint:containedctx // it is gone when the call is
	req any             // nil for a stream
}

// Rule is how the calls of a method are locked: a row of Methods. Lock and LockFunc return one. Its methods return a
// changed copy; given more than once, the last call counts, except for And and Unlocked.
type Rule struct {
	rule    locking.Rule[call]
	onError func(ctx context.Context, err error) error
}

// Lock returns the Rule of a key template, as the package comment describes it. opts are those of the lock itself:
// guard.TTL, guard.Wait and so on. It panics if the template is malformed.
func Lock(template string, opts ...guard.LockOption) Rule {
	return Rule{rule: adapter.Lock(template, opts)}
}

// LockFunc returns the Rule of a KeyFunc.
func LockFunc(key KeyFunc, opts ...guard.LockOption) Rule {
	if key == nil {
		return Rule{rule: adapter.LockFunc(nil, opts)}
	}
	return Rule{rule: adapter.LockFunc(func(c call) (string, error) { return key(c.ctx, c.req) }, opts)}
}

// And adds the key of another template: all keys, 64 at most, are locked or none, as guard.WithLocks does. It panics if
// the template is malformed.
func (r Rule) And(template string) Rule {
	r.rule = r.rule.And(template)
	return r
}

// Value fills the placeholder {name} of the Rule's templates with value. req is nil for a stream. value is called for
// each {name} of a call's templates; its error is answered like that of a KeyFunc.
func (r Rule) Value(name string, value func(ctx context.Context, req any) (string, error)) Rule {
	var of func(c call) (string, error)
	if value != nil {
		of = func(c call) (string, error) { return value(c.ctx, c.req) }
	}
	r.rule = r.rule.Value(name, of)
	return r
}

// Once runs a call of the key once. Later calls get the same response, with the header metadata idempotent-replayed:
// true, until keep has passed: 1 ms to 366 days, counted from the end of the call. Only the response of an OK is kept,
// without the metadata of the handler.
//
//	guardgrpc.Lock("pay:{tenant}:{metadata:idempotency-key}").Value("tenant", tenant).Once(24 * time.Hour)
//
// The template must name the caller by metadata, unless SharedAnswer is set: else one caller would get the response of
// another. Metadata that clients choose freely does not tell callers apart: authentication has to check it.
//
// The handler's context ends with the lock, and neither with the client nor with its deadline. The fingerprint is the
// method and the request. After a crash, the next call runs, and learns of it by guard.Interrupted; with
// guard.AtMostOnce, it is refused. A response of more than guard.MaxResult, 64 KiB by default, or of another type than
// a protocol buffer, is not kept. The first key keeps the response; the keys of And are locked while the handler runs.
// Once excludes guard.Limit, guard.Shared and streams, as Check says. guard.Fingerprint and guard.Encoding have no
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

// Unlocked lets a call pass without a lock if any unlocked returns true for it. Its context carries the Guard all the
// same. req is nil for a stream. A nil unlocked is ignored.
func (r Rule) Unlocked(unlocked func(ctx context.Context, req any) bool) Rule {
	if unlocked != nil {
		r.rule = r.rule.Unlocked(func(c call) bool { return unlocked(c.ctx, c.req) })
	}
	return r
}

// OnError sets handle, which turns guard's errors into the client's status in place of StatusError. If handle returns
// nil, StatusError answers: a call without its lock is no success. Nothing is logged.
func (r Rule) OnError(handle func(ctx context.Context, err error) error) Rule {
	r.onError = handle
	return r
}

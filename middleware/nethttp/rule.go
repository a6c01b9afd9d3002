package guardhttp

import (
	"net/http"
	"slices"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/httplock"
)

// KeyFunc returns the key that a request locks, made by guard.JoinKey for example. It is called once a request, before
// anything is locked, and concurrently. In every adapter, r has the path values and the pattern of its route, as
// http.ServeMux sets them. An error with a StatusCode() int is answered with that status, and with its Detail() string
// if it has one; any other error is answered 500.
type KeyFunc func(r *http.Request) (string, error)

// ParseKey returns the KeyFunc of a template that is not a constant. Its error names the column (in bytes, from 1) at
// which the template is malformed. The KeyFunc's errors are *guard.KeyError.
func ParseKey(template string) (KeyFunc, error) { return httplock.Keys.ParseKey(template) }

// Rule is how the requests of a route are locked: the argument of Middleware, and a row of Routes. Lock and LockFunc
// return one. Its methods return a changed copy; given more than once, the last call counts, except for And, Unlocked
// and Headers. It is the Rule of guardecho and guardgin, too.
type Rule struct{ rule httplock.Rule }

// Lock returns the Rule of a key template, as the package comment describes it. opts are those of the lock itself:
// guard.TTL, guard.Wait and so on. It panics if the template is malformed.
func Lock(template string, opts ...guard.LockOption) Rule {
	return Rule{httplock.Rule{Locks: httplock.Keys.Lock(template, opts)}}
}

// LockFunc returns the Rule of a KeyFunc.
func LockFunc(key KeyFunc, opts ...guard.LockOption) Rule {
	return Rule{httplock.Rule{Locks: httplock.Keys.LockFunc(key, opts)}}
}

// And adds the key of another template: all keys, 64 at most, are locked or none, as guard.WithLocks does. It panics if
// the template is malformed.
func (r Rule) And(template string) Rule {
	r.rule.Locks = r.rule.Locks.And(template)
	return r
}

// Value fills the placeholder {name} of the Rule's templates with value, say with what authentication found. It
// replaces a path value of that name.
//
//	Lock("pay:{tenant}:{idempotency-key}").Value("tenant", tenantOf)
//
// value is called for each {name} of a request's templates. Its text is escaped; an empty text is answered 400, and an
// error like that of a KeyFunc. Middleware and Annotate panic if no template has the placeholder, or value is nil.
func (r Rule) Value(name string, value func(r *http.Request) (string, error)) Rule {
	r.rule.Locks = r.rule.Locks.Value(name, value)
	return r
}

// Unlocked lets a request pass without a lock if any unlocked returns true for it. Its context carries the Guard all
// the same. A nil unlocked is ignored.
func (r Rule) Unlocked(unlocked func(r *http.Request) bool) Rule {
	r.rule.Locks = r.rule.Locks.Unlocked(unlocked)
	return r
}

// OnError sets handle, which answers guard's errors in place of the adapter. It also gets the error of a lock that was
// lost after the handler had begun to write. handle may call WriteError. Nothing is logged. With nil, the adapter
// answers.
func (r Rule) OnError(handle func(w http.ResponseWriter, r *http.Request, err error)) Rule {
	r.rule.OnError = handle
	return r
}

// BusyStatus sets the status for a busy lock: 409 (the default), 423, 429 or 503. WriteError uses it for locks that the
// handler takes itself.
func (r Rule) BusyStatus(code int) Rule {
	r.rule.BusyStatus = code
	return r
}

// Once serves the requests of a key once. Later requests get the first answer until keep has passed: 1 ms to 366 days,
// counted from the end of the handler. docs/guides/idempotency-keys.md has its rules.
//
//	Lock("pay:{tenant}:{idempotency-key}").Value("tenant", tenant).Once(24 * time.Hour)
//
// The handler's context does not end when the client leaves, which asks again for the answer. It ends with the lock.
//
// The template must name the caller by a header, a cookie or a Value, unless SharedAnswer is set: else one caller would
// get the answer of another. A header that clients choose freely does not tell callers apart: authentication has to set
// it. The first key keeps the answer, and the keys of And are locked while the handler runs:
// Lock(…).Once(keep).And("order:{id}") has one payment of an order at a time, and repeats its answer without a lock of
// the order. Once excludes guard.Limit and guard.Shared. guard.Fingerprint and guard.Encoding have no effect.
func (r Rule) Once(keep time.Duration, opts ...guard.OnceOption) Rule {
	r.rule.Locks = r.rule.Locks.Once(keep, slices.Concat([]guard.OnceOption{httplock.MaxResult}, opts))
	return r
}

// Headers adds names to the headers that Once keeps, which describe the body and how a client may use it, such as
// Location and Cache-Control. Set-Cookie is kept if it is named. Middleware and Annotate panic for a header of the
// connection or the message, such as Content-Length and Date.
func (r Rule) Headers(names ...string) Rule {
	r.rule.Headers = slices.Concat(r.rule.Headers, names)
	return r
}

// FingerprintFunc sets what Once compares with an earlier request of the key in place of the query and the body, up to
// 1 MiB. The method and the path count in any case. fingerprint may read the body, which the handler gets again. Its
// error is answered like that of a KeyFunc. With nil, query and body count.
func (r Rule) FingerprintFunc(fingerprint func(r *http.Request) ([]byte, error)) Rule {
	r.rule.Fingerprint = fingerprint
	return r
}

// SharedAnswer allows a key of Once that names no caller: every request with the key gets the answer.
func (r Rule) SharedAnswer() Rule {
	r.rule.Locks = r.rule.Locks.SharedAnswer()
	return r
}

func init() { httplock.RuleOf = func(rule any) httplock.Rule { return rule.(Rule).rule } } //nolint:forcetypeassert // adapters have no other

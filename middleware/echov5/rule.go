package guardecho

import (
	"time"

	"github.com/labstack/echo/v5"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/echocore"
)

// KeyFunc names what a request locks, by guard.JoinKey for example. It is called once a request,
// before anything is locked, and from many goroutines at a time; it must not keep c. Its error is answered
// with its own status if it has one (StatusCode() int, as *echo.HTTPError has), and else 500.
type KeyFunc func(c *echo.Context) (string, error)

// ParseKey is the KeyFunc of a template that is not a constant. Its error names the column (in
// bytes, from 1) at which the template is malformed. The KeyFunc's errors are *guard.KeyError.
func ParseKey(template string) (KeyFunc, error) { return adapter.ParseKey(template) }

// Rule is how the requests of a route are locked: the argument of Middleware, and a row of
// Routes. Lock and LockFunc make one. Its methods give a changed copy; given more than once,
// the last call counts, but for And and Unlocked.
type Rule struct{ rule rule }

type rule = echocore.Rule[*echo.Context]

// Lock is the Rule of a key template, as guardhttp's package comment describes it. opts are those of
// the lock itself: guard.TTL, guard.Wait and so on. It panics if the template is malformed.
func Lock(template string, opts ...guard.LockOption) Rule { return Rule{adapter.Lock(template, opts)} }

// LockFunc is the Rule of a KeyFunc.
func LockFunc(key KeyFunc, opts ...guard.LockOption) Rule { return Rule{adapter.LockFunc(key, opts)} }

// And adds the key of one more template: all keys, 64 at most, are locked or none, as
// guard.WithLocks does. It panics if the template is malformed.
func (r Rule) And(template string) Rule { return Rule{r.rule.And(template)} }

// Unlocked lets requests pass without a lock for which any unlocked returns true. Their context carries
// the Guard all the same. A nil unlocked is ignored.
func (r Rule) Unlocked(unlocked func(c *echo.Context) bool) Rule {
	return Rule{r.rule.Unlocked(unlocked)}
}

// OnError replaces HTTPError as what turns guard's errors into what the middleware returns, also
// for a lock that was lost after the handler had begun to write. Nothing is logged any more.
// Given nil, HTTPError answers.
func (r Rule) OnError(handle func(c *echo.Context, err error) error) Rule {
	return Rule{r.rule.OnError(handle, handle != nil)}
}

// BusyStatus is the status for a busy lock: 409 (the default), 423, 429 or 503, also for the
// locks of the handler's own that HTTPError answers.
func (r Rule) BusyStatus(code int) Rule { return Rule{r.rule.BusyStatus(code)} }

// Once serves the requests of a key once, and repeats the first answer to those that come again until keep has
// passed, as guardhttp.Rule.Once does: keep is 1 ms to 366 days, and the template must name the caller.
func (r Rule) Once(keep time.Duration, opts ...guard.OnceOption) Rule {
	return Rule{r.rule.Once(keep, opts)}
}

// SharedAnswer allows a key of Once that names no caller: every request with the key gets the answer.
func (r Rule) SharedAnswer() Rule { return Rule{r.rule.SharedAnswer()} }

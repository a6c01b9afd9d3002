package guardwatermill

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/jsonfield"
	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
	"github.com/redlatch/redlatch/middleware/internal/locking"
	"github.com/redlatch/redlatch/middleware/internal/taskrule"
)

// Rule says how messages are locked: the argument of Middleware, and a row of Handlers. Lock and
// LockFunc make one; its methods give a changed copy.
type Rule struct {
	rule taskrule.Rule[*message.Message]
}

// Lock is the Rule of a key template, as the package comment describes it, with options of the
// lock itself: guard.TTL, guard.Wait, guard.Limit, and so on. It panics if the template is
// malformed.
func Lock(template string, opts ...guard.LockOption) Rule { return Rule{adapter.Lock(template, opts)} }

// KeyFunc names what a message locks. It is called once for each delivery, and from many goroutines
// at a time. See guard.JoinKey for how to put a key together.
type KeyFunc func(msg *message.Message) (string, error)

// LockFunc is Lock for a key function of your own.
func LockFunc(key KeyFunc, opts ...guard.LockOption) Rule {
	if key == nil {
		return Rule{}
	}
	return Rule{adapter.LockFunc(func(_ context.Context, msg *message.Message) (string, error) { return key(msg) }, opts)}
}

// And adds the key of one more template, which is locked as well: all of them or none, as
// guard.WithLocks does, in an order that does not depend on how they are given, and within one
// Wait. A Rule has at most 64 keys. It panics if the template is malformed.
func (r Rule) And(template string) Rule { return Rule{r.rule.And(template)} }

// Once has a message of the key handled once. What is delivered again is acknowledged, and the handler does not run, until
// keep has passed: 1 ms to 366 days, counted from the end of the handler, and longer than the message may be delivered
// again. The messages that the handler returned are published again, as nobody knows whether they were before:
// each with its UUID, Metadata and Payload.
//
// It is noted after the handler returned no error. Its error leaves nothing behind: the message is delivered again as ever.
// While a handler is at work, others are busy, as BusyStrategy says. After a crash, a panic, a loss of the lock, or an
// error that came when the message's context was over, the next handler learns of it by guard.Earlier. With
// guard.AtMostOnce in opts there is no next one: each delivery is an error with guard.ErrUnknownOutcome, for a person to look at;
// see Guard.Forget.
//
// A key belongs to one piece of work: its fingerprint is the router's handler, the payload, and the metadata "name" that
// watermill's package cqrs writes. Another handler or message with the same key gets an error with
// guard.ErrOtherInput. So name what is done in the key, as in charge:{order_id}. Returned messages of more than guard.MaxResult
// bytes as JSON, 64 KiB by default, are published and not kept: the next delivery is an error with guard.ErrNotKept.
//
// All these errors are a *guard.OnceError, and stay: have a poison queue take them, as the package comment
// says. guard.Fingerprint and guard.Encoding have no effect.
//
// Middleware and Annotate panic if keep or an option is out of its bounds, or with And, guard.Limit or
// guard.Shared. Given more than once, the last one counts.
func (r Rule) Once(keep time.Duration, opts ...guard.OnceOption) Rule {
	return Rule{r.rule.Once(keep, opts)}
}

// Skip lets messages be handled without a lock: those for which skip returns true. Their context
// carries the Guard all the same. Given more than once, one true is enough. A nil skip is ignored.
func (r Rule) Skip(skip func(msg *message.Message) bool) Rule {
	if skip == nil {
		return r
	}
	return Rule{r.rule.Skip(func(_ context.Context, msg *message.Message) bool { return skip(msg) })}
}

// OnError turns guard's errors into what watermill gets to see, after BusyStrategy; nil acknowledges
// the message. It is not called for the handler's own errors. Given more than once, the last one
// counts. A nil handle is ignored.
func (r Rule) OnError(handle func(msg *message.Message, err error) error) Rule {
	if handle != nil {
		r.rule.OnError = func(_ context.Context, msg *message.Message, err error) error { return handle(msg, err) }
	}
	return r
}

// Strategy is what becomes of a message whose lock stayed busy for as long as it was waited for. See
// Rule.BusyStrategy.
type Strategy int

const (
	// Retry returns the error, so that the message is delivered again, and is the default.
	Retry Strategy = iota

	// SkipRun acknowledges the message without handling it, for work that its lock's holder does
	// anyway. OnError is not called.
	SkipRun
)

// BusyStrategy sets what becomes of a message whose lock stayed busy. What else keeps a handler
// from running, as Redis down, a closed Guard or the end of the message's context, is an error in
// any case. Given more than once, the last one counts.
func (r Rule) BusyStrategy(s Strategy) Rule {
	r.rule.Strategy = int(s)
	return r
}

type source = taskrule.Source[*message.Message]

var adapter = taskrule.Adapter[*message.Message]{
	Adapter: locking.Adapter[source]{Name: "guardwatermill", Grammar: taskrule.Grammar[*message.Message]{
		Kinds: map[string]keytemplate.Bind[source]{"message": bindMessage, "metadata": bindMetadata},
		Bare:  jsonfield.Bind(func(src source) []byte { return src.Task.Payload }),
	}},
	// Below the 30 s that a router's Close waits, and the 60 s after which redisstream gives a
	// message to another consumer.
	Wait:       20 * time.Second,
	Strategies: []string{"Retry", "SkipRun"},
	Input: func(src source) [][]byte {
		return [][]byte{[]byte(nameOf(src.Ctx)), []byte(src.Task.Metadata["name"]), src.Task.Payload}
	},
}

func bindMetadata(name string) (keytemplate.Extract[source], error) {
	return func(src source) (string, error) { return src.Task.Metadata[name], nil }, nil
}

func bindMessage(name string) (keytemplate.Extract[source], error) {
	switch name {
	case "uuid":
		return func(src source) (string, error) { return src.Task.UUID, nil }, nil
	case "topic":
		return func(src source) (string, error) {
			topic := message.SubscribeTopicFromCtx(src.Ctx)
			if topic == "" {
				return "", keytemplate.Unfit("the context is not that of a message from a router")
			}
			return topic, nil
		}, nil
	}
	return nil, fmt.Errorf("%q is none of uuid, topic", name)
}

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
// LockFunc make one. Its methods give a changed copy; given more than once, the last call counts,
// but for And and Unlocked.
type Rule struct {
	rule taskrule.Rule[*message.Message]
}

// Lock is the Rule of a key template, as the package comment describes it. opts are those of
// the lock itself: guard.TTL, guard.Limit and so on. It panics if the template is malformed.
func Lock(template string, opts ...guard.LockOption) Rule { return Rule{adapter.Lock(template, opts)} }

// KeyFunc names what a message locks, by guard.JoinKey for example. It is called once for each
// delivery, and from many goroutines at a time.
type KeyFunc func(msg *message.Message) (string, error)

// LockFunc is the Rule of a KeyFunc.
func LockFunc(key KeyFunc, opts ...guard.LockOption) Rule {
	if key == nil {
		return Rule{}
	}
	return Rule{adapter.LockFunc(func(_ context.Context, msg *message.Message) (string, error) { return key(msg) }, opts)}
}

// And adds the key of one more template: all keys, 64 at most, are locked or none, as
// guard.WithLocks does. It panics if the template is malformed.
func (r Rule) And(template string) Rule { return Rule{r.rule.And(template)} }

// Once has a message of the key handled once. What is delivered again until keep has passed is acknowledged without its
// handler: 1 ms to 366 days, counted from the end of the handler, and longer than the message may be delivered again.
// The messages that the handler returned are published again, as nobody knows whether they were before. More of them
// than guard.MaxResult, 64 KiB by default, are not kept: the next delivery is guard.ErrNotKept.
//
// Another handler, payload or metadata "name", which watermill's package cqrs writes, with the same key is
// guard.ErrOtherInput: name what is done in the key, as in charge:{order_id}. docs/guides/watermill.md says what comes after a
// crash. Once takes one key, without And, guard.Limit and guard.Shared. guard.Fingerprint and guard.Encoding have no
// effect.
func (r Rule) Once(keep time.Duration, opts ...guard.OnceOption) Rule {
	return Rule{r.rule.Once(keep, opts)}
}

// Unlocked lets messages be handled without a lock for which any unlocked returns true. Their context
// carries the Guard all the same. A nil unlocked is ignored.
func (r Rule) Unlocked(unlocked func(msg *message.Message) bool) Rule {
	if unlocked == nil {
		return r
	}
	return Rule{r.rule.Unlocked(func(_ context.Context, msg *message.Message) bool { return unlocked(msg) })}
}

// OnError turns guard's errors, but not the handler's own, into what watermill gets to see, after
// BusyStrategy; nil acknowledges the message. A nil handle is ignored.
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

	// Drop acknowledges the message without handling it, for work that its lock's holder does
	// anyway. OnError is not called.
	Drop
)

// BusyStrategy sets what becomes of a message whose lock stayed busy. What else keeps a handler
// from running, as Redis down, is an error in any case.
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
	Strategies: []string{"Retry", "Drop"},
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

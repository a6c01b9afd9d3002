package guardwatermill

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
	"github.com/redlatch/redlatch/middleware/internal/tasklock"
)

// Rule says how messages are locked. Lock and LockFunc make a Rule, for guardasynq and guardriver, too. Its methods return a
// changed copy:
//
//	And(template string)                               // one key more: all, 64 at most, are locked or none
//	Once(keep time.Duration, opts ...guard.OnceOption) // a message of the key is handled once, until keep has passed
//	OnBusy(s Strategy)                                 // Retry (default), Drop or GiveUp, if the lock stays busy
//	Unlocked(func(context.Context, Task) bool)         // no lock for messages for which it returns true
//	OnError(func(context.Context, Task, error) error)  // replaces guard's errors
//
// With Once, the messages that the handler returned are published again, each with its UUID, metadata and payload: redlatch does
// not know whether they were published before. More than guard.MaxResult is not kept. Two handlers of one topic need two keys.
type Rule = tasklock.Rule

// Task is a message for the functions of a Rule: Kind, ID (its UUID), Queue (its topic), Payload, Header(name) (its metadata),
// and the *message.Message as Native.
type Task = tasklock.Task

// KeyFunc returns the key of a message: func(context.Context, Task) (string, error). guard.JoinKey makes keys. A KeyFunc is called
// once for each delivery, from many goroutines.
type KeyFunc = tasklock.KeyFunc

// Strategy says how a message ends whose lock stayed busy until the wait was over.
type Strategy = tasklock.Strategy

// The strategies of Rule.OnBusy. Other errors, such as Redis being down, are returned in any case.
const (
	Retry  = tasklock.Retry  // returns the error, so that the message is delivered again: the default
	Drop   = tasklock.Drop   // acknowledges the message, for work that the lock's holder does anyway; no OnError
	GiveUp = tasklock.GiveUp // returns an error of GivenUp, for work that must not be late: it needs a poison queue
)

// GivenUp returns whether err is the error of a message that stays bad, or that GiveUp ends. It is the filter of a poison queue.
func GivenUp(err error) bool {
	return errors.Is(err, errGivenUp) || errors.Is(err, guard.ErrKey) || errors.As(err, new(*guard.OnceError))
}

var errGivenUp = errors.New("the message is given up")

// The wait is below the 30 s that a router's Close waits, and the 60 s after which redisstream gives a message to another
// consumer.
var adapter = tasklock.New("guardwatermill", 20*time.Second)

// Lock is the Rule of a key template (see Keys). opts are guard.TTL, guard.Limit and so on. It panics if the template is malformed.
func Lock(template string, opts ...guard.LockOption) Rule { return adapter.Lock(template, opts) }

// LockFunc is the Rule of a KeyFunc.
func LockFunc(key KeyFunc, opts ...guard.LockOption) Rule { return adapter.LockFunc(key, opts) }

// Middleware handles messages under the locks of rule. With a nil g, the Guard in the message's context locks, or else the one
// given to guard.SetDefault. The lock's Name is the name of the router's handler if the rule sets none, and its Wait is 20 seconds
// if neither the rule nor the Guard set one. It panics if rule has no key or an option is out of its bounds.
func Middleware(g *guard.Guard, rule Rule) message.HandlerMiddleware {
	l := adapter.Must(g, rule)
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) { return handle(l, msg, next) }
	}
}

// Handlers says which messages are locked, and how, by the names of the router's handlers.
type Handlers map[string]Rule

// Annotate is Middleware with a table. A message reaches a handler without a row untouched; Check finds rows without a handler.
// Annotate panics if a name is blank, a row has no key or an option is out of its bounds.
func Annotate(g *guard.Guard, handlers Handlers) message.HandlerMiddleware {
	rows := adapter.Table(g, handlers)
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			if l := rows[message.HandlerNameFromCtx(msg.Context())]; l != nil {
				return handle(l, msg, next)
			}
			return next(msg)
		}
	}
}

// Check returns an error that names each row without a handler of its name in router. Call it before the router runs, or in a
// test.
func Check(router *message.Router, handlers Handlers) error {
	there := router.Handlers()
	return adapter.CheckRows(handlers, func(name string) bool { return there[name] != nil }, "the router has no handler of this name")
}

func handle(l *tasklock.Locker, msg *message.Message, next message.HandlerFunc) (produced []*message.Message, err error) {
	began, ctx := time.Now(), msg.Context()
	defer msg.SetContext(ctx)
	topic := message.SubscribeTopicFromCtx(ctx)
	err = l.Process(ctx, &tasklock.Work{
		Task: Task{
			Kind: cmp.Or(msg.Metadata["name"], topic), ID: msg.UUID, Queue: topic, Payload: msg.Payload,
			Header: func(name string) string { return msg.Metadata[name] }, Native: msg,
		},
		Name: cmp.Or(message.HandlerNameFromCtx(ctx), topic, "message"),
		Do: func(held context.Context) (err error) {
			msg.SetContext(held)
			produced, err = next(msg)
			return err
		},
		Result: encoding(&produced),
	}, l.Run, func(s Strategy, err error) error {
		produced = nil
		switch s {
		case Drop:
			return nil
		case GiveUp:
			return fmt.Errorf("%w: %w", err, errGivenUp)
		}
		if _, passes := locking.RetryAfter(err); passes {
			pause(ctx, began.Add(soonest))
		}
		return err
	})
	return produced, err
}

// soonest is how long a delivery that failed takes at least: without it, a subscriber without a pause of its own would ask for
// the lock all the time.
const soonest = time.Second

func pause(ctx context.Context, end time.Time) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(end)):
	}
}

// made is the record of a message that a handler returned.
type made struct {
	UUID     string
	Metadata message.Metadata
	Payload  []byte
}

// encoding writes the messages that a handler returned, and reads them again. Watermill publishes them after the record is
// written: if publishing fails, the next delivery has to publish them.
func encoding(produced *[]*message.Message) guard.OnceOption {
	return guard.Encoding(
		func(any) ([]byte, error) {
			if len(*produced) == 0 {
				return nil, nil
			}
			all := make([]made, len(*produced))
			for i, msg := range *produced {
				all[i] = made{msg.UUID, msg.Metadata, msg.Payload}
			}
			return json.Marshal(all)
		},
		func(kept []byte, _ any) error {
			var all []made
			if len(kept) > 0 {
				if err := json.Unmarshal(kept, &all); err != nil {
					return err
				}
			}
			for _, m := range all {
				msg := message.NewMessage(m.UUID, m.Payload)
				msg.Metadata = m.Metadata
				*produced = append(*produced, msg)
			}
			return nil
		})
}

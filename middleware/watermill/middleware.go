package guardwatermill

import (
	"cmp"
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
	"github.com/redlatch/redlatch/middleware/internal/taskrule"
)

// Middleware handles messages under the locks of rule. With a nil g, the Guard in the message's
// context locks, or else the one given to guard.SetDefault. The lock's Name is that of the router's
// handler if the rule sets none, and its Wait is 20 seconds if neither the rule nor the Guard set
// one. It panics if rule has no key or an option is out of its bounds.
func Middleware(g *guard.Guard, rule Rule) message.HandlerMiddleware {
	l := adapter.Must(g, rule.rule)
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) { return handle(l, msg, next) }
	}
}

// Handlers says which messages are locked, and how, by the names of the router's handlers.
type Handlers map[string]Rule

// Annotate is Middleware with a table. A message of a handler that has no row reaches it untouched,
// and a row that no handler has locks nothing: see Check. It panics if a name is blank, a row has no
// key or an option is out of its bounds.
func Annotate(g *guard.Guard, handlers Handlers) message.HandlerMiddleware {
	rows := taskrule.Table(&adapter, g, handlers, func(r Rule) taskrule.Rule[*message.Message] { return r.rule })
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			if l := rows[message.HandlerNameFromCtx(msg.Context())]; l != nil {
				return handle(l, msg, next)
			}
			return next(msg)
		}
	}
}

// Check says which rows lock nothing, as the router has no handler of their name: its error names
// each. Call it before the router runs, or in a test.
func Check(router *message.Router, handlers Handlers) error {
	there := router.Handlers()
	return taskrule.CheckRows(&adapter, handlers, func(name string) bool { return there[name] != nil }, "the router has no handler of this name")
}

func handle(l *taskrule.Locker[*message.Message], msg *message.Message, next message.HandlerFunc) (produced []*message.Message, err error) {
	began, ctx := time.Now(), msg.Context()
	defer msg.SetContext(ctx)
	work := func(held context.Context) (err error) {
		msg.SetContext(held)
		produced, err = next(msg)
		return err
	}
	err = l.Process(ctx, msg, work, func(ctx context.Context) (own, err error) {
		return l.RunKeeping(ctx, nameOf(ctx), msg, encoding(&produced), work)
	}, func(err error) error {
		produced = nil
		if Strategy(l.Strategy()) == Drop && taskrule.Busy(err) {
			return nil
		}
		if _, passes := locking.RetryAfter(err); passes {
			pause(ctx, began.Add(soonest))
		}
		return err
	})
	return produced, err
}

// nameOf is the lock's Name, if the rule sets none.
func nameOf(ctx context.Context) string {
	return cmp.Or(message.HandlerNameFromCtx(ctx), message.SubscribeTopicFromCtx(ctx), "message")
}

// soonest is when a message may be delivered again, from when it came: a subscriber without a
// pause of its own would ask for the lock all the time.
const soonest = time.Second

func pause(ctx context.Context, end time.Time) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(end)):
	}
}

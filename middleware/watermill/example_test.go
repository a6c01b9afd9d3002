package guardwatermill_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardwatermill "github.com/redlatch/redlatch/middleware/watermill"
)

// newGuard stands for guard.New(redisClient).
func newGuard() *guard.Guard {
	g, err := guard.NewWithStore(guardtest.NewStore())
	if err != nil {
		panic(err)
	}
	return g
}

func ExampleMiddleware() {
	g := newGuard()
	defer g.Close()

	charge := guardwatermill.Middleware(g, guardwatermill.Lock("order:{order_id}"))(
		func(msg *message.Message) ([]*message.Message, error) {
			lease, _ := guard.FromContext(msg.Context())
			fmt.Println("charging under", lease.Key())
			return nil, nil
		})

	// A router would do this.
	_, err := charge(message.NewMessage("1", []byte(`{"order_id":42}`)))
	fmt.Println(err)
	_, err = charge(message.NewMessage("2", []byte(`{}`)))
	fmt.Println(err)
	// Output:
	// charging under order:42
	// <nil>
	// guard: invalid lock key: placeholder {order_id}: missing or empty: the message is given up
}

// A table has a lock for each handler. The poison queue gets messages that will never have a key.
func ExampleAnnotate() {
	g := newGuard()
	defer g.Close()
	router := message.NewDefaultRouter(nil)
	pubsub := gochannel.NewGoChannel(gochannel.Config{}, nil)

	poison, err := middleware.PoisonQueueWithFilter(pubsub, "poison", guardwatermill.GivenUp)
	if err != nil {
		panic(err)
	}
	router.AddMiddleware(poison, guardwatermill.Annotate(g, guardwatermill.Handlers{
		"charge_order": guardwatermill.Lock("order:{order_id}"),
		"export":       guardwatermill.Lock("export:{header:tenant}", guard.Limit(3)),
	}))
	router.AddConsumerHandler("charge_order", "orders.placed", pubsub, func(*message.Message) error { return nil })
}

// A row that no handler has would lock nothing, so a program checks before it runs the router.
func ExampleCheck() {
	router := message.NewDefaultRouter(nil)
	pubsub := gochannel.NewGoChannel(gochannel.Config{}, nil)
	router.AddConsumerHandler("charge_order", "orders.placed", pubsub, func(*message.Message) error { return nil })
	fmt.Println(guardwatermill.Check(router, guardwatermill.Handlers{"charge_orders": guardwatermill.Lock("order:{order_id}")}))
	// Output: guardwatermill: row "charge_orders": the router has no handler of this name
}

// A message that is delivered again charges nothing. The messages of its handler are published again.
func ExampleRule_Once() {
	g := newGuard()
	defer g.Close()

	charge := guardwatermill.Middleware(g, guardwatermill.Lock("charge:{order_id}").Once(7*24*time.Hour))(
		func(*message.Message) ([]*message.Message, error) {
			fmt.Println("charged")
			return []*message.Message{message.NewMessage("paid-42", []byte(`{"order_id":42}`))}, nil
		})

	// A router would do this.
	deliver := func(payload string) ([]*message.Message, error) {
		return charge(message.NewMessage("1", []byte(payload)))
	}
	for range 2 {
		published, err := deliver(`{"order_id":42,"amount":10}`)
		fmt.Println(published[0].UUID, err)
	}
	_, err := deliver(`{"order_id":42,"amount":99}`)
	fmt.Println(errors.Is(err, guard.ErrOtherInput))
	// Output:
	// charged
	// paid-42 <nil>
	// paid-42 <nil>
	// true
}

// The test in docs/guides/watermill.md.
func TestGuide_ABusyMessage(t *testing.T) {
	handler := func(*message.Message) ([]*message.Message, error) { return nil, nil }
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.NewMemoryGuard(t)
		lease, err := g.Acquire(t.Context(), guard.Key("order:42")) // another message has it
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release(t.Context())
		charge := guardwatermill.Middleware(g, guardwatermill.Lock("order:{order_id}"))(handler)
		_, err = charge(message.NewMessage("1", []byte(`{"order_id":42}`))) // waits 20 s of the bubble
		if !errors.Is(err, guard.ErrBusy) {
			t.Errorf("got %v, want a busy lock", err)
		}
	})
}

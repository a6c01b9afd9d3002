package guardwatermill_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/redlatch/redlatch/guard"
	guardwatermill "github.com/redlatch/redlatch/middleware/watermill"
)

// A message that is delivered again charges nothing. What its handler returned is published again.
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

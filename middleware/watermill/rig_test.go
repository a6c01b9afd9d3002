package guardwatermill_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/middleware/internal/tasktest"
	guardwatermill "github.com/redlatch/redlatch/middleware/watermill"
)

// queue is a stream on a real Redis, with a group of consumers.
type queue struct {
	topic     string
	publisher message.Publisher

	mu     sync.Mutex
	states map[string]tasktest.State // by the UUIDs of messages
}

func newQueue(t *testing.T) *queue {
	t.Helper()
	publisher, err := redisstream.NewPublisher(redisstream.PublisherConfig{Client: redistest.Shared(t).Client(t)}, nil)
	require.NoError(t, err)
	return &queue{topic: "topic:" + t.Name(), publisher: publisher, states: map[string]tasktest.State{}}
}

// start runs a router with one handler until the test ends.
func (q *queue) start(t *testing.T, handler message.NoPublishHandlerFunc, locks ...message.HandlerMiddleware) *message.Router {
	t.Helper()
	subscriber, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
		Client: redistest.Shared(t).Client(t), ConsumerGroup: "workers", DisableIndefiniteInitialBlock: true,
	}, nil)
	require.NoError(t, err)
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	require.NoError(t, err)
	router.AddMiddleware(locks...)
	router.AddConsumerHandler("charge_order", q.topic, subscriber, handler)
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.WithoutCancel(t.Context())) }()
	<-router.Running()
	t.Cleanup(func() {
		assert.NoError(t, router.Close())
		assert.NoError(t, <-ended)
	})
	return router
}

func (q *queue) add(t *testing.T, payload string, metadata message.Metadata) *message.Message {
	t.Helper()
	msg := message.NewMessage(watermill.NewUUID(), []byte(payload))
	msg.Metadata = metadata
	require.NoError(t, q.publisher.Publish(q.topic, msg))
	return msg
}

// outcome notes how messages ended, before the router sends an Ack or a Nack.
func (q *queue) outcome(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		produced, err := next(msg)
		if err == nil {
			poisoned := msg.Metadata.Get(middleware.ReasonForPoisonedKey) != ""
			q.mu.Lock()
			defer q.mu.Unlock()
			q.states[msg.UUID] = tasktest.State{Done: !poisoned, GivenUp: poisoned}
		}
		return produced, err
	}
}

// Serve implements tasktest.Queue.
func (q *queue) Serve(t *testing.T, s tasktest.Setup) {
	poison, err := middleware.PoisonQueueWithFilter(q.publisher, q.topic+":poison", guardwatermill.GivenUp)
	require.NoError(t, err)
	seen := func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			produced, err := next(msg)
			s.Seen(err)
			return produced, err
		}
	}
	q.start(t, func(msg *message.Message) error { return s.Work(msg.Context()) },
		q.outcome, poison, seen, guardwatermill.Middleware(s.Guard, s.Rule))
}

// Add implements tasktest.Queue.
func (q *queue) Add(t *testing.T, payload, header, value string) func() tasktest.State {
	msg := q.add(t, payload, message.Metadata{header: value})
	return func() tasktest.State {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.states[msg.UUID]
	}
}

func TestTasks(t *testing.T) {
	t.Parallel()
	tasktest.Suite(t, func(t *testing.T) tasktest.Queue { return newQueue(t) })
}

// Streams stay in Redis.
func TestMain(m *testing.M) {
	os.Exit(tasktest.Main(m, func(m *testing.M) int { return redistest.Run(m, "topic:") }))
}

package guardwatermill_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/internal/redistest"
	guardwatermill "github.com/redlatch/redlatch/middleware/watermill"
)

func TestLive_Placeholders(t *testing.T) {
	t.Parallel()
	q, keys := newQueue(t), make(chan string, 1)
	q.start(t, func(msg *message.Message) error {
		lease, _ := guard.FromContext(msg.Context())
		keys <- lease.Key()
		return nil
	}, nil, guardwatermill.Middleware(guardtest.NewGuard(t), guardwatermill.Lock("{metadata:tenant}:{message:topic}:{message:uuid}")))
	msg := q.add(t, "", message.Metadata{"tenant": "acme"})
	assert.Equal(t, guard.JoinKey("acme", q.topic, msg.UUID), <-keys)
}

// What its lock's holder does anyway is acknowledged.
func TestLive_SkipRunAcknowledges(t *testing.T) {
	t.Parallel()
	g, q := guardtest.NewGuard(t), newQueue(t)
	lease, err := g.Acquire(t.Context(), guard.Key("report"))
	require.NoError(t, err)
	rule := guardwatermill.Lock("report", guard.NoWait()).BusyStrategy(guardwatermill.SkipRun)
	q.start(t, func(*message.Message) error { panic("ran") }, nil, q.outcome, guardwatermill.Middleware(g, rule))
	msg := q.add(t, "", nil)
	require.Eventually(t, func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.states[msg.UUID].Done
	}, patience, time.Millisecond)
	require.Eventually(t, func() bool { return q.unacknowledged(t) == 0 }, patience, 10*time.Millisecond)
	assert.NoError(t, lease.Release(context.Background()))
}

// waits tells when a message begins to wait for its lock.
type waits struct {
	guard.NopObserver
	begun chan struct{}
}

func (w waits) WaitStart(ctx context.Context, _ guard.Lock) context.Context {
	w.begun <- struct{}{}
	return ctx
}

// Redisstream gives a message to another consumer while the first still works on it.
func TestLive_MessageThatIsHandedOverIsNotHandledBesideItself(t *testing.T) {
	t.Parallel()
	q, waiting := newQueue(t), waits{begun: make(chan struct{}, 100)}
	var inside atomic.Bool
	var runs atomic.Int64
	handler := func(*message.Message) error {
		assert.True(t, inside.CompareAndSwap(false, true), "beside itself")
		defer inside.Store(false)
		if runs.Add(1) == 1 {
			<-waiting.begun // of this consumer
			<-waiting.begun // of the other one
		}
		return nil
	}
	for range 2 {
		g, err := guard.New(redistest.Shared(t).Client(t), guard.Prefix(t.Name()), guard.Observe(waiting))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, g.Close()) })
		q.start(t, handler, func(cfg *redisstream.SubscriberConfig) {
			cfg.MaxIdleTime, cfg.ClaimInterval = 500*time.Millisecond, 100*time.Millisecond
		}, guardwatermill.Middleware(g, guardwatermill.Lock("order:{order_id}")))
	}
	q.add(t, `{"order_id":7}`, nil)
	require.Eventually(t, func() bool { return runs.Load() > 0 && q.unacknowledged(t) == 0 }, patience, 10*time.Millisecond)
}

// Messages are locked by the row of their handler.
func TestLive_Annotate(t *testing.T) {
	t.Parallel()
	q, names := newQueue(t), make(chan string, 1)
	table := guardwatermill.Handlers{"charge_order": guardwatermill.Lock("order:{order_id}"), "refund": guardwatermill.Lock("refund")}
	recorder := &guardtest.Recorder{}
	router := q.start(t, func(msg *message.Message) error {
		_, ok := guard.Held(msg.Context(), "order:7")
		assert.True(t, ok)
		names <- recorder.Observations("WaitStart")[0].Lock.Name
		return nil
	}, nil, guardwatermill.Annotate(guardtest.NewGuard(t, guard.Observe(recorder)), table))
	assert.EqualError(t, guardwatermill.Check(router, table), `guardwatermill: row "refund": the router has no handler of this name`)
	delete(table, "refund")
	assert.NoError(t, guardwatermill.Check(router, table))
	q.add(t, `{"order_id":7}`, nil)
	assert.Equal(t, "charge_order", <-names)
}

package guardwatermill_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/middleware/internal/tasktest"
	guardwatermill "github.com/redlatch/redlatch/middleware/watermill"
)

var errOwn = errors.New("own")

func order7(t *testing.T) *message.Message {
	return message.NewMessageWithContext(t.Context(), "1", []byte(`{"order_id":7}`))
}

func orders(opts ...guard.LockOption) guardwatermill.Rule {
	return guardwatermill.Lock("order:{order_id}", opts...)
}

func never(*message.Message) ([]*message.Message, error) { panic("ran") }

// Messages that a handler made under a lost lock are not published.
func TestMiddleware_MessagesOfAHandlerThatLostItsLockAreDropped(t *testing.T) {
	t.Parallel()
	g := guardtest.NewMemoryGuard(t)
	produced, err := guardwatermill.Middleware(g, orders())(func(msg *message.Message) ([]*message.Message, error) {
		guardtest.Lose(t, g, guard.Key("order:7"))
		<-msg.Context().Done()
		return []*message.Message{msg}, nil
	})(order7(t))
	assert.ErrorIs(t, err, guard.ErrLost)
	assert.Empty(t, produced)
}

func TestMiddleware_TheHandlersResultAndTheMessageAreUntouched(t *testing.T) {
	t.Parallel()
	msg, made := order7(t), []*message.Message{order7(t)}
	before := msg.Context()
	for _, own := range []error{nil, errOwn} {
		produced, err := guardwatermill.Middleware(guardtest.NewMemoryGuard(t), orders())(func(*message.Message) ([]*message.Message, error) {
			return made, own
		})(msg)
		assert.Equal(t, made, produced)
		assert.Equal(t, own, err)
		assert.Equal(t, before, msg.Context(), "the lease's has ended")
	}
}

// Watermill publishes after the record is written, and delivers again if that fails. Package cqrs has messages of
// several types, told apart by their name, in one handler.
func TestOnce_MessagesOfTheHandlerArePublishedAgain(t *testing.T) {
	t.Parallel()
	handle := guardwatermill.Middleware(guardtest.NewMemoryGuard(t), orders().Once(time.Hour))
	made := message.NewMessage("2", []byte("paid\xff"))
	made.Metadata.Set("tenant", "acme")
	produced, err := handle(func(*message.Message) ([]*message.Message, error) { return []*message.Message{made}, nil })(order7(t))
	require.NoError(t, err)
	assert.Equal(t, []*message.Message{made}, produced)
	for range 2 {
		produced, err = handle(never)(order7(t))
		require.NoError(t, err)
		require.Len(t, produced, 1)
		assert.True(t, made.Equals(produced[0]))
		assert.NoError(t, produced[0].Context().Err())
	}
	named := order7(t)
	named.Metadata.Set("name", "OrderShipped")
	_, err = handle(never)(named)
	assert.ErrorIs(t, err, guard.ErrOtherInput)
}

// A message is not acknowledged for a record that cannot be read.
func TestOnce_UnreadableRecordIsAnError(t *testing.T) {
	t.Parallel()
	g, msg := guardtest.NewMemoryGuard(t), order7(t)
	written := guard.Encoding(func(any) ([]byte, error) { return []byte("?"), nil }, func([]byte, any) error { return nil })
	_, _, err := guard.Once(t.Context(), g, guard.Key("order:7"), time.Hour, func(context.Context) (int, error) { return 0, nil },
		guard.Fingerprint(nil, msg.Payload), written)
	require.NoError(t, err)
	_, err = guardwatermill.Middleware(g, orders().Once(time.Hour))(never)(msg)
	assert.ErrorContains(t, err, "invalid character '?'")
}

// A key function's own error is no error that passes: nothing is gained by a wait.
func TestMiddleware_ErrorOfAKeyFunctionIsReturnedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key := func(context.Context, guardwatermill.Task) (string, error) { return "", errOwn }
		start := time.Now()
		_, err := guardwatermill.Middleware(guardtest.NewMemoryGuard(t), guardwatermill.LockFunc(key))(never)(order7(t))
		assert.ErrorIs(t, err, errOwn)
		assert.Zero(t, time.Since(start))
	})
}

// A handler may take locks in its code.
func TestGivenUp_KnowsErrorsThatStay(t *testing.T) {
	t.Parallel()
	for _, err := range []error{&guard.KeyError{}, &guard.OnceError{Err: guard.ErrOtherInput}} {
		assert.True(t, guardwatermill.GivenUp(err), err)
	}
	for _, err := range []error{nil, errOwn, &guard.BusyError{}, &guard.StoreError{Err: errOwn}} {
		assert.False(t, guardwatermill.GivenUp(err), err)
	}
}

// A subscriber may deliver a message again at once: errors that pass take at least a second.
func TestMiddleware_ErrorsThatPassTakeASecond(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		opts   []guard.LockOption
		onBusy guardwatermill.Strategy
		closed bool
		ends   time.Duration // of the message; 0 for never
		want   time.Duration
	}{
		"busy, waited for by default": {want: 20 * time.Second},
		"busy":                        {opts: []guard.LockOption{guard.NoWait()}, want: time.Second},
		"closed":                      {closed: true, want: time.Second},
		"given up":                    {opts: []guard.LockOption{guard.NoWait()}, onBusy: guardwatermill.GiveUp, want: 0},
		"the message ends":            {opts: []guard.LockOption{guard.NoWait()}, ends: 100 * time.Millisecond, want: 100 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, err := guardtest.NewMemoryGuard(t), guard.ErrBusy
			if row.closed {
				require.NoError(t, g.Close())
				err = guard.ErrClosed
			} else {
				defer tasktest.Hold(t, g)()
			}
			msg := order7(t)
			if row.ends > 0 {
				ctx, cancel := context.WithTimeout(t.Context(), row.ends)
				defer cancel()
				msg.SetContext(ctx)
			}
			start := time.Now()
			_, got := guardwatermill.Middleware(g, orders(row.opts...).OnBusy(row.onBusy))(never)(msg)
			assert.ErrorIs(t, got, err, name)
			assert.Equal(t, row.onBusy == guardwatermill.GiveUp, guardwatermill.GivenUp(got), name)
			assert.Equal(t, row.want, time.Since(start), name)
		})
	}
}

func TestLive_RowsLockTheMessagesOfTheirHandlers(t *testing.T) {
	t.Parallel()
	q, got, recorder := newQueue(t), make(chan string, 1), &guardtest.Recorder{}
	table := guardwatermill.Handlers{"charge_order": guardwatermill.Lock("{header:tenant}:{task:queue}:{task:id}"), "refund": orders()}
	router := q.start(t, func(msg *message.Message) error {
		lease, _ := guard.FromContext(msg.Context())
		got <- recorder.Observations("WaitStart")[0].Lock.Name + " " + lease.Key()
		return nil
	}, guardwatermill.Annotate(guardtest.NewMemoryGuard(t, guard.Observe(recorder)), table))
	assert.EqualError(t, guardwatermill.Check(router, table), `guardwatermill: row "refund": the router has no handler of this name`)
	msg := q.add(t, "", message.Metadata{"tenant": "acme"})
	assert.Equal(t, "charge_order "+guard.JoinKey("acme", q.topic, msg.UUID), <-got)

	before := msg.Context()
	_, err := guardwatermill.Annotate(nil, table)(func(msg *message.Message) ([]*message.Message, error) {
		assert.Equal(t, before, msg.Context(), "without a row it is untouched")
		return nil, errOwn
	})(msg)
	assert.Same(t, errOwn, err)
}

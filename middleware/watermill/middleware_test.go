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

func hold(t *testing.T, g *guard.Guard) (release func()) {
	t.Helper()
	lease, err := g.Acquire(context.Background(), guard.Key("order:7"))
	require.NoError(t, err)
	return func() { assert.NoError(t, lease.Release(context.Background())) }
}

func TestMiddleware_WaitsForTwentySeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.NewGuard(t)
		defer hold(t, g)()
		start := time.Now()
		_, err := guardwatermill.Middleware(g, orders())(never)(order7(t))
		assert.ErrorIs(t, err, guard.ErrBusy)
		assert.InDelta(t, 20*time.Second, time.Since(start), float64(10*time.Millisecond))
	})
}

// A subscriber may deliver at once what was not acknowledged.
func TestMiddleware_NoErrorThatPassesComesSoonerThanASecond(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		fail func(*testing.T, *guard.Guard) (end func())
		err  error
	}{
		"busy":   {hold, guard.ErrBusy},
		"closed": {func(t *testing.T, g *guard.Guard) func() { assert.NoError(t, g.Close()); return func() {} }, guard.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := guardtest.NewGuard(t)
				defer row.fail(t, g)()
				start := time.Now()
				_, err := guardwatermill.Middleware(g, orders(guard.NoWait()))(never)(order7(t))
				assert.ErrorIs(t, err, row.err)
				assert.Equal(t, time.Second, time.Since(start))
			})
		})
	}
}

func TestMiddleware_ThePauseEndsWithTheMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.NewGuard(t)
		defer hold(t, g)()
		msg := order7(t)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		msg.SetContext(ctx)
		start := time.Now()
		_, err := guardwatermill.Middleware(g, orders(guard.NoWait()))(never)(msg)
		assert.ErrorIs(t, err, guard.ErrBusy)
		assert.Equal(t, 100*time.Millisecond, time.Since(start))
	})
}

// A poison queue has it at once.
func TestMiddleware_MessageWithoutAKeyIsNotHeldBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		for template, want := range map[string]string{
			"{nope}":            "placeholder {nope}: missing or empty",
			"{metadata:Tenant}": "placeholder {metadata:Tenant}: missing or empty",
			"{message:topic}":   "the context is not that of a message from a router",
		} {
			msg := order7(t)
			msg.Metadata.Set("tenant", "acme")
			_, err := guardwatermill.Middleware(guardtest.NewGuard(t), guardwatermill.Lock(template))(never)(msg)
			assert.ErrorIs(t, err, guard.ErrKey)
			assert.ErrorContains(t, err, want)
		}
		assert.Zero(t, time.Since(start))
	})
}

// What a handler made under a lost lock is not published.
func TestMiddleware_MessagesOfAHandlerThatLostItsLockAreDropped(t *testing.T) {
	t.Parallel()
	for _, own := range []error{nil, errOwn} {
		store := guardtest.NewStore()
		g, err := guard.NewWithStore(store, guard.TTL(guard.MinTTL))
		require.NoError(t, err)
		produced, err := guardwatermill.Middleware(g, orders())(func(msg *message.Message) ([]*message.Message, error) {
			store.Drop("order:7")
			<-msg.Context().Done()
			var lost *guard.LostError
			assert.ErrorAs(t, context.Cause(msg.Context()), &lost)
			return []*message.Message{msg}, own
		})(order7(t))
		if own == nil {
			assert.ErrorIs(t, err, guard.ErrLost)
			assert.Empty(t, produced)
		} else {
			assert.Same(t, own, err)
		}
		require.NoError(t, g.Close())
	}
}

func TestMiddleware_TheHandlersResultAndTheMessageAreUntouched(t *testing.T) {
	t.Parallel()
	msg, made := order7(t), order7(t)
	before := msg.Context()
	for _, own := range []error{nil, errOwn} {
		produced, err := guardwatermill.Middleware(guardtest.NewGuard(t), orders())(func(msg *message.Message) ([]*message.Message, error) {
			_, ok := guard.Held(msg.Context(), "order:7")
			assert.True(t, ok)
			return []*message.Message{made}, own
		})(msg)
		assert.Equal(t, []*message.Message{made}, produced)
		assert.Equal(t, own, err)
		assert.Equal(t, before, msg.Context(), "the lease's is over")
	}
}

func TestMiddleware_MessagesWithoutARowAreUntouched(t *testing.T) {
	t.Parallel()
	msg := order7(t)
	before := msg.Context()
	_, err := guardwatermill.Annotate(guardtest.NewGuard(t), guardwatermill.Handlers{"other": orders()})(
		func(msg *message.Message) ([]*message.Message, error) {
			assert.Equal(t, before, msg.Context())
			return nil, errOwn
		})(msg)
	assert.Same(t, errOwn, err)
}

func TestMiddleware_MisuseIsRefused(t *testing.T) {
	t.Parallel()
	for want, rule := range map[string]guardwatermill.Rule{
		"no KeyFunc":                               guardwatermill.LockFunc(nil).Skip(nil).OnError(nil),
		"guard: Wait -1ns is negative":             orders(guard.Wait(-1)),
		"BusyStrategy 2 is none of Retry, SkipRun": orders().BusyStrategy(2),
	} {
		assert.PanicsWithValue(t, "guardwatermill: "+want, func() { guardwatermill.Middleware(nil, rule) })
		assert.PanicsWithValue(t, `guardwatermill: row "h": `+want, func() { guardwatermill.Annotate(nil, guardwatermill.Handlers{"h": rule}) })
	}
	assert.PanicsWithValue(t, `guardwatermill: row " ": it is blank`, func() { guardwatermill.Annotate(nil, guardwatermill.Handlers{" ": orders()}) })
	for template, want := range map[string]string{
		"{message:id}": `column 2: "id" is none of uuid, topic`,
		"{header:x}":   `column 2: no placeholder is of the kind "header"`,
	} {
		assert.PanicsWithValue(t, "guardwatermill: key template "+`"`+template+`": `+want, func() { guardwatermill.Lock(template) })
	}
}

// Watermill publishes after the record is written, and delivers again if that fails.
func TestOnce_WhatTheHandlerReturnedIsPublishedAgain(t *testing.T) {
	t.Parallel()
	handle := guardwatermill.Middleware(guardtest.NewGuard(t), orders().Once(time.Hour))
	made := message.NewMessage("2", []byte("paid\xff"))
	made.Metadata.Set("tenant", "acme")
	produced, err := handle(func(*message.Message) ([]*message.Message, error) { return []*message.Message{made}, nil })(order7(t))
	require.NoError(t, err)
	assert.Equal(t, []*message.Message{made}, produced)
	for range 2 {
		produced, err = handle(never)(order7(t))
		require.NoError(t, err)
		if assert.Len(t, produced, 1) {
			assert.True(t, made.Equals(produced[0]))
			assert.NoError(t, produced[0].Context().Err())
		}
	}
}

func TestOnce_WhatIsTooLargeToBeKeptIsNoSuccess(t *testing.T) {
	t.Parallel()
	handle := guardwatermill.Middleware(guardtest.NewGuard(t), orders().Once(time.Hour, guard.MaxResult(100)))
	made := message.NewMessage("2", make([]byte, 100))
	produced, err := handle(func(*message.Message) ([]*message.Message, error) { return []*message.Message{made}, nil })(order7(t))
	require.NoError(t, err)
	assert.Equal(t, []*message.Message{made}, produced)
	produced, err = handle(never)(order7(t))
	assert.ErrorIs(t, err, guard.ErrNotKept)
	assert.Empty(t, produced)
}

// Package cqrs has messages of several types in one handler.
func TestOnce_AnotherNameOfTheSamePayloadIsRefused(t *testing.T) {
	t.Parallel()
	handle := guardwatermill.Middleware(guardtest.NewGuard(t), orders().Once(time.Hour))
	runs := 0
	work := handle(func(*message.Message) ([]*message.Message, error) { runs++; return nil, nil })
	for _, row := range []struct {
		name string
		err  error
	}{{"OrderPaid", nil}, {"OrderShipped", guard.ErrOtherInput}, {"OrderPaid", nil}} {
		msg := order7(t)
		msg.Metadata.Set("name", row.name)
		produced, err := work(msg)
		assert.ErrorIs(t, err, row.err)
		assert.Empty(t, produced)
	}
	assert.Equal(t, 1, runs)
}

func TestOnce_MisuseIsRefused(t *testing.T) {
	t.Parallel()
	for want, rule := range map[string]guardwatermill.Rule{
		"guard: keep -1ns is outside 1ms to 8784h0m0s": orders().Once(-1),
		"Once needs one key, And adds others":          orders().Once(time.Hour).And("stock"),
	} {
		assert.PanicsWithValue(t, "guardwatermill: "+want, func() { guardwatermill.Middleware(nil, rule) })
	}
}

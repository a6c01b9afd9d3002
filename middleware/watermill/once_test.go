package guardwatermill_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardwatermill "github.com/redlatch/redlatch/middleware/watermill"
)

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

package guardasynq_test

import (
	"encoding/json"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

// What a handler reads into a struct is what is locked.
func TestKeysAreReadAsAHandlerReadsThem(t *testing.T) {
	t.Parallel()
	key := guardasynq.Key("{order_id}:{customer.task}")
	for payload, want := range map[string]string{
		`{"order_id":"7","customer":{"task":"8"}}`:                          "7:8",
		`{"ORDER_ID":"7","Customer":{"Task":"8"}}`:                          "7:8",
		`{"order\u005fid":"7","customer":{"ta\u017fk":"8"}}`:                "7:8", // the long s
		`{"order_id":"7","customer":{"tas` + "\u212a" + `":"8"}}`:           "7:8", // the sign for Kelvin
		`{"order_id":"7","orderid":"9","customer":{"task":"8"},"task":"9"}`: "7:8",
	} {
		var read struct {
			OrderID  string `json:"order_id"`
			Customer struct {
				Task string `json:"task"`
			} `json:"customer"`
		}
		require.NoError(t, json.Unmarshal([]byte(payload), &read), payload)
		require.Equal(t, want, guard.JoinKey(read.OrderID, read.Customer.Task), payload)
		got, err := key(t.Context(), asynq.NewTask("t", []byte(payload)))
		assert.NoError(t, err, payload)
		assert.Equal(t, want, got, payload)
	}
}

// A payload with two names that a handler takes for one must not lock the one and have the
// other worked on.
func TestFieldsThatAreThereTwiceAreRefused(t *testing.T) {
	t.Parallel()
	key := guardasynq.Key("{order_id}:{customer.task}")
	for _, payload := range []string{
		`{"order_id":"7","ORDER_ID":"9","customer":{"task":"8"}}`,
		`{"ORDER_ID":"7","order_id":"9","customer":{"task":"8"}}`,
		`{"order_id":"7","order_id":"7","customer":{"task":"8"}}`,
		`{"order_id":"7","order_id":null,"customer":{"task":"8"}}`,
		`{"order_id":"7","order\u005fid":"9","customer":{"task":"8"}}`,
		`{"order_id":"7","customer":{"task":"8","TASK":"9"}}`,
		`{"order_id":"7","customer":{"task":"8","ta\u017fk":"9"}}`,
		`{"order_id":"7","customer":{"task":"8"},"Customer":{}}`,
		`{"order_id":"7","customer":{"task":"8"},"customer":{"task":"9"}}`,
	} {
		_, err := key(t.Context(), asynq.NewTask("t", []byte(payload)))
		assert.ErrorContains(t, err, "there twice", payload)
		assert.ErrorIs(t, err, guard.ErrKey, payload)
		assert.ErrorIs(t, err, asynq.SkipRetry, payload)
	}
	// What is no part of the key may be there as often as it likes.
	got, err := key(t.Context(), asynq.NewTask("t", []byte(`{"x":1,"X":2,"order_id":"7","customer":{"y":1,"Y":1,"task":"8"}}`)))
	assert.NoError(t, err)
	assert.Equal(t, "7:8", got)
}

package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// The keys were computed apart from this code: processes of all versions must agree on them.
func TestStripe_StripesAreTheSameEverywhere(t *testing.T) {
	for want, row := range map[string]struct {
		n   int
		key string
	}{
		"stripe:16:2":        {16, "account:2"},
		"stripe:1:0":         {1, "x"},
		"stripe:65536:47815": {65536, "order:42"},
		"stripe:7:1":         {7, ""},
	} {
		assert.Equal(t, want, guard.StripeKey(row.n, row.key))
		if row.key == "" {
			continue
		}
		key, err := guard.Stripe(row.n, guard.Key(row.key))(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, key)
	}
}

func TestStripe_WhatIsNoStripe(t *testing.T) {
	boom := errors.New("boom")
	failing := func(context.Context) (string, error) { return "", boom }
	for name, row := range map[string]struct {
		n     int
		key   guard.KeyFunc
		names string
	}{
		"none":         {0, guard.Key("a"), "0 stripes, which is outside 1 to 65536"},
		"negative":     {-1, guard.Key("a"), "-1 stripes, which is outside 1 to 65536"},
		"too many":     {65537, guard.Key("a"), "65537 stripes, which is outside 1 to 65536"},
		"nil function": {16, nil, "no key function"},
		"empty key":    {16, guard.Key(""), "empty"},
		"long key":     {16, guard.Key(strings.Repeat("k", 513)), "513 bytes"},
		"failed":       {16, failing, "boom"},
	} {
		_, err := guard.Stripe(row.n, row.key)(t.Context())
		require.ErrorIs(t, err, guard.ErrKey, name)
		require.ErrorContains(t, err, row.names, name)
		err = guardtest.NewGuard(t).WithLock(t.Context(), guard.Stripe(row.n, row.key), testenv.Nothing)
		require.ErrorIs(t, err, guard.ErrKey, name)
		require.ErrorContains(t, err, row.names, name)
	}
	for _, n := range []int{0, -1, 65537} {
		assert.PanicsWithValue(t, fmt.Sprintf("guard: %d stripes, which is outside 1 to 65536", n), func() { guard.StripeKey(n, "a") })
	}
}

func TestStripe_TwoIdsOfOneStripeAreOneLock(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		same := []guard.KeyFunc{guard.Stripe(16, guard.Key("account:1")), guard.Stripe(16, guard.Key("account:2"))}
		require.NoError(t, g.WithLocks(t.Context(), same, func(context.Context) error {
			assert.Equal(t, 1, s.Depth("stripe:16:2"))
			return nil
		}))
		assert.Len(t, r.Observations("HoldStart"), 1)
	})
}

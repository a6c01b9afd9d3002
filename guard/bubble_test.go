package guard_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/guard/quorum"
)

// says checks that an error tells what to do.
func says(t *testing.T, err error, text string) {
	t.Helper()
	require.ErrorIs(t, err, guard.ErrOption)
	assert.ErrorContains(t, err, text)
}

// A Guard that is used on the other side of a bubble's wall would hang.
func TestBubble_AGuardStaysOnItsSideOfTheWall(t *testing.T) {
	outside := guardtest.NewGuard(t)
	var inside *guard.Guard
	run := func(t *testing.T, g *guard.Guard, text string) {
		t.Helper()
		says(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.FailOpen()), text)
		_, err := g.Acquire(t.Context(), testenv.Order)
		says(t, err, text)
		says(t, g.Shutdown(t.Context()), text)
		says(t, g.Close(), text)
	}
	synctest.Test(t, func(t *testing.T) {
		inside = guardtest.NewGuard(t)
		require.NoError(t, inside.WithLock(t.Context(), testenv.Order, testenv.Nothing))
		run(t, outside, "make it inside")
	})
	run(t, inside, "close it inside")
	require.NoError(t, outside.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error { return ctx.Err() }))
}

func TestBubble_ARealClientDoesNotWorkInABubble(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	synctest.Test(t, func(t *testing.T) {
		_, err := guard.New(client)
		says(t, err, "guardtest.NewGuard")
		_, err = quorum.New([]redis.UniversalClient{client, client, client})
		says(t, err, "guardtest.NewGuard")
	})
}

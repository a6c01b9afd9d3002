package inspect_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/inspect"
)

// Tests of programs look at locks on the embedded Redis, too.
func TestEmbedded_Redis(t *testing.T) {
	t.Parallel()
	server, err := guardtest.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	g, err := guard.New(server.Client())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	lease, err := g.Acquire(t.Context(), guard.Key("k"))
	require.NoError(t, err)

	i := inspect.New(server.Client())
	info, err := i.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Len(t, info.Holders, 1)
	assert.Equal(t, lease.Fence(), info.Holders[0].Fence)
	n := 0
	for _, err := range i.All(t.Context(), "") {
		require.NoError(t, err)
		n++
	}
	assert.Equal(t, 1, n)
	there, err := i.Revoke(t.Context(), "k", lease.Fence())
	require.NoError(t, err)
	assert.True(t, there)
	<-lease.Context().Done()
	require.ErrorIs(t, context.Cause(lease.Context()), guard.ErrRevoked)
	require.ErrorIs(t, lease.Release(t.Context()), guard.ErrLost)
}

// Each lock is asked for again where the server knows no read-only scripts, as before Redis 7.
func TestEmbedded_SeveralLocksWithoutReadOnlyScripts(t *testing.T) {
	t.Parallel()
	server, err := guardtest.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	g, err := guard.New(server.Client())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	for _, key := range []string{"a", "b", "c"} {
		lease, err := g.Acquire(t.Context(), guard.Key(key))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, lease.Release(context.Background())) })
	}
	n := 0
	for _, err := range inspect.New(server.Client()).All(t.Context(), "") {
		require.NoError(t, err)
		n++
	}
	assert.Equal(t, 3, n)
}

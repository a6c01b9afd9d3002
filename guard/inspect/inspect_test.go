package inspect_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

func TestGetShowsHolderAndQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	a, err := guard.New(rdb)
	require.NoError(t, err)
	defer a.Close()
	i := inspect.New(rdb)
	info, err := i.Get(t.Context(), "k")
	require.NoError(t, err)
	assert.Empty(t, info.Holders)

	before := time.Now()
	l, err := a.Acquire(t.Context(), guard.Key("k"), guard.Metadata("me"))
	require.NoError(t, err)
	defer l.Release(context.WithoutCancel(t.Context()))
	info, err = i.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Len(t, info.Holders, 1)
	h := info.Holders[0]
	assert.Equal(t, l.Fence(), h.Fence)
	assert.Equal(t, "me", h.Metadata)
	assert.WithinDuration(t, before, h.Since, time.Second)
	assert.NotContains(t, info.Holders, l.Owner())
	t.Log(info)
	n := 0
	for info, err := range i.All(t.Context(), "") {
		require.NoError(t, err)
		assert.Equal(t, "k", info.Key)
		n++
	}
	assert.Equal(t, 1, n)
	ok, err := i.Revoke(t.Context(), "k", h.Fence+1)
	require.NoError(t, err)
	assert.False(t, ok)
	ok, err = i.Revoke(t.Context(), "k", h.Fence)
	require.NoError(t, err)
	assert.True(t, ok)
	ok, err = i.Break(t.Context(), "k", h.Fence)
	require.NoError(t, err)
	assert.True(t, ok)
}

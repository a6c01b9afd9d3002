package main

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFirst_OneOfThreeRequestsPays(t *testing.T) {
	g, err := guard.New(guardtest.NewRedis(t))
	require.NoError(t, err)
	defer g.Close()

	answers := make([]string, 3)
	var requests sync.WaitGroup
	for i := range answers {
		requests.Go(func() { answers[i] = pay(t.Context(), g, "1") })
	}
	requests.Wait()
	assert.ElementsMatch(t, []string{"paid", "already paid", "already paid"}, answers)
}

func TestFirst_BusyAndLost(t *testing.T) {
	rdb := guardtest.NewRedis(t)
	g, err := guard.New(rdb)
	require.NoError(t, err)
	defer g.Close()
	other, err := guard.New(rdb)
	require.NoError(t, err)
	defer other.Close()

	lease, err := other.Acquire(t.Context(), guard.Keyf("charge:%s", "2"))
	require.NoError(t, err)
	assert.Contains(t, pay(t.Context(), g, "2"), "busy")
	require.NoError(t, lease.Release(t.Context()))
	assert.Equal(t, "paid", pay(t.Context(), g, "2"))
}

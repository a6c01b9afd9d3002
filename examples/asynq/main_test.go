package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

// Each order is charged one at a time, and the program leaves the Redis as it was.
func TestTasks_EachOrderIsChargedOneAtATime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var out bytes.Buffer
	require.NoError(t, run(server.URL(), &out))
	for order := range 3 {
		for charge := range 4 {
			line := fmt.Sprintf("order:charge under order:%d: run %d\n", order, charge+1)
			assert.Equal(t, 1, strings.Count(out.String(), line), "%s of\n%s", line, &out)
		}
	}
	built := strings.Count(out.String(), "order:report under report:3: run ")
	skipped := strings.Count(out.String(), "order:report skipped: ")
	assert.Positive(t, built)
	assert.Equal(t, 4, built+skipped)
	keys, err := server.Client(t).Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		ttl, err := server.Client(t).PTTL(t.Context(), key).Result()
		require.NoError(t, err)
		assert.Positive(t, ttl, key)
	}
}

func TestTasks_BadURLKeepsItsPassword(t *testing.T) {
	t.Parallel()
	err := run("redis://:secret@local host", new(bytes.Buffer))
	assert.EqualError(t, err, "REDIS_URL is not the URL of a Redis")
}

//go:build unix

package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/postgrestest"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) {
	if isWorker() {
		os.Exit(work(os.Stdin, os.Stdout))
	}
	os.Exit(redistest.Run(m))
}

// Comparing the token only when a process writes loses a sale in one order of the writes.
func TestFencing_TheDatabaseRefusesAStoppedHolder(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(t *testing.T) string{
		"SQLite":     func(t *testing.T) string { return sqliteURL(t.TempDir()) },
		"PostgreSQL": func(t *testing.T) string { return postgrestest.Start(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databaseURL := database(t)
			for _, c := range []struct {
				naive bool
				order order
				sold  int
				says  string
			}{
				{false, stoppedWritesLast, 1, "the books are right"},
				{false, stoppedWritesFirst, 1, "the books are right"},
				{true, stoppedWritesLast, 1, "the books are right"},
				{true, stoppedWritesFirst, 2, "the books are WRONG"},
			} {
				var out bytes.Buffer
				end, err := show(t.Context(), redistest.Shared(t).URL(), databaseURL, c.naive, c.order, &out)
				require.NoError(t, err, out.String())
				assert.Equal(t, outcome{sold: c.sold, left: pieces - 1}, end, c.order)
				assert.Contains(t, out.String(), c.says)
				if !c.naive {
					assert.Regexp(t, `first +was refused: .*lost.*a later holder of the lock was here`, out.String())
				}
			}
		})
	}
}

//go:build unix

package main

import (
	"bytes"
	"os"
	"strings"
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

// databases are where the row may be.
func databases(t *testing.T, test func(t *testing.T, databaseURL string)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, sqliteURL(t.TempDir()))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		test(t, postgrestest.Start(t))
	})
}

func TestFencing_TheDatabaseRefusesAStoppedHolder(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, databaseURL string) {
		for _, order := range []order{stoppedWritesLast, stoppedWritesFirst} {
			var out bytes.Buffer
			end, err := show(t.Context(), redistest.Shared(t).URL(), databaseURL, false, order, &out)
			require.NoError(t, err, out.String())
			assert.Equal(t, outcome{sold: 1, left: pieces - 1}, end, order)
			assert.Regexp(t, `first +was refused: .*lost.*a later holder of the lock was here`, out.String())
			assert.Contains(t, out.String(), "the books are right")
		}
	})
}

// The token is compared only when a process writes. One order of the writes goes wrong.
func TestFencing_ComparingOnlyWhenWritingLosesASale(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, databaseURL string) {
		for order, want := range map[order]outcome{
			stoppedWritesLast:  {sold: 1, left: pieces - 1},
			stoppedWritesFirst: {sold: 2, left: pieces - 1},
		} {
			var out bytes.Buffer
			end, err := show(t.Context(), redistest.Shared(t).URL(), databaseURL, true, order, &out)
			require.NoError(t, err, out.String())
			assert.Equal(t, want, end, order)
			assert.Equal(t, order == stoppedWritesFirst, strings.Contains(out.String(), "the books are WRONG"))
		}
	})
}

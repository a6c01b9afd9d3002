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

func TestFencing_APausedProcessCannotCorruptTheRow(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, databaseURL string) {
		var out bytes.Buffer
		end, err := show(t.Context(), redistest.Shared(t).URL(), databaseURL, false, &out)
		require.NoError(t, err, out.String())
		assert.Equal(t, 1, end.sold)
		assert.Equal(t, pieces-1, end.left)
		assert.Regexp(t, `first +was refused: .*lost.*a later holder was here`, out.String())
		assert.Contains(t, out.String(), "the books are right")
	})
}

// Without this the test above would prove nothing.
func TestFencing_WithoutAFenceItDoes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	end, err := show(t.Context(), redistest.Shared(t).URL(), "", true, &out)
	require.NoError(t, err, out.String())
	assert.Equal(t, 2, end.sold)
	assert.Equal(t, pieces-1, end.left)
	assert.Contains(t, out.String(), "the books are WRONG")
}

func TestFencing_TheRowRefusesEarlierHolders(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, databaseURL string) {
		s, err := openStock(t.Context(), databaseURL)
		require.NoError(t, err)
		defer s.Close()
		id, err := s.create(t.Context(), 3)
		require.NoError(t, err)

		left, err := s.read(t.Context(), id, 7)
		require.NoError(t, err)
		assert.Equal(t, 3, left)
		require.ErrorIs(t, s.write(t.Context(), id, 99, 6), errStale, "7 has read: what it makes of that must count")
		require.NoError(t, s.write(t.Context(), id, 2, 7))
		require.NoError(t, s.write(t.Context(), id, 1, 7), "a hold may write as often as it likes")
		_, err = s.read(t.Context(), id, 6)
		require.ErrorIs(t, err, errStale)
		require.NoError(t, s.write(t.Context(), id, 0, 8))

		left, fence, err := s.look(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, 0, left)
		assert.Equal(t, uint64(8), fence)
	})
}

package main

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/postgrestest"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

// Requests come at the same time, come again, and come after Redis has forgotten. The account is
// charged once for each order.
func TestPayOnce_AnOrderIsPaidOnceWhateverRedisForgets(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(t *testing.T) string{
		"SQLite": func(t *testing.T) string {
			return "file:" + filepath.Join(t.TempDir(), "shop.db") + "?_pragma=busy_timeout(5000)"
		},
		"PostgreSQL": func(t *testing.T) string { return postgrestest.Start(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t).Client(t)
			s, err := open(t.Context(), rdb, database(t))
			require.NoError(t, err)
			defer s.close()
			for range 3 {
				var requests sync.WaitGroup
				for range 8 {
					requests.Go(func() {
						receipt, err := s.pay(t.Context(), "42", 1000)
						assert.NoError(t, err)
						assert.Equal(t, "receipt-42", receipt)
					})
				}
				requests.Wait()
				left, err := s.balance(t.Context())
				require.NoError(t, err)
				assert.Equal(t, 9000, left)
				_, err = s.pay(t.Context(), "42", 9999)
				require.ErrorIs(t, err, guard.ErrOtherInput)
				require.NoError(t, rdb.FlushAll(t.Context()).Err())
			}
			var fences int
			require.NoError(t, s.db.QueryRow(`SELECT count(*) FROM redlatch_fences`).Scan(&fences))
			assert.Equal(t, 1, fences, "the charges of the order were fenced")
		})
	}
}

func TestPayOnce_TheProgramRuns(t *testing.T) {
	t.Parallel()
	require.NoError(t, run(t.Context(), "", ""))
	assert.ErrorContains(t, run(t.Context(), "http://:secret@localhost", ""), "REDIS_URL")
}

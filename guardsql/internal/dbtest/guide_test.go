//go:build unix

package dbtest

import (
	"database/sql"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guardsql"
)

// guideSQL returns the statements of the guide: the tables, then the deletions, in the order of the dialects.
func guideSQL(t *testing.T) (tables, deletions map[guardsql.Dialect]string) {
	t.Helper()
	guide, err := os.ReadFile("../../../docs/guides/fencing.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)\n```").FindAllSubmatch(guide, -1)
	require.Len(t, blocks, 6)
	tables, deletions = map[guardsql.Dialect]string{}, map[guardsql.Dialect]string{}
	for i, d := range []guardsql.Dialect{guardsql.Postgres, guardsql.MySQL, guardsql.SQLite} {
		tables[d], deletions[d] = string(blocks[i][1]), string(blocks[i+3][1])
	}
	return tables, deletions
}

func TestGuide_HasTheTables(t *testing.T) {
	tables, _ := guideSQL(t)
	for d, table := range tables {
		assert.Equal(t, guardsql.Schema(d), table)
	}
}

func TestGuide_OldRowsAreDeletedUnlessATransactionClaimsThem(t *testing.T) {
	_, deletions := guideSQL(t)
	for _, i := range []int{0, 2, 5} {
		t.Run(setups[i].name, func(t *testing.T) {
			d := setups[i].open(t)
			old, claimed, recent := newKey(), newKey(), newKey()
			for key, days := range map[string]int{old: 31, claimed: 31, recent: 0} {
				_, err := d.Exec(d.q(`INSERT INTO redlatch_fences (lock_key, fence) VALUES ($1, $2)`),
					[]byte(key), time.Now().AddDate(0, 0, -days).UnixMicro())
				require.NoError(t, err)
			}
			_, holder := twoHolders(t, claimed)
			tx := d.begin(t)
			require.NoError(t, guardsql.Fence(holder, tx, d.dialect))
			deleted := make(chan error)
			level := map[guardsql.Dialect]sql.IsolationLevel{guardsql.MySQL: sql.LevelReadCommitted}[d.dialect]
			go func() {
				by, err := d.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
				if err == nil {
					_, err = by.ExecContext(t.Context(), deletions[d.dialect])
				}
				if err == nil {
					err = by.Commit()
				}
				deleted <- err
			}()
			require.NoError(t, tx.Commit())
			require.NoError(t, <-deleted)
			count := func(key string) (n int) {
				require.NoError(t, d.QueryRow(d.q(`SELECT count(*) FROM redlatch_fences WHERE lock_key = $1`), []byte(key)).Scan(&n))
				return n
			}
			assert.Equal(t, []int{0, 1, 1}, []int{count(old), count(claimed), count(recent)})
		})
	}
}

//go:build unix

package dbtest

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guardsql"
)

// BenchmarkTransaction reads a row and writes it, with and without Fence.
func BenchmarkTransaction(b *testing.B) {
	for _, i := range []int{0, 2, 5} {
		s := setups[i]
		b.Run(s.name, func(b *testing.B) {
			d := s.open(b)
			key := newKey()
			_, err := d.Exec(d.q(`INSERT INTO stock (id, amount) VALUES ($1, 0)`), key)
			require.NoError(b, err)
			g, err := guard.NewWithStore(guardtest.NewStore(), guard.TTL(time.Hour))
			require.NoError(b, err)
			b.Cleanup(func() { _ = g.Close() })
			l, err := g.Acquire(b.Context(), guard.Key(key))
			require.NoError(b, err)
			change := func(ctx context.Context, tx *sql.Tx) error {
				var amount int
				if err := tx.QueryRowContext(ctx, d.q(`SELECT amount FROM stock WHERE id = $1`), key).Scan(&amount); err != nil {
					return err
				}
				_, err := tx.ExecContext(ctx, d.q(`UPDATE stock SET amount = $1 WHERE id = $2`), amount+1, key)
				return err
			}
			b.Run("bare", func(b *testing.B) {
				for b.Loop() {
					tx, err := d.BeginTx(b.Context(), nil)
					require.NoError(b, err)
					require.NoError(b, change(b.Context(), tx))
					require.NoError(b, tx.Commit())
				}
			})
			b.Run("fenced", func(b *testing.B) {
				for b.Loop() {
					require.NoError(b, guardsql.InTx(l.Context(), d.DB, change, d.dialect))
				}
			})
		})
	}
}

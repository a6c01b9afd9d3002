//go:build unix

package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/redlatch/redlatch/guardsql"
	"github.com/redlatch/redlatch/guardsql/internal/dbtest/stockdb"
)

// What the guide says of each library: a former holder is refused, and changes nothing.
func TestLibraries_FenceTheirTransactions(t *testing.T) {
	t.Parallel()
	d := setups[0].open(t)
	gormDB, err := gorm.Open(postgres.New(postgres.Config{Conn: d.DB}), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := pgxpool.New(t.Context(), d.source(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	simple, err := pgxpool.New(t.Context(), d.source(t)+" default_query_exec_mode=simple_protocol")
	require.NoError(t, err)
	t.Cleanup(simple.Close)

	for name, sell := range map[string]func(ctx context.Context, sku string) error{
		"gorm": func(ctx context.Context, sku string) error {
			return gormDB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
				if err := guardsql.Fence(ctx, tx.Statement.ConnPool); err != nil {
					return err
				}
				return tx.Exec(`UPDATE stock SET amount = amount - 1 WHERE id = ?`, sku).Error
			})
		},
		"sqlc": func(ctx context.Context, sku string) error {
			return guardsql.InTx(ctx, d.DB, func(ctx context.Context, tx *sql.Tx) error {
				q := stockdb.New(d.DB).WithTx(tx)
				amount, err := q.Amount(ctx, sku)
				if err != nil {
					return err
				}
				return q.SetAmount(ctx, stockdb.SetAmountParams{ID: sku, Amount: amount - 1})
			})
		},
		"ent": func(ctx context.Context, sku string) error { return sellWithEnt(ctx, d.DB, sku) },
		// With ent's feature sql/execquery, the Tx of its client has the ExecContext of this one.
		"ent's own Tx": func(ctx context.Context, sku string) error {
			tx, err := entsql.OpenDB(dialect.Postgres, d.DB).Tx(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if err := guardsql.Fence(ctx, tx.(*entsql.Tx)); err != nil {
				return err
			}
			if err := sellThrough(ctx, tx, sku); err != nil {
				return err
			}
			return tx.Commit()
		},
		"pgx":                  func(ctx context.Context, sku string) error { return sellWithPGX(ctx, pool, sku) },
		"pgx, simple protocol": func(ctx context.Context, sku string) error { return sellWithPGX(ctx, simple, sku) },
	} {
		t.Run(name, func(t *testing.T) {
			key := newKey()
			former, later := twoHolders(t, key)
			_, err := d.Exec(`INSERT INTO stock (id, amount) VALUES ($1, 5)`, key)
			require.NoError(t, err)
			require.NoError(t, sell(former, key))
			require.NoError(t, sell(later, key))
			require.NoError(t, sell(later, key))
			require.ErrorIs(t, sell(former, key), guardsql.ErrStale)
			require.ErrorIs(t, sell(t.Context(), key), guardsql.ErrNoLock)
			var amount, fences int
			require.NoError(t, d.QueryRow(`SELECT amount, (SELECT count(*) FROM redlatch_fences WHERE lock_key = $2) FROM stock WHERE id = $1`,
				key, []byte(key)).Scan(&amount, &fences))
			assert.Equal(t, []int{2, 1}, []int{amount, fences})
		})
	}
	_, ctx := twoHolders(t, newKey())
	require.ErrorContains(t, guardsql.Fence(ctx, gormDB.Statement.ConnPool), "not a transaction", "gorm outside of a transaction")
	var of *pgconn.PgError
	require.ErrorAs(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return guardsql.FencePGX(ctx, tx, guardsql.Table("missing")) }), &of)
}

func sellWithPGX(ctx context.Context, pool *pgxpool.Pool, sku string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := errors.Join(guardsql.FencePGX(ctx, tx), guardsql.FencePGX(ctx, tx)); err != nil { // twice is once
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE stock SET amount = amount - 1 WHERE id = $1`, sku)
		return err
	})
}

// With PrepareStmt, gorm's transaction is another type. Its cache has a goroutine that never ends.
var _ guardsql.Execer = (*gorm.PreparedStmtTX)(nil)

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
	config, err := pgxpool.ParseConfig(setups[0].source(t))
	require.NoError(t, err)
	config.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)

	for name, sell := range map[string]func(ctx context.Context, sku string) error{
		"gorm":         func(ctx context.Context, sku string) error { return sellWithGorm(ctx, gormDB, sku) },
		"sqlc":         func(ctx context.Context, sku string) error { return sellWithSQLC(ctx, d.DB, stockdb.New(d.DB), sku) },
		"ent":          func(ctx context.Context, sku string) error { return sellWithEnt(ctx, d.DB, sku) },
		"ent's own Tx": func(ctx context.Context, sku string) error { return sellWithEntTx(ctx, d.DB, sku) },
		"pgx":          func(ctx context.Context, sku string) error { return sellWithPGX(ctx, pool, sku) },
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
			var amount int
			require.NoError(t, d.QueryRow(`SELECT amount FROM stock WHERE id = $1`, key).Scan(&amount))
			assert.Equal(t, 2, amount)
			var fences int
			require.NoError(t, d.QueryRow(`SELECT count(*) FROM redlatch_fences WHERE lock_key = $1`, []byte(key)).Scan(&fences))
			assert.Equal(t, 1, fences)
		})
	}
	_, ctx := twoHolders(t, newKey())
	require.ErrorContains(t, guardsql.Fence(ctx, gormDB.Statement.ConnPool), "not a transaction", "gorm outside of a transaction")
}

// With PrepareStmt, gorm's transaction is another type. Its cache has a goroutine that never ends.
var _ guardsql.Execer = (*gorm.PreparedStmtTX)(nil)

// sellWithEntTx is what a generated client of ent does that has the feature sql/execquery: its Tx has the
// ExecContext of this one.
func sellWithEntTx(ctx context.Context, db *sql.DB, sku string) (err error) {
	begun, err := entsql.OpenDB(dialect.Postgres, db).Tx(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = begun.Rollback() }()
	tx, ok := begun.(*entsql.Tx)
	if !ok {
		return errors.New("ent has another Tx")
	}
	if err := guardsql.Fence(ctx, tx); err != nil {
		return err
	}
	if err := sellThrough(ctx, tx, sku); err != nil {
		return err
	}
	return tx.Commit()
}

// sellThrough has ent's builder make the statements.
func sellThrough(ctx context.Context, driver dialect.ExecQuerier, sku string) error {
	query, args := entsql.Dialect(dialect.Postgres).Update("stock").Add("amount", -1).Where(entsql.EQ("id", sku)).Query()
	var done entsql.Result
	return driver.Exec(ctx, query, args, &done)
}

func TestFencePGX_InATransactionOfPGX(t *testing.T) {
	t.Parallel()
	d := setups[0].open(t) // makes the table
	former, later := twoHolders(t, newKey())
	require.NoError(t, d.fence(later), "both ways write one row")
	for _, mode := range []string{"", " default_query_exec_mode=simple_protocol"} {
		conn, err := pgx.Connect(t.Context(), d.source(t)+mode)
		require.NoError(t, err)
		defer func() { _ = conn.Close(context.Background()) }()
		fence := func(ctx context.Context) error {
			return pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
				if err := guardsql.FencePGX(ctx, tx); err != nil {
					return err
				}
				return guardsql.FencePGX(ctx, tx) // twice is once
			})
		}
		require.ErrorIs(t, fence(former), guardsql.ErrStale)
		require.NoError(t, fence(later))
		require.Equal(t, guardsql.ErrNoLock, fence(t.Context()))
		ended, cancel := context.WithCancel(later)
		cancel()
		require.ErrorIs(t, fence(ended), context.Canceled)
	}
}

package guardsql_test

import (
	"context"
	"database/sql"
	"errors"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guardsql"
)

var (
	g  *guard.Guard
	db *sql.DB
)

// One transaction reads and writes.
func ExampleInTx() {
	sell := func(ctx context.Context, tx *sql.Tx, sku string) error {
		var amount int
		if err := tx.QueryRowContext(ctx, `SELECT amount FROM stock WHERE sku = $1`, sku).Scan(&amount); err != nil {
			return err
		}
		if amount == 0 {
			return errors.New("sold out")
		}
		_, err := tx.ExecContext(ctx, `UPDATE stock SET amount = $1 WHERE sku = $2`, amount-1, sku)
		return err
	}
	handle := func(ctx context.Context, sku string) error {
		return g.WithLock(ctx, guard.Keyf("stock:%s", sku), func(ctx context.Context) error {
			return guardsql.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
				return sell(ctx, tx, sku) // SELECT, UPDATE, INSERT: through tx
			})
		})
	}
	_ = handle
}

// Work of seconds lies between reading and writing. Both transactions are fenced: the first one makes
// the database refuse all former holders, the second one is refused if a later holder has begun.
func ExampleInTx_twoTransactions() {
	price := func(ctx context.Context, order string, ask func(ctx context.Context, items string) (int, error)) error {
		return g.WithLock(ctx, guard.Keyf("order:%s", order), func(ctx context.Context) error {
			var items string
			if err := guardsql.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
				return tx.QueryRowContext(ctx, `SELECT items FROM orders WHERE id = $1`, order).Scan(&items)
			}); err != nil {
				return err
			}
			cents, err := ask(ctx, items) // no transaction is open meanwhile
			if err != nil {
				return err
			}
			return guardsql.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, `UPDATE orders SET cents = $1 WHERE id = $2`, cents, order)
				return err
			})
		})
	}
	_ = price
}

// Fence is the first statement of a transaction that you begin yourself.
func ExampleFence() {
	cancel := func(ctx context.Context, order string) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := guardsql.Fence(ctx, tx, guardsql.MySQL); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE orders SET state = 'cancelled' WHERE id = ?`, order); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = cancel
}

// A transfer holds two locks, and fences under each of them.
func ExampleFor() {
	transfer := func(ctx context.Context, from, to string, cents int) error {
		keys := []guard.KeyFunc{guard.Keyf("account:%s", min(from, to)), guard.Keyf("account:%s", max(from, to))}
		return g.WithLocks(ctx, keys, func(ctx context.Context) error {
			return guardsql.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
				if err := guardsql.Fence(ctx, tx, guardsql.For(keys[1])); err != nil {
					return err
				}
				_, err := tx.ExecContext(ctx, `UPDATE account SET cents = cents + CASE id WHEN $1 THEN $2 ELSE -$2 END WHERE id IN ($1, $3)`, to, cents, from)
				return err
			}, guardsql.For(keys[0]))
		})
	}
	_ = transfer
}

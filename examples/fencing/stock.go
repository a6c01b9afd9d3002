package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guardsql"
)

// stock is a table with a row for each product, in PostgreSQL or SQLite. The statements are the same
// for both.
type stock struct {
	*sql.DB

	dialect guardsql.Dialect
}

const sqliteScheme = "sqlite:"

// sqliteURL is a database in a directory. A caller that finds it busy waits.
func sqliteURL(dir string) string {
	return sqliteScheme + filepath.Join(dir, "stock.db") + "?_pragma=" + url.QueryEscape("busy_timeout(5000)")
}

func openStock(ctx context.Context, databaseURL string) (stock, error) {
	driver, dialect := "pgx", guardsql.Postgres
	if dsn, ok := strings.CutPrefix(databaseURL, sqliteScheme); ok {
		driver, dialect, databaseURL = "sqlite", guardsql.SQLite, dsn
	}
	db, err := sql.Open(driver, databaseURL)
	if err != nil {
		return stock{}, err
	}
	const table = `CREATE TABLE IF NOT EXISTS fencing_stock (
		id     TEXT   PRIMARY KEY,
		amount BIGINT NOT NULL,
		fence  BIGINT NOT NULL DEFAULT 0)` // for writeNaively
	for _, create := range []string{table, guardsql.Schema(dialect)} {
		if _, err := db.ExecContext(ctx, create); err != nil {
			return stock{}, errors.Join(fmt.Errorf("create the tables: %w", err), db.Close())
		}
	}
	return stock{db, dialect}, nil
}

// create inserts a row under a new id.
func (s stock) create(ctx context.Context, left int) (id string, err error) {
	id = "sku-" + strings.ToLower(rand.Text()[:8])
	_, err = s.ExecContext(ctx, `INSERT INTO fencing_stock (id, amount) VALUES ($1, $2)`, id, left)
	return id, err
}

func (s stock) remove(ctx context.Context, id string) error {
	_, err := s.ExecContext(ctx, `DELETE FROM fencing_stock WHERE id = $1`, id)
	return err
}

// read returns how many are left. From its commit on, the database refuses former holders: also if they
// would write before this holder does.
func (s stock) read(ctx context.Context, id string) (left int, err error) {
	err = guardsql.InTx(ctx, s.DB, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT amount FROM fencing_stock WHERE id = $1`, id).Scan(&left)
	}, s.dialect)
	return left, err
}

// write is refused if a later holder has read.
func (s stock) write(ctx context.Context, id string, left int) error {
	return guardsql.InTx(ctx, s.DB, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE fencing_stock SET amount = $1 WHERE id = $2`, left, id)
		return err
	}, s.dialect)
}

// writeNaively compares the token when it writes. If the later holder has read but not yet written, the
// row still has an older token, and the write of the former holder is accepted.
func (s stock) writeNaively(ctx context.Context, id string, left int) error {
	fence, _ := guard.Fence(ctx)
	done, err := s.ExecContext(ctx, `UPDATE fencing_stock SET amount = $1, fence = $2 WHERE id = $3 AND fence <= $2`, left, fence, id)
	if err != nil {
		return err
	}
	if rows, err := done.RowsAffected(); err != nil || rows == 1 {
		return err
	}
	return guardsql.ErrStale
}

func (s stock) look(ctx context.Context, id string) (left int, err error) {
	err = s.QueryRowContext(ctx, `SELECT amount FROM fencing_stock WHERE id = $1`, id).Scan(&left)
	return left, err
}

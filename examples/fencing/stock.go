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
)

// errStale says that a later holder of the lock has touched the row.
var errStale = errors.New("a later holder was here")

// stock is a table with one row for each product, in PostgreSQL or SQLite: all statements
// are the same for both.
type stock struct{ *sql.DB }

const sqliteScheme = "sqlite:"

// sqliteURL is a database in a directory. A caller that finds it busy waits.
func sqliteURL(dir string) string {
	return sqliteScheme + filepath.Join(dir, "stock.db") + "?_pragma=" + url.QueryEscape("busy_timeout(5000)")
}

func openStock(ctx context.Context, databaseURL string) (stock, error) {
	driver := "pgx"
	if dsn, ok := strings.CutPrefix(databaseURL, sqliteScheme); ok {
		driver, databaseURL = "sqlite", dsn
	}
	db, err := sql.Open(driver, databaseURL)
	if err != nil {
		return stock{}, err
	}
	const table = `CREATE TABLE IF NOT EXISTS fencing_stock (
		id    TEXT   PRIMARY KEY,
		amount BIGINT NOT NULL,
		fence BIGINT NOT NULL DEFAULT 0)` // fences are below 2^53
	if _, err := db.ExecContext(ctx, table); err != nil {
		return stock{}, errors.Join(fmt.Errorf("create the table: %w", err), db.Close())
	}
	return stock{db}, nil
}

// create makes a row that nobody else uses.
func (s stock) create(ctx context.Context, left int) (id string, err error) {
	id = "sku-" + strings.ToLower(rand.Text()[:8])
	_, err = s.ExecContext(ctx, `INSERT INTO fencing_stock (id, amount) VALUES ($1, $2)`, id, left)
	return id, err
}

func (s stock) remove(ctx context.Context, id string) error {
	_, err := s.ExecContext(ctx, `DELETE FROM fencing_stock WHERE id = $1`, id)
	return err
}

// read leaves the fence in the row: from now on earlier holders are refused, also if they
// write before this one does. Else what was read might be outdated by the time of the write.
func (s stock) read(ctx context.Context, id string, fence uint64) (left int, err error) {
	err = s.QueryRowContext(ctx,
		`UPDATE fencing_stock SET fence = $1 WHERE id = $2 AND fence <= $3 RETURNING amount`,
		int64(fence), id, int64(fence)).Scan(&left) //nolint:gosec // a fence is below 2^53
	if errors.Is(err, sql.ErrNoRows) {
		err = errStale
	}
	return left, err
}

// write is refused if a later holder was here. It may be repeated: the fence of a hold is
// not above itself.
func (s stock) write(ctx context.Context, id string, left int, fence uint64) error {
	done, err := s.ExecContext(ctx,
		`UPDATE fencing_stock SET amount = $1, fence = $2 WHERE id = $3 AND fence <= $4`,
		left, int64(fence), id, int64(fence)) //nolint:gosec // a fence is below 2^53
	if err != nil {
		return err
	}
	if rows, err := done.RowsAffected(); err != nil || rows == 1 {
		return err
	}
	return errStale
}

// overwrite is what goes wrong.
func (s stock) overwrite(ctx context.Context, id string, left int) error {
	_, err := s.ExecContext(ctx, `UPDATE fencing_stock SET amount = $1 WHERE id = $2`, left, id)
	return err
}

func (s stock) look(ctx context.Context, id string) (left int, fence uint64, err error) {
	err = s.QueryRowContext(ctx, `SELECT amount, fence FROM fencing_stock WHERE id = $1`, id).Scan(&left, &fence)
	return left, fence, err
}

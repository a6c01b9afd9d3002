// Command payonce pays an order once, and records that in the database, too. Redis may forget that the
// order was paid (FLUSHALL, a failover); the row of the database remains:
//
//	go run ./examples/payonce
//	DATABASE_URL=postgres://… REDIS_URL=redis://… go run ./examples/payonce
//
// Without DATABASE_URL it uses SQLite in a temporary file, without REDIS_URL a Redis of its own.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/embedded"
	"github.com/redlatch/redlatch/guardsql"
)

// tables are the account and the payments: one row for each order.
const tables = `
CREATE TABLE IF NOT EXISTS account (id INT PRIMARY KEY, cents BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS payment (order_id VARCHAR(64) PRIMARY KEY, receipt VARCHAR(64) NOT NULL);
INSERT INTO account (id, cents) VALUES (1, 10000) ON CONFLICT DO NOTHING;`

type shop struct {
	g       *guard.Guard
	db      *sql.DB
	dialect guardsql.Dialect
}

// pay charges an order once: a later call gets the receipt.
func (s *shop) pay(ctx context.Context, order string, cents int) (receipt string, err error) {
	receipt, _, err = guard.Once(ctx, s.g, guard.Keyf("pay:%s", order), 24*time.Hour, func(ctx context.Context) (string, error) {
		return s.charge(ctx, order, cents)
	}, guard.Wait(2*time.Second), guard.Fingerprint(fmt.Append(nil, cents)))
	return receipt, err
}

// charge makes the effect and its record in one transaction. The row of the order allows one charge,
// whatever Redis forgot. The fence refuses a caller whose lock was lost and taken by a later one.
func (s *shop) charge(ctx context.Context, order string, cents int) (receipt string, err error) {
	receipt = fmt.Sprintf("receipt-%s", order)
	err = guardsql.InTx(ctx, s.db, func(ctx context.Context, tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, `INSERT INTO payment (order_id, receipt) VALUES ($1, $2) ON CONFLICT DO NOTHING`, order, receipt)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 { // it was paid, and Redis forgot
			return errors.Join(err, tx.QueryRowContext(ctx, `SELECT receipt FROM payment WHERE order_id = $1`, order).Scan(&receipt))
		}
		_, err = tx.ExecContext(ctx, `UPDATE account SET cents = cents - $1 WHERE id = 1`, cents)
		return err
	}, s.dialect)
	return receipt, err
}

func main() {
	if err := run(context.Background(), os.Getenv("REDIS_URL"), os.Getenv("DATABASE_URL")); err != nil {
		fmt.Fprintln(os.Stderr, "payonce:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, redisURL, databaseURL string) error {
	if redisURL == "" {
		server, err := embedded.Start()
		if err != nil {
			return err
		}
		defer server.Close()
		redisURL = "redis://" + server.Addr()
	}
	opts, err := redis.ParseURL(redisURL)
	if err != nil {
		return errors.New("REDIS_URL is not the URL of a Redis") // it may have a password
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	if databaseURL == "" {
		dir, err := os.MkdirTemp("", "payonce-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		databaseURL = "file:" + filepath.Join(dir, "shop.db") + "?_pragma=busy_timeout(5000)"
	}
	s, err := open(ctx, rdb, databaseURL)
	if err != nil {
		return err
	}
	defer s.close()
	return s.show(ctx, rdb)
}

func open(ctx context.Context, rdb redis.UniversalClient, databaseURL string) (*shop, error) {
	driver, dialect := "pgx", guardsql.Postgres
	if strings.HasPrefix(databaseURL, "file:") {
		driver, dialect = "sqlite", guardsql.SQLite
	}
	db, err := sql.Open(driver, databaseURL)
	if err != nil {
		return nil, err
	}
	for _, create := range []string{tables, guardsql.Schema(dialect)} {
		if _, err = db.ExecContext(ctx, create); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	g, err := guard.New(rdb)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &shop{g, db, dialect}, nil
}

func (s *shop) close() {
	_ = s.g.Close()
	_ = s.db.Close()
}

// show pays an order, asks again, and asks once more when Redis has forgotten.
func (s *shop) show(ctx context.Context, rdb redis.UniversalClient) error {
	for _, step := range []string{"paid:", "asked again:", "after Redis forgot:"} {
		if step == "after Redis forgot:" {
			if err := rdb.Del(ctx, "redlatch:{pay:42}:once").Err(); err != nil {
				return err
			}
		}
		receipt, err := s.pay(ctx, "42", 1000)
		if err != nil {
			return err
		}
		left, err := s.balance(ctx)
		if err != nil {
			return err
		}
		fmt.Println(step, receipt, "balance:", left)
	}
	return nil
}

func (s *shop) balance(ctx context.Context) (cents int, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT cents FROM account WHERE id = 1`).Scan(&cents)
	return cents, err
}

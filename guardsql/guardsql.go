package guardsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/guard"
)

var (
	// ErrStale means that a later holder of the lock has begun a transaction. Roll back and stop: what
	// this holder read may be outdated. A new call of WithLock may try again.
	ErrStale error = errors.New("guardsql: a later holder of the lock was here: roll back")

	// ErrNoLock means that ctx has no exclusive lock, or none of the key of [For]: the call is not
	// under WithLock or Acquire, the lock has Shared or a Limit, or FailOpen let the work run.
	ErrNoLock error = errors.New("guardsql: ctx has no exclusive lock of that key")
)

// Execer is a transaction: *sql.Tx, and those of sqlx, gorm and ent.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Fence claims the key of ctx's lock for its holder until tx ends. Call it before the other
// statements of each transaction that reads or writes what the lock protects. It costs one
// statement.
//
// The lock is the innermost exclusive lock of ctx, unless [For] names another. Fence does not ask
// whether the lock is still held: the database decides. A lost lock ends ctx, and so the statement.
//
// It returns ErrStale if a transaction of a later holder has been committed, ErrNoLock if ctx has no
// such lock, and errors of the database unchanged. After an error, roll back.
func Fence(ctx context.Context, tx Execer, opts ...Option) error {
	c, err := newClaim(ctx, opts)
	if err != nil {
		return err
	}
	return c.exec(ctx, tx)
}

// FencePGX is [Fence] for a pgx.Tx.
func FencePGX[T interface{ RowsAffected() int64 }](ctx context.Context, tx interface {
	Exec(ctx context.Context, sql string, args ...any) (T, error)
}, opts ...Option,
) error {
	c, err := newClaim(ctx, opts)
	if err != nil {
		return err
	}
	if c.dialect != Postgres {
		return fmt.Errorf("guardsql: FencePGX: the Dialect is %v, and pgx is for Postgres only", c.dialect)
	}
	// A pool or a connection has Ping; a transaction has not.
	if _, pings := tx.(interface {
		Ping(ctx context.Context) error
	}); pings || tx == nil {
		return notATransaction(tx)
	}
	done, err := tx.Exec(ctx, c.statement(), c.args()...)
	if err != nil {
		return err
	}
	return c.check(done.RowsAffected())
}

// InTx begins a transaction, calls Fence, runs fn, and commits. If Fence or fn fails, or fn panics,
// InTx rolls back and returns that error unchanged. fn sends its statements through tx, and neither
// commits nor rolls back. The isolation level is the default of the database: for another one, call
// BeginTx and Fence yourself.
func InTx(ctx context.Context, db *sql.DB, fn func(ctx context.Context, tx *sql.Tx) error, opts ...Option) error {
	switch {
	case db == nil:
		return errors.New("guardsql: InTx: db is nil")
	case fn == nil:
		return errors.New("guardsql: InTx: fn is nil")
	}
	c, err := newClaim(ctx, opts)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	if err := c.exec(ctx, tx); err != nil {
		return err
	}
	if err := fn(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// claim is one use of the table: the row of a key, and the token to write into it.
type claim struct {
	settings

	key   []byte
	fence int64
}

func newClaim(ctx context.Context, opts []Option) (claim, error) {
	s, err := newSettings(opts)
	if err != nil {
		return claim{}, err
	}
	var wanted string
	if s.key != nil {
		if wanted, err = s.key(ctx); err != nil {
			return claim{}, fmt.Errorf("guardsql: For: the key function failed: %w", err)
		}
	}
	for lease := range guard.ExclusiveLeases(ctx) {
		if s.key == nil || lease.Key() == wanted {
			return claim{s, []byte(lease.Key()), int64(lease.Fence())}, nil // a fence is below 2^53
		}
	}
	return claim{}, ErrNoLock
}

func (c claim) exec(ctx context.Context, tx Execer) error {
	// A pool has SetMaxOpenConns; a transaction has not. Without a transaction, the row would be locked
	// for the one statement only.
	if _, pools := tx.(interface{ SetMaxOpenConns(n int) }); pools || tx == nil {
		return notATransaction(tx)
	}
	done, err := tx.ExecContext(ctx, c.statement(), c.args()...)
	if err != nil {
		return err
	}
	n, err := c.result(done)
	if err != nil {
		return err
	}
	return c.check(n)
}

func notATransaction(tx any) error {
	return fmt.Errorf("guardsql: tx is a %T, not a transaction: begin one", tx)
}

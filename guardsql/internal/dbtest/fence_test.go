//go:build unix

package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guardsql"
)

func TestFence_RefusesFormerHolders(t *testing.T) {
	each(t, func(t *testing.T, d *db) {
		former, later := twoHolders(t, newKey())
		require.NoError(t, d.fence(former), "the row is new")
		require.NoError(t, d.fence(former), "one holder, many transactions")
		require.NoError(t, d.fence(later))
		require.NoError(t, d.fence(later))
		require.ErrorIs(t, d.fence(former), guardsql.ErrStale)
		require.ErrorIs(t, d.fence(former), guardsql.ErrStale, "a refusal changes nothing")
		require.NoError(t, d.fence(later))
	})
}

// The later holder waits for the transaction of the former one, and then reads what that wrote.
func TestFence_LocksTheRowUntilTheTransactionEnds(t *testing.T) {
	each(t, func(t *testing.T, d *db) {
		key := newKey()
		former, later := twoHolders(t, key)
		_, err := d.Exec(d.q(`INSERT INTO stock (id, amount) VALUES ($1, 10)`), key)
		require.NoError(t, err)
		tx := d.begin(t)
		require.NoError(t, guardsql.Fence(former, tx, d.dialect))

		short, cancel := context.WithTimeout(later, 300*time.Millisecond)
		defer cancel()
		require.Error(t, d.fence(short), "the row is locked")
		require.ErrorIs(t, short.Err(), context.DeadlineExceeded, "it waited until then")

		_, err = tx.Exec(d.q(`UPDATE stock SET amount = 9 WHERE id = $1`), key)
		require.NoError(t, err)
		read := make(chan int)
		go func() {
			var amount int
			assert.NoError(t, guardsql.InTx(later, d.DB, func(ctx context.Context, tx *sql.Tx) error {
				return tx.QueryRowContext(ctx, d.q(`SELECT amount FROM stock WHERE id = $1`), key).Scan(&amount)
			}, d.dialect))
			read <- amount
		}()
		require.NoError(t, tx.Commit())
		assert.Equal(t, 9, <-read)
	})
}

// The former holder may find the row locked by the later one.
func TestFence_OfAFormerHolderFollowsTheTransactionOfTheLaterOne(t *testing.T) {
	each(t, func(t *testing.T, d *db) {
		for commits, want := range map[bool]error{true: guardsql.ErrStale, false: nil} {
			former, later := twoHolders(t, newKey())
			require.NoError(t, d.fence(former))
			tx := d.begin(t)
			require.NoError(t, guardsql.Fence(later, tx, d.dialect))
			got := make(chan error)
			go func() { got <- d.fence(former) }()
			end := tx.Rollback
			if commits {
				end = tx.Commit
			}
			require.NoError(t, end())
			assert.ErrorIs(t, <-got, want)
		}
	})
}

// What differs in the key differs in the table: no collation, no padding, no longest prefix.
func TestFence_KeysNeverAlias(t *testing.T) {
	each(t, func(t *testing.T, d *db) {
		base := newKey()
		for _, keys := range [][2]string{
			{base, strings.ToUpper(base)},
			{base, base + " "},
			{base + "e", base + "é"},
			{base + "é", base + "e\u0301"},
			{base + "\x00", base + "\x00\x00"},
			{base + `\000`, base + `\\000`},
			{base + "订单", base + "订単"},
			{base + strings.Repeat("k", 511-len(base)) + "1", base + strings.Repeat("k", 511-len(base)) + "2"},
		} {
			former, _ := twoHolders(t, keys[0])
			_, later := twoHolders(t, keys[1])
			require.NoError(t, d.fence(later))
			require.NoError(t, d.fence(former), "%q after %q", keys[0], keys[1])
			_, later = twoHolders(t, keys[0])
			require.NoError(t, d.fence(later))
			require.ErrorIs(t, d.fence(former), guardsql.ErrStale, "%q", keys[0])
		}
	})
}

func TestFence_ErrorsOfTheDatabaseAreUnchanged(t *testing.T) {
	each(t, func(t *testing.T, d *db) {
		_, later := twoHolders(t, newKey())
		_, driver := d.Exec(d.q(`DELETE FROM missing WHERE lock_key = $1`), []byte("k"))
		err := d.fence(later, guardsql.Table("missing"))
		assert.Equal(t, reflect.TypeOf(driver), reflect.TypeOf(err))
		require.ErrorContains(t, err, "missing")
		schema := map[guardsql.Dialect]string{guardsql.Postgres: "public", guardsql.MySQL: "test", guardsql.SQLite: "main"}[d.dialect]
		require.NoError(t, d.fence(later, guardsql.Table(schema+".redlatch_fences")))
		ended, cancel := context.WithCancel(later)
		cancel()
		require.ErrorIs(t, d.fence(ended), context.Canceled)
		tx := d.begin(t)
		require.NoError(t, tx.Rollback())
		require.Equal(t, sql.ErrTxDone, guardsql.Fence(later, tx, d.dialect))
	})
}

// A snapshot that is older than the last fenced transaction is never read.
func TestFence_SerializationFailuresAreErrorsOfPostgreSQL(t *testing.T) {
	t.Parallel()
	d := setups[0].open(t)
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		former, later := twoHolders(t, newKey())
		require.NoError(t, d.fence(former))
		tx, err := d.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		require.NoError(t, err)
		_, err = tx.Exec(`SELECT 1`) // takes the snapshot
		require.NoError(t, err)
		require.NoError(t, d.fence(former))
		var of *pgconn.PgError
		require.ErrorAs(t, guardsql.Fence(later, tx), &of, level)
		assert.Equal(t, "40001", of.Code)
		require.NoError(t, tx.Rollback())
	}
}

// A lock that is lost, and whose loss has not come to a later holder yet: the database decides.
func TestFence_DoesNotAskWhetherTheLockIsHeld(t *testing.T) {
	t.Parallel()
	d := setups[len(setups)-1].open(t)
	key := newKey()
	former, later := twoHolders(t, key)
	l, held := guard.Held(former, guard.Key(key))
	require.True(t, held)
	require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
	require.ErrorIs(t, d.fence(former), context.Canceled, "the end of the lock has ended ctx")
	former = context.WithoutCancel(former)
	require.NoError(t, d.fence(former))
	require.NoError(t, d.fence(former, guardsql.For(guard.Key(key))))
	require.NoError(t, d.fence(later))
	require.ErrorIs(t, d.fence(former), guardsql.ErrStale)
}

func TestInTx_CommitsOrLeavesNothing(t *testing.T) {
	errBoom := errors.New("boom")
	each(t, func(t *testing.T, d *db) {
		key := newKey()
		former, later := twoHolders(t, key)
		insert := func(end func() error) error {
			return guardsql.InTx(later, d.DB, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, d.q(`INSERT INTO stock (id, amount) VALUES ($1, 1)`), key)
				require.NoError(t, err)
				return end()
			}, d.dialect)
		}
		count := func() (n int) {
			require.NoError(t, d.QueryRow(d.q(`SELECT count(*) FROM stock WHERE id = $1`), key).Scan(&n))
			return n
		}
		require.Equal(t, errBoom, insert(func() error { return errBoom }))
		assert.Zero(t, count())
		assert.PanicsWithValue(t, "boom", func() { _ = insert(func() error { panic("boom") }) })
		assert.Zero(t, count())
		require.NoError(t, d.fence(former), "a later holder was here, and left nothing")
		require.NoError(t, insert(func() error { return nil }))
		assert.Equal(t, 1, count())
		require.Equal(t, guardsql.ErrNoLock, d.fence(t.Context()))
		require.Equal(t, guardsql.ErrStale, guardsql.InTx(former, d.DB, func(context.Context, *sql.Tx) error {
			t.Error("it runs")
			return nil
		}, d.dialect))
		assert.Zero(t, d.Stats().InUse, "each transaction has ended")
	})
}

//go:build unix

package dbtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guardsql"
	"github.com/redlatch/redlatch/internal/mariadbtest"
	"github.com/redlatch/redlatch/internal/postgrestest"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) {
	code := redistest.Run(m)
	postgrestest.Stop()
	mariadbtest.Stop()
	os.Exit(code)
}

// setup is a database and a driver, with the options of the driver that change what it reports.
type setup struct {
	name    string
	dialect guardsql.Dialect
	driver  string
	source  func(tb testing.TB) string
}

// sqliteFile is a file of tb's own, in which a writer waits for another one.
func sqliteFile(tb testing.TB) string {
	return "file:" + filepath.Join(tb.TempDir(), "test.db") + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)"
}

var setups = []setup{
	{"PostgreSQL, pgx", guardsql.Postgres, "pgx", postgrestest.Shared},
	{"PostgreSQL, lib-pq", guardsql.Postgres, "postgres", func(tb testing.TB) string { return postgrestest.Shared(tb) + " sslmode=disable" }},
	{"MariaDB", guardsql.MySQL, "mysql", mariadbtest.Shared},
	{"MariaDB, clientFoundRows", guardsql.MySQL, "mysql", func(tb testing.TB) string { return mariadbtest.Shared(tb) + "?clientFoundRows=true" }},
	{"MariaDB, interpolateParams", guardsql.MySQL, "mysql", func(tb testing.TB) string { return mariadbtest.Shared(tb) + "?interpolateParams=true" }},
	{"SQLite", guardsql.SQLite, "sqlite", sqliteFile},
}

// db is an open database with the table of fences and a table of the tests.
type db struct {
	*sql.DB

	setup
}

const stockTable = `CREATE TABLE IF NOT EXISTS stock (id VARCHAR(64) PRIMARY KEY, amount BIGINT NOT NULL)`

func (s setup) open(tb testing.TB) *db {
	tb.Helper()
	pool, err := sql.Open(s.driver, s.source(tb))
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = pool.Close() })
	creating.Lock() // PostgreSQL cannot create one table twice at the same time, also with IF NOT EXISTS
	defer creating.Unlock()
	for _, statement := range []string{guardsql.Schema(s.dialect), stockTable} {
		_, err = pool.ExecContext(tb.Context(), statement)
		require.NoError(tb, err)
	}
	return &db{pool, s}
}

var creating sync.Mutex

// each runs a test on every setup.
func each(t *testing.T, test func(t *testing.T, d *db)) {
	t.Helper()
	t.Parallel()
	for _, s := range setups {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, s.open(t))
		})
	}
}

func (d *db) begin(t *testing.T) *sql.Tx {
	t.Helper()
	tx, err := d.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// fence is a transaction of nothing else.
func (d *db) fence(ctx context.Context, opts ...guardsql.Option) error {
	return guardsql.InTx(ctx, d.DB, func(context.Context, *sql.Tx) error { return nil }, append(opts, d.dialect)...)
}

// q writes the placeholders of the dialect for $1 and $2.
func (d *db) q(query string) string {
	if d.dialect == guardsql.MySQL {
		return strings.NewReplacer("$1", "?", "$2", "?").Replace(query)
	}
	return query
}

// newKey is a key that no other test uses.
func newKey() string { return "stock:" + rand.Text()[:12] }

// twoHolders returns the contexts of two holders of a key: the second one got the lock when the store
// had lost the lock of the first one, who has not noticed it.
func twoHolders(t *testing.T, key string) (former, later context.Context) {
	t.Helper()
	store := guardtest.NewStore()
	take := func() context.Context {
		g, err := guard.NewWithStore(store, guard.TTL(time.Hour))
		require.NoError(t, err)
		t.Cleanup(func() { _ = g.Close() })
		l, err := g.Acquire(t.Context(), guard.Key(key))
		require.NoError(t, err)
		return l.Context()
	}
	former = take()
	store.Drop(key)
	return former, take()
}

package guardsql

import (
	"database/sql"
	"fmt"
)

// Dialect is the SQL of a database. It is an [Option]; without one, the Dialect is Postgres.
type Dialect int

// The databases that guardsql is tested with. MySQL includes MariaDB.
const (
	Postgres Dialect = iota + 1
	MySQL
	SQLite
)

// String returns "Postgres", "MySQL" or "SQLite".
func (d Dialect) String() string {
	if d.known() {
		return [...]string{"Postgres", "MySQL", "SQLite"}[d-1]
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

func (d Dialect) known() bool { return d >= Postgres && d <= SQLite }

func (d Dialect) apply(s *settings) error {
	if !d.known() {
		return fmt.Errorf("guardsql: %v: take Postgres, MySQL or SQLite", d)
	}
	s.dialect = d
	return nil
}

// Schema returns the statement that creates the table of fences, redlatch_fences, if it is missing.
// Run it once, in a migration. For another name, see [Table]: copy the statement and change the
// name. It panics if d is not one of the constants.
//
// A key is stored as its bytes: databases compare texts by collations, which hold different keys for
// equal, or change with the operating system.
func Schema(d Dialect) string {
	switch d {
	case Postgres:
		return `CREATE TABLE IF NOT EXISTS redlatch_fences (
	lock_key BYTEA PRIMARY KEY,
	fence BIGINT NOT NULL
)`
	case MySQL:
		return `CREATE TABLE IF NOT EXISTS redlatch_fences (
	lock_key VARBINARY(512) PRIMARY KEY,
	fence BIGINT NOT NULL
) ENGINE = InnoDB`
	case SQLite:
		return `CREATE TABLE IF NOT EXISTS redlatch_fences (
	lock_key BLOB PRIMARY KEY NOT NULL,
	fence INTEGER NOT NULL
)`
	}
	panic(fmt.Sprintf("guardsql: Schema of %v: take Postgres, MySQL or SQLite", d))
}

// statement locks the row of the key, and raises its fence unless that is higher.
func (c claim) statement() string {
	if c.dialect == MySQL {
		// ON DUPLICATE KEY UPDATE has no WHERE, and the number of rows does not tell a lower fence from
		// an equal one. LAST_INSERT_ID(x) has the server send x with the result: the fence that the
		// row has now.
		return `INSERT INTO ` + c.table + ` (lock_key, fence) VALUES (?, LAST_INSERT_ID(?))
			ON DUPLICATE KEY UPDATE fence = LAST_INSERT_ID(GREATEST(fence, ?))`
	}
	return `INSERT INTO ` + c.table + ` AS f (lock_key, fence) VALUES ($1, $2)
		ON CONFLICT (lock_key) DO UPDATE SET fence = excluded.fence WHERE f.fence <= excluded.fence`
}

func (c claim) args() []any {
	if c.dialect == MySQL {
		return []any{c.key, c.fence, c.fence}
	}
	return []any{c.key, c.fence}
}

// result returns what check judges.
func (c claim) result(done sql.Result) (int64, error) {
	if c.dialect == MySQL {
		return done.LastInsertId()
	}
	return done.RowsAffected()
}

// check judges the fence of the row in MySQL, else the number of rows that the statement changed.
func (c claim) check(n int64) error {
	passed := int64(1)
	if c.dialect == MySQL {
		passed = c.fence
	}
	if n != passed {
		return ErrStale
	}
	return nil
}

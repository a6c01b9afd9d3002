//go:build unix

package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guardsql"
)

// statements is a transaction that records what it was sent.
type statements []any

func (s *statements) ExecContext(_ context.Context, _ string, args ...any) (sql.Result, error) {
	*s = append(*s, string(args[0].([]byte)))
	return s, nil
}
func (*statements) LastInsertId() (int64, error) { return 0, nil }
func (*statements) RowsAffected() (int64, error) { return 1, nil }

func TestErrNoLock_WithoutAnExclusiveLock(t *testing.T) {
	t.Parallel()
	g := guardtest.NewMemoryGuard(t)
	take := func(ctx context.Context, key string, opts ...guard.LockOption) context.Context {
		l, err := g.Acquire(ctx, guard.Key(key), opts...)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Release(context.Background()) })
		return l.Context()
	}
	order := take(t.Context(), "order:42")
	const none = "" // no lock that fences
	of := func(key string) guardsql.Option { return guardsql.For(guard.Key(key)) }
	for name, test := range map[string]struct {
		ctx  context.Context
		opts []guardsql.Option
		want string
	}{
		"no lock":                  {t.Context(), nil, none},
		"a permit":                 {take(t.Context(), "exports", guard.Limit(3)), nil, none},
		"another key":              {order, []guardsql.Option{of("order:43")}, none},
		"a lock":                   {order, nil, "order:42"},
		"a permit inside the lock": {take(order, "tenant:8", guard.Limit(3)), nil, "order:42"},
		"the innermost":            {take(order, "account:7"), nil, "account:7"},
		"For the outer one":        {take(order, "account:8"), []guardsql.Option{guardsql.For(guard.Keyf("order:%d", 42))}, "order:42"},
		"the last For":             {order, []guardsql.Option{of("x"), of("order:42")}, "order:42"},
	} {
		var tx statements
		err := guardsql.Fence(test.ctx, &tx, test.opts...)
		if test.want == none {
			require.Equal(t, guardsql.ErrNoLock, err, name)
			assert.Empty(t, tx, name)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, statements{test.want}, tx, name)
	}
}

func TestMisuse_IsNamed(t *testing.T) {
	t.Parallel()
	_, ctx := twoHolders(t, newKey())
	errBoom := errors.New("boom")
	broken := guardsql.Fence(ctx, &statements{}, guardsql.For(func(context.Context) (string, error) { return "", errBoom }))
	require.ErrorIs(t, broken, errBoom)
	for want, err := range map[string]error{
		"For: the key function failed: boom":       broken,
		"tx is a *sql.DB, not a transaction":       guardsql.Fence(ctx, new(sql.DB)),
		"tx is a <nil>, not a transaction":         guardsql.Fence(ctx, nil),
		"tx is a *pgxpool.Pool, not a transaction": guardsql.FencePGX(ctx, new(pgxpool.Pool)),
		"tx is a *pgx.Conn, not a transaction":     guardsql.FencePGX(ctx, new(pgx.Conn)),
		"an Option is nil":                         guardsql.Fence(ctx, &statements{}, nil),
		"For: key is nil":                          guardsql.Fence(ctx, &statements{}, guardsql.For(nil)),
		"Dialect(0): take":                         guardsql.Fence(ctx, &statements{}, guardsql.Dialect(0)),
		"Dialect(4): take":                         guardsql.Fence(ctx, &statements{}, guardsql.SQLite+1),
		"FencePGX: the Dialect is MySQL":           guardsql.FencePGX[pgconn.CommandTag](ctx, nil, guardsql.MySQL),
		"InTx: db is nil":                          guardsql.InTx(ctx, nil, func(context.Context, *sql.Tx) error { return nil }),
		"InTx: fn is nil":                          guardsql.InTx(ctx, new(sql.DB), nil),
	} {
		require.ErrorContains(t, err, "guardsql: "+want)
	}
	require.ErrorContains(t, guardsql.FencePGX[pgconn.CommandTag](ctx, nil), "tx is a <nil>, not a transaction")
	for _, name := range []string{"", "a b", "a;", "1a", "a.b.c", `"a"`, "a.", ".a", strings.Repeat("a", 64), "a\n"} {
		err := guardsql.Fence(ctx, &statements{}, guardsql.Table(name))
		assert.ErrorContains(t, err, "guardsql: Table: ", name)
	}
	assert.PanicsWithValue(t, "guardsql: Schema of Dialect(0): take Postgres, MySQL or SQLite", func() { guardsql.Schema(0) })
	assert.Equal(t, "Postgres MySQL SQLite", strings.Join([]string{guardsql.Postgres.String(), guardsql.MySQL.String(), guardsql.SQLite.String()}, " "))
}

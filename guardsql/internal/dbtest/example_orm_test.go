package dbtest

import (
	"context"
	"database/sql"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"

	"github.com/redlatch/redlatch/guardsql"
)

// The client that ent generates is ent.NewClient(ent.Driver(driver)).
func sellWithEnt(ctx context.Context, db *sql.DB, sku string) error {
	return guardsql.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
		driver := entsql.NewDriver(dialect.Postgres, entsql.Conn{ExecQuerier: tx})
		return sellThrough(ctx, driver, sku)
	})
}

// sellThrough has ent's builder make the statement.
func sellThrough(ctx context.Context, driver dialect.ExecQuerier, sku string) error {
	query, args := entsql.Dialect(dialect.Postgres).Update("stock").Add("amount", -1).Where(entsql.EQ("id", sku)).Query()
	var done entsql.Result
	return driver.Exec(ctx, query, args, &done)
}

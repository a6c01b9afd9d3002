package dbtest

import (
	"context"
	"database/sql"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"gorm.io/gorm"

	"github.com/redlatch/redlatch/guardsql"
	"github.com/redlatch/redlatch/guardsql/internal/dbtest/stockdb"
)

// Stock is a model of gorm.
type Stock struct {
	ID     string `gorm:"primaryKey"`
	Amount int
}

// TableName implements gorm's Tabler.
func (Stock) TableName() string { return "stock" }

func sellWithGorm(ctx context.Context, db *gorm.DB, sku string) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := guardsql.Fence(ctx, tx.Statement.ConnPool); err != nil {
			return err
		}
		stock := Stock{ID: sku}
		if err := tx.First(&stock).Error; err != nil {
			return err
		}
		return tx.Model(&stock).Update("amount", stock.Amount-1).Error
	})
}

func sellWithSQLC(ctx context.Context, db *sql.DB, queries *stockdb.Queries, sku string) error {
	return guardsql.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
		q := queries.WithTx(tx)
		amount, err := q.Amount(ctx, sku)
		if err != nil {
			return err
		}
		return q.SetAmount(ctx, stockdb.SetAmountParams{ID: sku, Amount: amount - 1})
	})
}

// The client that ent generates is ent.NewClient(ent.Driver(driver)). Without it, the statements of ent's
// builder go through the same driver.
func sellWithEnt(ctx context.Context, db *sql.DB, sku string) error {
	return guardsql.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
		driver := entsql.NewDriver(dialect.Postgres, entsql.Conn{ExecQuerier: tx})
		return sellThrough(ctx, driver, sku)
	})
}

func sellWithPGX(ctx context.Context, pool *pgxpool.Pool, sku string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := guardsql.FencePGX(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE stock SET amount = amount - 1 WHERE id = $1`, sku)
		return err
	})
}

package main

import (
	"context"
	"database/sql"
	"os"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"leafd.io/leafd"
	"shop/ent"
)

func inserting(generator leafd.Generator) func(context.Context, []string) error {
	pool, _ := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	pool.SetMaxOpenConns(20)
	database := ent.NewClient(ent.Driver(entsql.OpenDB(dialect.Postgres, pool)))
	database.Order.Use(drawing(generator))
	return func(ctx context.Context, items []string) error {
		return database.Order.MapCreateBulk(items, func(order *ent.OrderCreate, row int) { order.SetItem(items[row]) }).Exec(ctx)
	}
}

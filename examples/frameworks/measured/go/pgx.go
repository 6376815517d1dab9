package main

import (
	"context"
	"database/sql"
	"os"

	"leafd.io/leafd"
)

func inserting(generator leafd.Generator) func(context.Context, []string) error {
	database, _ := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	database.SetMaxOpenConns(20)
	return func(ctx context.Context, items []string) error {
		_, err := insertOrders(ctx, database, generator, items)
		return err
	}
}

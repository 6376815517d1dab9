package main

import (
	"context"
	"database/sql"
	"os"

	"leafd.io/leafd"
)

func init() { sources = append(sources, "own") }

func inserting(generator leafd.Generator) func(context.Context, []string) error {
	database, _ := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	database.SetMaxOpenConns(20)
	return func(ctx context.Context, items []string) error {
		if items[0] == "own" {
			_, err := database.ExecContext(ctx, "INSERT INTO orders (item) SELECT unnest($1::text[])", items)
			return err
		}
		_, err := insertOrders(ctx, database, generator, items)
		return err
	}
}

package main

import (
	"context"
	"os"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"leafd.io/leafd"
)

func inserting(generator leafd.Generator) func(context.Context, []string) error {
	ids = generator
	database, err := gorm.Open(postgres.Open(os.Getenv("DATABASE_URL")))
	if err != nil {
		panic(err)
	}
	pool, _ := database.DB()
	pool.SetMaxOpenConns(20)
	return func(ctx context.Context, items []string) error {
		orders := make([]Order, len(items))
		for row, item := range items {
			orders[row].Item = item
		}
		return database.WithContext(ctx).Create(&orders).Error
	}
}

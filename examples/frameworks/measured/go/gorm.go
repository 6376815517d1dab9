package main

import (
	"context"
	"os"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"leafd.io/leafd"
)

// Numbered leaves the ids to the table's sequence.
type Numbered struct {
	ID   int64
	Item string
}

func (Numbered) TableName() string { return "orders" }

func init() { sources = append(sources, "own") }

func inserting(generator leafd.Generator) func(context.Context, []string) error {
	ids = generator
	database, err := gorm.Open(postgres.Open(os.Getenv("DATABASE_URL")))
	if err != nil {
		panic(err)
	}
	pool, _ := database.DB()
	pool.SetMaxOpenConns(20)
	return func(ctx context.Context, items []string) error {
		if items[0] == "own" {
			numbered := make([]Numbered, len(items))
			for row, item := range items {
				numbered[row].Item = item
			}
			return database.WithContext(ctx).Create(&numbered).Error
		}
		orders := make([]Order, len(items))
		for row, item := range items {
			orders[row].Item = item
		}
		return database.WithContext(ctx).Create(&orders).Error
	}
}

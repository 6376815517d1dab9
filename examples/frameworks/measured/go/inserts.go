package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"leafd.io/leafd"
)

type counted struct{}

// switching draws from leafd, or from a counter if the context says so.
type switching struct {
	leafd.Generator
	counter atomic.Int64
}

func (s *switching) Next(ctx context.Context, tag string) (int64, error) {
	if ctx.Value(counted{}) != nil {
		return s.counter.Add(1), nil
	}
	return s.Generator.Next(ctx, tag)
}

// sources are where ids come from.
var sources = []string{"leafd", "counter"}

// main inserts batches of rows, with ids from each source in a random order.
func main() {
	client, _ := leafd.New(leafd.Options{})
	insert := inserting(&switching{Generator: client})
	rows, _ := strconv.Atoi(os.Getenv("ROWS"))
	tasks, _ := strconv.Atoi(os.Getenv("TASKS"))
	var running sync.WaitGroup
	for range tasks {
		running.Go(func() {
			for round := "first "; ; round = "" {
				if _, err := os.Stat(os.Getenv("RUNNING")); err != nil {
					return
				}
				for _, chosen := range rand.Perm(len(sources)) {
					source := sources[chosen]
					ctx := context.Background()
					if source == "counter" {
						ctx = context.WithValue(ctx, counted{}, true)
					}
					items := make([]string, rows)
					for row := range items {
						items[row] = source
					}
					began := time.Now()
					if err := insert(ctx, items); err != nil {
						fmt.Println("failed", source, err)
					} else {
						fmt.Println(round+source, time.Since(began).Microseconds())
					}
				}
			}
		})
	}
	running.Wait()
}

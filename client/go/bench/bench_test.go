// Package bench measures the cost of an id, next to that of the alternatives that Go programs use.
// `client/go/bench/run` runs it.
package bench

import (
	"context"
	"os"
	"sync/atomic"
	"testing"

	"github.com/bwmarrin/snowflake"
	"github.com/google/uuid"

	"leafd.io/leafd"
)

var sum atomic.Int64 // so that nothing is optimised away

func client(b *testing.B, options leafd.Options) *leafd.Client {
	b.Helper()
	if os.Getenv("LEAFD_SOCKET") == "" {
		b.Skip("LEAFD_SOCKET names no daemon; see client/go/bench/run")
	}
	c, err := leafd.New(options)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

// measure draws from one goroutine, and from one for each core.
func measure(b *testing.B, next func() (int64, error)) {
	b.Run("goroutines=1", func(b *testing.B) {
		for i := 0; i < b.N; i++ {
			id, err := next()
			if err != nil {
				b.Fatal(err)
			}
			if id < 0 {
				sum.Add(id)
			}
		}
	})
	b.Run("goroutines=cores", func(b *testing.B) {
		b.RunParallel(func(each *testing.PB) {
			for each.Next() {
				id, err := next()
				if err != nil {
					b.Error(err)
				}
				if id < 0 {
					sum.Add(id)
				}
			}
		})
	})
}

func BenchmarkLeafdHeld(b *testing.B) {
	c, ctx := client(b, leafd.Options{}), context.Background()
	measure(b, func() (int64, error) { return c.Next(ctx, "bench") })
}

func BenchmarkLeafdSnowflakeHeld(b *testing.B) {
	c, ctx := client(b, leafd.Options{}), context.Background()
	measure(b, func() (int64, error) { return c.Next(ctx, "snowflake") })
}

func BenchmarkLeafdDirect(b *testing.B) {
	c, ctx := client(b, leafd.Options{}), context.Background()
	measure(b, func() (int64, error) { return c.NextDirect(ctx, "bench") })
}

func BenchmarkLeafdBatchOf1000(b *testing.B) {
	c, ctx := client(b, leafd.Options{}), context.Background()
	for i := 0; i < b.N; i += 1000 {
		if _, err := c.NextBatch(ctx, "bench", 1000); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBwmarrinSnowflake(b *testing.B) {
	node, err := snowflake.NewNode(1)
	if err != nil {
		b.Fatal(err)
	}
	measure(b, func() (int64, error) { return node.Generate().Int64(), nil })
}

func BenchmarkGoogleUUIDv4(b *testing.B) {
	measure(b, func() (int64, error) {
		id, err := uuid.NewRandom()
		return int64(id[0]), err
	})
}

func BenchmarkGoogleUUIDv7(b *testing.B) {
	measure(b, func() (int64, error) {
		id, err := uuid.NewV7()
		return int64(id[0]), err
	})
}

// BenchmarkCounter measures the lower bound for ids that several goroutines share.
func BenchmarkCounter(b *testing.B) {
	var counter atomic.Int64
	measure(b, func() (int64, error) { return counter.Add(1), nil })
}

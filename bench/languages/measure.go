// Prints what an id costs in Go, from a held run and drawn directly, in nanoseconds.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"leafd.io/leafd"
)

func cost(draw func(context.Context, string) (int64, error)) float64 {
	ms, _ := strconv.Atoi(os.Getenv("MS"))
	drawn, began := 0, time.Now()
	for time.Since(began) < time.Duration(ms)*time.Millisecond {
		for i := 0; i < 100; i++ {
			if _, err := draw(context.Background(), "bench"); err != nil {
				panic(err)
			}
		}
		drawn += 100
	}
	return float64(time.Since(began)) / float64(drawn)
}

func main() {
	client, err := leafd.New(leafd.Options{})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	cost(client.Next)
	fmt.Println(cost(client.Next), cost(client.NextDirect))
}

// Draws ids of a tag; with -direct, draws each one directly from the daemon: go run ./examples/draw [-direct] [-n
// COUNT] TAG
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"leafd.io/leafd"
)

func main() {
	count := flag.Int("n", 5, "how many ids")
	direct := flag.Bool("direct", false, "draw each id directly, in order")
	timeout := flag.Duration("timeout", time.Minute, "time limit for all draws together")
	flag.Parse()
	if err := draw(flag.Arg(0), *count, *direct, *timeout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if errors.Is(err, leafd.StatusTagUnknown) {
			fmt.Fprintf(os.Stderr, "create it: leafctl tag create %s\n", flag.Arg(0))
		}
		os.Exit(1)
	}
}

func draw(tag string, count int, direct bool, timeout time.Duration) error {
	client, err := leafd.New(leafd.Options{Direct: direct})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for ; count > 0; count-- {
		id, err := client.Next(ctx, tag)
		if err != nil {
			return err
		}
		fmt.Println(id)
	}
	return nil
}

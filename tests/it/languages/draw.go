// Writes ids of every form to a file until standard input ends. Only what a retry may mend may go wrong.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"time"

	"leafd.io/leafd"
)

func main() {
	client, err := leafd.New(leafd.Options{Socket: os.Args[1]})
	check(err)
	out, err := os.OpenFile(os.Args[2], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	check(err)
	ended := make(chan bool)
	go func() { io.Copy(io.Discard, os.Stdin); close(ended) }()
	for {
		select {
		case <-ended:
			return
		case <-time.After(time.Millisecond):
		}
		var bytes []byte
		ids, err := draw(client)
		var failure *leafd.Error
		if err != nil && !(errors.As(err, &failure) && failure.Retryable()) {
			check(err)
		}
		for _, id := range ids {
			bytes = binary.LittleEndian.AppendUint64(bytes, uint64(id))
		}
		_, err = out.Write(bytes)
		check(err)
	}
}

func draw(client *leafd.Client) (ids []int64, err error) {
	ctx := context.Background()
	for i := 0; i < 21; i++ {
		next := client.Next
		if i == 20 {
			next = client.NextDirect
		}
		id, err := next(ctx, "orders")
		if err != nil {
			return ids, err
		}
		ids = append(ids, id)
	}
	batch, err := client.NextBatch(ctx, "orders", 5)
	return append(ids, batch...), err
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

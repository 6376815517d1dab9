package leafdtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"leafd.io/leafd"
	"leafd.io/leafd/leafdtest"
)

// placeOrder is a program's own function, which takes the interface.
func placeOrder(ctx context.Context, ids leafd.Generator) (string, error) {
	id, err := ids.Next(ctx, "orders")
	return fmt.Sprintf("order %d", id), err
}

func ExampleFake() {
	var fake leafdtest.Fake
	fake.Start("orders", 100)
	fmt.Println(placeOrder(context.Background(), &fake))
	// Output: order 100 <nil>
}

func TestTheFakeFailsAsItIsTold(t *testing.T) {
	var fake leafdtest.Fake
	fake.Fail(&leafd.Error{Status: leafd.StatusStoreUnavailable, Message: "the store is away"})
	if _, err := placeOrder(context.Background(), &fake); !errors.Is(err, leafd.StatusStoreUnavailable) {
		t.Fatal(err)
	}
	ids, err := fake.NextBatch(context.Background(), "orders", 3)
	if err != nil || fmt.Sprint(ids) != "[1 2 3]" {
		t.Fatal(ids, err)
	}
	if id, err := fake.NextDirect(context.Background(), "other"); err != nil || id != 1 {
		t.Fatal(id, err)
	}
	for _, count := range []int{-1, 1} {
		ended, cancel := context.WithCancel(context.Background())
		if count > 0 {
			cancel()
		}
		_, err := fake.NextBatch(ended, "orders", count)
		if count < 0 && !errors.Is(err, leafd.ErrInvalid) || count > 0 && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		cancel()
	}
}

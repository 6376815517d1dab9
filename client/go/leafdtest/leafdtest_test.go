package leafdtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"leafd.io/leafd"
	"leafd.io/leafd/leafdtest"
)

// placeOrder is a function of a program, which takes the interface.
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
	fake.Fail(&leafd.Error{Status: leafd.StatusStoreUnavailable, Message: "the store is unavailable"})
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

// fileInvoice is a function of a program, which takes a series.
func fileInvoice(ctx context.Context, invoices *leafd.Series) (string, error) {
	return invoices.Next(ctx)
}

func TestTheFakeCountsDocumentNumbers(t *testing.T) {
	var fake leafdtest.Fake
	fake.Start("bills", 7)
	if number, err := fileInvoice(context.Background(), fake.Series("bills")); err != nil || number != "bills-7" {
		t.Fatal(number, err)
	}
	orders := fake.Series("orders").Tenant("acme")
	if numbers, err := orders.NextBatch(context.Background(), 2); err != nil || fmt.Sprint(numbers) != "[orders-ACME-1 orders-ACME-2]" {
		t.Fatal(numbers, err)
	}
	fake.Fail(&leafd.Error{Status: leafd.StatusTagUnknown, Message: "no such series"})
	if number, err := orders.Next(context.Background()); !errors.Is(err, leafd.StatusTagUnknown) || number != "" {
		t.Fatal(number, err)
	}
	if _, err := orders.NextBatch(context.Background(), -1); !errors.Is(err, leafd.ErrInvalid) {
		t.Fatal(err)
	}
}

package leafd

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// numbering returns a host with two series.
func numbering(t *testing.T) *host {
	h := newHost(t)
	h.start()
	h.leafctl("series", "create", "bills", "--format", "B{n:4}")
	h.leafctl("series", "create", "orders", "--format", "O-{tenant}-{n:3}")
	return h
}

func TestDocumentNumbersAreDrawn(t *testing.T) {
	c, ctx := client(t, numbering(t).socket(), Options{Timeout: time.Minute}), context.Background()
	bills := c.Series("bills")
	if number, err := bills.Next(ctx); err != nil || number != "B0001" {
		t.Fatal(number, err)
	}
	numbers, err := bills.NextBatch(ctx, 1500)
	if err != nil || len(numbers) != 1500 || numbers[0] != "B0002" || numbers[1499] != "B1501" {
		t.Fatal(len(numbers), err)
	}
	if none, err := bills.NextBatch(ctx, 0); err != nil || len(none) != 0 {
		t.Fatal(none, err)
	}
	numbers, err = c.Series("orders").Tenant("acme").NextBatch(ctx, 2)
	if got := strings.Join(numbers, " "); err != nil || got != "O-ACME-001 O-ACME-002" {
		t.Fatal(got, err)
	}
}

func TestDocumentNumbersThatCannotBe(t *testing.T) {
	c, ctx := client(t, numbering(t).socket(), Options{}), context.Background()
	bills, orders := c.Series("bills"), c.Series("orders")
	for _, wrong := range []struct {
		series *Series
		status Status
		words  string
	}{
		{c.Series("nosuch"), StatusTagUnknown, "leafctl series create"},
		{c.Series(""), StatusTagUnknown, "no series"},
		{c.Series("b\xff"), StatusTagUnknown, "no series"},
		{c.Series(strings.Repeat("b", 41)), StatusTagUnknown, "no series"},
		{c.Series(strings.Repeat("b", 100_000)), StatusTagUnknown, "no series"},
		{bills.Tenant("acme"), StatusValueRefused, "{tenant}"},
		{orders, StatusValueRefused, "needs a tenant"},
		{orders.Tenant("a-b"), StatusValueRefused, "letters and digits"},
		{orders.Tenant(strings.Repeat("a", 33)), StatusValueRefused, "1 to 32"},
		{orders.Tenant(strings.Repeat("a", 100_000)), StatusValueRefused, "1 to 32"},
	} {
		number, err := wrong.series.Next(ctx)
		own := wantIs(t, err, wrong.status, false, false)
		if number != "" || !strings.Contains(own.Message, wrong.words) {
			t.Errorf("%.20q: %q, %v", wrong.series.name, number, own)
		}
	}
	for _, count := range []int{-1, 1_000_001} {
		_, err := bills.NextBatch(ctx, count)
		wantIs(t, err, ErrInvalid, false, false)
	}
	if number, err := bills.Next(ctx); err != nil || number != "B0001" {
		t.Fatal("a refused call drew a number: ", number, err)
	}
}

func TestDocumentNumbersOfADaemonThatIsAway(t *testing.T) {
	h := numbering(t)
	c := client(t, h.socket(), Options{Timeout: time.Minute})
	bills := c.Series("bills")
	if _, err := bills.Next(background()); err != nil {
		t.Fatal(err)
	}
	h.stop()
	_, err := bills.Next(within(t, 100*time.Millisecond))
	wantIs(t, err, ErrUnreachable, false, true)
	drawn := make(chan string)
	go func() {
		number, err := bills.Next(background())
		if err != nil {
			t.Error(err)
		}
		drawn <- number
	}()
	h.start()
	if number := <-drawn; number != "B0002" {
		t.Fatal(number)
	}
	c.Close()
	_, err = bills.Next(background())
	wantIs(t, err, ErrClosed, false, false)
}

func TestADocumentNumberIsAskedForWithTheTimeThatIsLeft(t *testing.T) {
	p := newPeer(t)
	p.answers(silent)
	c := client(t, p.path, Options{Timeout: 30 * time.Millisecond})
	_, err := c.Series("bills").Next(background())
	wantIs(t, err, os.ErrDeadlineExceeded, true, true)
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := p.requests[0].left(); p.requests[0].opcode != opSeriesNext || left == 0 || left > 280 {
		t.Fatalf("%+v", p.requests[0])
	}
}

func TestBrokenAnswersAreNoDocumentNumbers(t *testing.T) {
	p := newPeer(t)
	c := client(t, p.path, Options{})
	for _, body := range []string{"", "\n", "B1\n", "\nB1", "B1\nB2"} {
		p.answers(func(a asked) []byte { return reply(a, StatusOK, []byte(body)) })
		numbers, err := c.Series("bills").NextBatch(background(), 1)
		wantIs(t, err, ErrProtocol, false, false)
		if numbers != nil {
			t.Errorf("% x: %q", body, numbers)
		}
	}
}

package leafd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const goroutines = 6

// drawers draw with every kind of call until they are stopped.
type drawers struct {
	stop   chan struct{}
	drawn  [goroutines]atomic.Int64
	group  sync.WaitGroup
	ids    [goroutines][]int64
	err    [goroutines]error
	failed atomic.Bool
}

func drawAll(c *Client, mayFail bool) *drawers {
	d := &drawers{stop: make(chan struct{})}
	for number := 0; number < goroutines; number++ {
		number := number
		d.group.Add(1)
		go func() {
			defer d.group.Done()
			for {
				select {
				case <-d.stop:
					return
				default:
				}
				ids, err := drawOnce(c, number)
				var own *Error
				if err != nil && !(mayFail && errors.As(err, &own) && own.Retryable()) {
					d.err[number] = err
					d.failed.Store(true)
					return
				}
				d.ids[number] = append(d.ids[number], ids...)
				d.drawn[number].Add(int64(len(ids)))
			}
		}()
	}
	return d
}

func drawOnce(c *Client, kind int) ([]int64, error) {
	var id int64
	var err error
	switch kind % 3 {
	case 0:
		id, err = c.NextDirect(background(), "orders")
	case 1:
		return c.NextBatch(background(), "orders", 10)
	default:
		id, err = c.Next(background(), "orders")
		if id%1000 == 0 {
			time.Sleep(time.Millisecond) // a few hundred thousand ids are enough
		}
	}
	if err != nil {
		return nil, err
	}
	return []int64{id}, nil
}

// awaitTwo waits until each goroutine has drawn twice. Requests are retried only once, so pending requests must be
// answered before the daemon is stopped again.
func (d *drawers) awaitTwo(t *testing.T) {
	t.Helper()
	var before [goroutines]int64
	for i := range before {
		before[i] = d.drawn[i].Load()
	}
	eventually(t, "each has drawn twice", func() bool {
		for i := range before {
			if d.drawn[i].Load() < before[i]+2 {
				return d.failed.Load()
			}
		}
		return true
	})
}

func (d *drawers) end(t *testing.T) {
	t.Helper()
	close(d.stop)
	d.group.Wait()
	for _, err := range d.err {
		if err != nil {
			t.Error(err)
		}
	}
	count := 0
	for i := range d.ids {
		count += len(d.ids[i])
	}
	unique(t, count, d.ids[:]...)
	t.Logf("%d ids", count)
}

func TestNoCallFailsAndNoIDComesTwiceOverRestarts(t *testing.T) {
	for name, away := range map[string]func(*host){"stopped": (*host).stop, "killed": (*host).kill} {
		away := away
		t.Run(name, func(t *testing.T) {
			h := serving(t)
			d := drawAll(client(t, h.socket(), Options{Timeout: time.Minute}), false)
			for round := 0; round < 3; round++ {
				d.awaitTwo(t)
				away(h)
				time.Sleep(50 * time.Millisecond)
				h.start()
			}
			d.awaitTwo(t)
			d.end(t)
		})
	}
}

func TestAFrozenDaemonFailsCallsAndGoesOn(t *testing.T) {
	h := serving(t)
	d := drawAll(client(t, h.socket(), Options{Timeout: 100 * time.Millisecond}), true)
	for round := 0; round < 2; round++ {
		d.awaitTwo(t)
		h.signal(syscall.SIGSTOP)
		time.Sleep(700 * time.Millisecond)
		h.signal(syscall.SIGCONT)
	}
	d.awaitTwo(t)
	d.end(t)
}

func TestHeldIDsOutlastADaemonThatIsGone(t *testing.T) {
	h := serving(t)
	c := client(t, h.socket(), Options{Timeout: time.Minute})
	first := draw(t, c, "orders", 1)[0]
	h.kill()
	if second := draw(t, c, "orders", 1)[0]; second != first+1 {
		t.Fatalf("%d came after %d", second, first)
	}
	_, err := client(t, h.socket(), Options{Timeout: 100 * time.Millisecond}).NextDirect(background(), "orders")
	wantIs(t, err, ErrUnreachable, true, true)
}

func TestAFirstCallWaitsForADaemonThatWasThereAMomentAgo(t *testing.T) {
	for name, away := range map[string]func(*host){"stopped": (*host).stop, "killed": (*host).kill} {
		away := away
		t.Run(name, func(t *testing.T) {
			h := serving(t)
			away(h)
			c := client(t, h.socket(), Options{Timeout: time.Minute})
			drawn := make(chan error)
			go func() {
				_, err := c.Next(background(), "orders")
				drawn <- err
			}()
			select {
			case err := <-drawn:
				t.Fatalf("it did not wait: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			h.start()
			if err := <-drawn; err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestEverythingOfALiveDaemon(t *testing.T) {
	h := newHost(t)
	h.maskKey("1 000102030405060708090a0b0c0d0e0f\n")
	h.start()
	h.create("orders")
	c := client(t, h.socket(), Options{})
	ctx := within(t, time.Minute)

	ids, err := c.NextBatch(ctx, "orders", 1_000_001)
	if err != nil {
		t.Fatal(err)
	}
	unique(t, 1_000_001, ids)
	if none, err := c.NextBatch(ctx, "orders", 0); err != nil || len(none) != 0 {
		t.Fatal(none, err)
	}

	info, err := c.Info(ctx)
	if err != nil || info.Release == "" || !info.SegmentsReady || !info.SnowflakeReady ||
		info.Layouts["snowflake"] != Leaf || int(info.PID) != h.daemon.Process.Pid {
		t.Fatal(info, err)
	}
	before := time.Now().Add(-10 * time.Second)
	id, err := c.Next(ctx, "snowflake")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := Leaf.Decode(id)
	if err != nil || parts.Worker != 17 || parts.Time.Before(before) || time.Until(parts.Time) > 10*time.Second {
		t.Fatal(parts, err)
	}
	if first, err := Leaf.FirstIDAt(parts.Time); err != nil || first > id || id-first >= 1<<22 {
		t.Fatal(first, id, err)
	}

	public := c.PublicIDs("orders", PublicForm{Prefix: "ord", Bits: 53})
	texts, err := public.MaskText(ctx, ids[:1000]...)
	if err != nil || len(texts) != 1000 || texts[16] != "ord_16p14s38ca3hx" {
		t.Fatal(err, texts[16])
	}
	back, err := public.UnmaskText(ctx, texts...)
	if err != nil || fmt.Sprint(back) != fmt.Sprint(ids[:1000]) {
		t.Fatal(err)
	}
	numbers, err := public.Mask(ctx, 17, 18)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := public.Unmask(ctx, numbers...); err != nil || fmt.Sprint(back) != "[17 18]" {
		t.Fatal(back, err)
	}
	for _, wrong := range []string{"ord_16p14s38ca3hz", "", string(make([]byte, 1000))} {
		_, err = public.UnmaskText(ctx, wrong)
		wantIs(t, err, StatusValueRefused, false, false)
	}
	if printed := h.leafctl("mask", "orders", "17", "--prefix", "ord", "--bits", "53"); printed != texts[16]+"\n" {
		t.Fatal(printed)
	}

	_, err = c.Next(ctx, "nosuch")
	wantIs(t, err, StatusTagUnknown, false, false)
	_, err = c.NextDirect(ctx, "nosuch")
	wantIs(t, err, StatusTagUnknown, false, false)
}

func TestAContextEndsACallOfALiveDaemon(t *testing.T) {
	h := serving(t)
	c := client(t, h.socket(), Options{})
	h.signal(syscall.SIGSTOP)
	defer h.signal(syscall.SIGCONT)
	ctx, cancel := context.WithCancel(background())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := c.NextDirect(ctx, "orders")
	wantIs(t, err, context.Canceled, false, false)
	_, err = c.Next(within(t, 50*time.Millisecond), "orders")
	wantIs(t, err, context.DeadlineExceeded, false, true)
}

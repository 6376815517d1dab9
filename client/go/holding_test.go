package leafd

import (
	"context"
	"testing"
	"time"
)

func TestManyGoroutinesShareRunsAndNoID(t *testing.T) {
	for name, hold := range map[string]int64{"long-lived": 60_000, "short-lived": 8} {
		hold := hold
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			p.hold.Store(hold)
			c := client(t, p.path, Options{Timeout: time.Minute})
			unique(t, 8*20_000, inGoroutines(t, 8, many(c, "orders", 20_000))...)
		})
	}
}

func TestStridedRunsInPieces(t *testing.T) {
	p := newPeer(t)
	p.answers(func(a asked) []byte {
		count := int64(a.count())
		first, piece := p.next.Add(7*count)-7*count, max(1, count/3)
		runs := []run{{first, piece, 7}}
		if count > piece {
			runs = append(runs, run{first + 7*piece, count - piece, 7})
		}
		return reply(a, StatusOK, idsBody(60_000, runs...))
	})
	c := client(t, p.path, Options{Timeout: time.Minute})
	unique(t, 4*20_000, inGoroutines(t, 4, many(c, "orders", 20_000))...)
}

func TestARunSavesRequests(t *testing.T) {
	p := newPeer(t)
	c := client(t, p.path, Options{})
	unique(t, 1_000_000, draw(t, c, "orders", 1_000_000))
	drawn := p.drawn()
	largest := 0
	for _, a := range drawn {
		if a.count() > largest {
			largest = a.count()
		}
	}
	if len(drawn) > 2000 || largest != runCountMax {
		t.Fatalf("%d requests, the largest for %d ids", len(drawn), largest)
	}
}

func TestTheNextRunIsFetchedAheadAndNotAwaited(t *testing.T) {
	p := newPeer(t)
	c := client(t, p.path, Options{})
	release := make(chan bool)
	draw(t, c, "orders", 1)
	p.answers(func(a asked) []byte {
		<-release
		return p.good(a)
	})
	for offset := int64(1); offset <= 3; offset++ {
		if len(p.drawn()) != 1 {
			t.Fatal("the next run was fetched early")
		}
		draw(t, c, "orders", 1)
	}
	eventually(t, "the next run is fetched", func() bool { return len(p.drawn()) == 2 })
	close(release)
	draw(t, c, "orders", 1)
	if drawn := len(p.drawn()); drawn != 2 {
		t.Fatalf("%d requests", drawn)
	}
}

func TestAProcessThatDrawsFewIDsSkipsFewerThanItDraws(t *testing.T) {
	drawn, given := int64(0), int64(0)
	for count := 1; count <= 50; count++ {
		p := newPeer(t)
		c := client(t, p.path, Options{})
		draw(t, c, "orders", count)
		c.Close()
		drawn += int64(count)
		eventually(t, "all requests are answered", func() bool { return p.next.Load()-1 >= int64(count) })
		given += p.next.Load() - 1
	}
	if given-drawn > drawn*65/100 {
		t.Fatalf("%d skipped for %d", given-drawn, drawn)
	}
}

func TestAFailureAheadIsForgotten(t *testing.T) {
	p := newPeer(t)
	c := client(t, p.path, Options{})
	draw(t, c, "orders", 1)
	p.answers(func(a asked) []byte { return refuse(a, StatusStoreUnavailable, "for now") })
	draw(t, c, "orders", 3)
	eventually(t, "the next run is requested", func() bool { return len(p.drawn()) == 2 })
	p.answers(p.good)
	unique(t, 20, draw(t, c, "orders", 20))
}

func TestHeldIDsAreDroppedInTime(t *testing.T) {
	for name, limits := range map[string][2]time.Duration{
		"short-lived": {50 * time.Millisecond, 70 * time.Millisecond},
		"long-lived":  {time.Second, 2 * time.Second},
	} {
		limits := limits
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t)
			p.hold.Store(limits[0].Milliseconds())
			c := client(t, p.path, Options{})
			draw(t, c, "orders", 2)
			time.Sleep(limits[1])
			mark, err := c.NextDirect(context.Background(), "orders")
			if err != nil {
				t.Fatal(err)
			}
			if late := draw(t, c, "orders", 1)[0]; late < mark {
				t.Fatalf("%d was held since before %d was drawn", late, mark)
			}
		})
	}
}

func TestARunFetchedLongAgoIsDroppedByItsOwnAge(t *testing.T) {
	p := newPeer(t)
	p.hold.Store(1000)
	c := client(t, p.path, Options{})
	draw(t, c, "orders", 4) // the next run has been fetched
	eventually(t, "the next run is fetched", func() bool { return len(p.drawn()) == 2 })
	time.Sleep(700 * time.Millisecond)
	draw(t, c, "orders", 1) // it is used now
	time.Sleep(600 * time.Millisecond)
	mark, _ := c.NextDirect(context.Background(), "orders")
	if late := draw(t, c, "orders", 1)[0]; late < mark {
		t.Fatalf("%d was held since before %d was drawn", late, mark)
	}
}

func TestAWallClockThatWentOnMakesIDsOld(t *testing.T) {
	h := newHeldRun(run{1, 4, 1}, time.Now(), time.Minute)
	if h.isTooOld() {
		t.Fatal("a new run is too old")
	}
	// The monotonic reading doesn't include suspended time.
	h.sent = time.Now().Round(0).Add(-2 * time.Minute)
	if !h.isTooOld() {
		t.Fatal("a run that is too old by the wall clock is used")
	}
}

func TestIDsThatMayNotBeHeldAreOneRequestEach(t *testing.T) {
	p := newPeer(t)
	p.hold.Store(0)
	c := client(t, p.path, Options{Timeout: time.Minute})
	ids := draw(t, c, "orders", 100)
	for i := range ids[1:] {
		if ids[i] >= ids[i+1] {
			t.Fatal("ids do not ascend")
		}
	}
	unique(t, 400, inGoroutines(t, 4, many(c, "orders", 100))...)
	if drawn := len(p.drawn()); drawn != 500 {
		t.Fatalf("%d requests", drawn)
	}
	p.hold.Store(60_000) // the tag is recreated
	draw(t, c, "orders", 10)
	if drawn := len(p.drawn()); drawn > 508 {
		t.Fatalf("runs are not held again: %d requests", drawn)
	}
}

func TestADirectClientHoldsNothing(t *testing.T) {
	p := newPeer(t)
	c := client(t, p.path, Options{Direct: true})
	for i, id := range draw(t, c, "orders", 3) {
		if id != int64(i+1) {
			t.Fatalf("%d is out of order", id)
		}
	}
	for _, a := range p.drawn() {
		if a.hold() {
			t.Fatal("a run was requested")
		}
	}
}

func TestNoIDIsReturnedAfterClose(t *testing.T) {
	for i := 0; i < 100; i++ {
		p := newPeer(t)
		c := client(t, p.path, Options{})
		draw(t, c, "orders", 4) // a refill is in progress
		c.Close()
		if id, err := c.Next(context.Background(), "orders"); err == nil {
			t.Fatalf("%d was returned after Close", id)
		} else {
			wantIs(t, err, ErrClosed, false, false)
		}
		if _, err := c.Next(context.Background(), "other"); err == nil {
			t.Fatal("a new tag gave an id after Close")
		}
	}
}

func TestSizing(t *testing.T) {
	for _, c := range []struct {
		hold        time.Duration
		count, used int64
		lasted      time.Duration
		before      int64
		wish        int64
	}{
		{time.Minute, 4, 4, 100 * time.Millisecond, 4, 8},
		{time.Minute, 8, 8, time.Second, 8, 8},
		{time.Minute, 8, 8, 3 * time.Second, 8, 4},
		{time.Minute, 4, 4, time.Minute, 4, 4},
		{time.Minute, 8, 2, 100 * time.Millisecond, 8, 8}, // the whole run would last 400 ms
		{time.Minute, 65_536, 65_536, time.Millisecond, 65_536, 65_536},
		{8 * time.Millisecond, 4, 4, 3 * time.Millisecond, 4, 4},
		{8 * time.Millisecond, 4, 4, time.Microsecond, 4, 64}, // at most 16 times as many
		{8 * time.Millisecond, 64, 64, time.Second, 64, 1},
		{2 * time.Millisecond, 10, 10, time.Millisecond, 10, 10}, // half of the hold time
	} {
		if wish := nextWish(c.before, c.hold, c.count, c.used, c.lasted); wish != c.wish {
			t.Errorf("%+v: %d", c, wish)
		}
	}
}

package leafd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestACallEndsWithItsContext(t *testing.T) {
	p := newPeer(t)
	p.answers(silent)
	for name, draw := range map[string]func(*Client, context.Context) error{
		"held":   func(c *Client, ctx context.Context) error { _, err := c.Next(ctx, "orders"); return err },
		"direct": func(c *Client, ctx context.Context) error { _, err := c.NextDirect(ctx, "orders"); return err },
		"batch":  func(c *Client, ctx context.Context) error { _, err := c.NextBatch(ctx, "orders", 3); return err },
		"info":   func(c *Client, ctx context.Context) error { _, err := c.Info(ctx); return err },
	} {
		draw := draw
		t.Run(name, func(t *testing.T) {
			c := client(t, p.path, Options{Timeout: time.Minute})
			wantIs(t, draw(c, within(t, 30*time.Millisecond)), context.DeadlineExceeded, false, true)
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(30*time.Millisecond, cancel)
			wantIs(t, draw(c, ctx), context.Canceled, false, false)
			wantIs(t, draw(c, ctx), context.Canceled, false, false)
			short := client(t, p.path, Options{Timeout: time.Millisecond})
			wantIs(t, draw(short, context.Background()), os.ErrDeadlineExceeded, true, true)
		})
	}
}

func TestTheDaemonIsToldTheTimeThatIsLeft(t *testing.T) {
	p := newPeer(t)
	c := client(t, p.path, Options{Timeout: 3 * time.Second})
	for _, wait := range []struct {
		ctx       context.Context
		low, high uint32
	}{
		{context.Background(), 1500, 3000},
		{within(t, 10*time.Second), 8000, 9750},
		{within(t, 400*time.Millisecond), 1, 300},
		{within(t, time.Hour), 58_000, 60_000},
	} {
		if _, err := c.NextDirect(wait.ctx, "orders"); err != nil {
			t.Fatal(err)
		}
		drawn := p.drawn()
		if left := drawn[len(drawn)-1].left(); left < wait.low || left > wait.high {
			t.Errorf("%d ms, not %d to %d", left, wait.low, wait.high)
		}
	}
}

func TestOthersGoOnWhenTheCallerThatFetchesGivesUp(t *testing.T) {
	p := newPeer(t)
	release := make(chan bool)
	p.answers(func(a asked) []byte {
		<-release
		return p.good(a)
	})
	c := client(t, p.path, Options{Timeout: time.Minute})
	first, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() { _, err := c.Next(first, "orders"); failed <- err }()
	eventually(t, "a run is requested", func() bool { return len(p.drawn()) == 1 })
	others := make(chan error)
	for i := 0; i < 3; i++ {
		go func() { _, err := c.Next(context.Background(), "orders"); others <- err }()
	}
	eventually(t, "the others wait", func() bool {
		known, _ := c.supplies.Load("orders")
		return known.(*supply).waiting.Load() == 4
	})
	cancel()
	wantIs(t, <-failed, context.Canceled, false, false)
	close(release)
	for i := 0; i < 3; i++ {
		if err := <-others; err != nil {
			t.Fatal(err)
		}
	}
}

func TestAShortCallDoesNotFailALongerOne(t *testing.T) {
	p := newPeer(t)
	p.answers(func(a asked) []byte {
		if len(p.drawn()) == 1 {
			return []byte{}
		}
		return p.good(a)
	})
	c := client(t, p.path, Options{Timeout: time.Minute})
	short := make(chan error)
	go func() { _, err := c.Next(within(t, 100*time.Millisecond), "orders"); short <- err }()
	eventually(t, "a run is requested", func() bool { return len(p.drawn()) == 1 })
	draw(t, c, "orders", 1)
	wantIs(t, <-short, context.DeadlineExceeded, false, true)
}

func TestOneTagThatWaitsHoldsUpNoOther(t *testing.T) {
	p := newPeer(t)
	p.answers(func(a asked) []byte {
		if strings.HasSuffix(string(a.body), "stuck") {
			return []byte{}
		}
		return p.good(a)
	})
	c := client(t, p.path, Options{Timeout: time.Minute})
	ctx, cancel := context.WithCancel(context.Background())
	stuck := make(chan error)
	go func() { _, err := c.Next(ctx, "stuck"); stuck <- err }()
	eventually(t, "one waits", func() bool { return len(p.drawn()) == 1 })
	draw(t, c, "orders", 100)
	cancel()
	<-stuck
}

func TestARequestIsRepeatedOnceWhenAServingConnectionBreaks(t *testing.T) {
	p := newPeer(t)
	c := client(t, p.path, Options{Direct: true})
	draw(t, c, "orders", 1)
	var broken atomic.Int64
	p.answers(func(a asked) []byte {
		if broken.Add(1) == 1 {
			return nil
		}
		return p.good(a)
	})
	draw(t, c, "orders", 1)
	p.answers(func(asked) []byte { return nil })
	_, err := c.Next(context.Background(), "orders")
	wantIs(t, err, ErrDisconnected, true, false)
	if asked := len(p.drawn()); asked != 3+1+resendsMax {
		t.Fatalf("it was sent %d times", asked)
	}
}

func TestStaleConnectionsAreOneBreak(t *testing.T) {
	p := newPeer(t)
	c := client(t, p.path, Options{Direct: true, Timeout: time.Minute})
	inGoroutines(t, idleMax, many(c, "orders", 50))
	p.stop()
	os.Remove(p.path)
	p.listen()
	inGoroutines(t, idleMax, many(c, "orders", 5))
}

func TestAConnectionFromBeforeABreakIsNotUsedAgain(t *testing.T) {
	p := newPeer(t)
	c := client(t, p.path, Options{Direct: true, Timeout: time.Minute})
	first, second := newConn(t, c.link, false), newConn(t, c.link, false)
	c.link.idle <- first
	if newConn(t, c.link, false) != first {
		t.Fatal("an idle connection is not used")
	}
	c.link.idle <- first
	c.link.idle <- second
	if fresh := newConn(t, c.link, true); fresh == first || fresh == second || len(c.link.idle) != 0 {
		t.Fatal("it may be stale")
	}
}

func TestADaemonThatStopsIsWaitedFor(t *testing.T) {
	p := newPeer(t)
	var refused atomic.Int64
	p.answers(func(a asked) []byte {
		if refused.Add(1) <= 10 {
			return refuse(a, StatusShuttingDown, "the daemon is stopping")
		}
		return p.good(a)
	})
	draw(t, client(t, p.path, Options{Timeout: time.Minute}), "orders", 1)
	p.answers(func(a asked) []byte { return refuse(a, StatusShuttingDown, "the daemon is stopping") })
	c := client(t, p.path, Options{Timeout: time.Second})
	_, err := c.Next(context.Background(), "orders")
	wantIs(t, err, StatusShuttingDown, true, true)
	wantIs(t, err, os.ErrDeadlineExceeded, true, true)
}

func TestADaemonWithoutRoomSaysSo(t *testing.T) {
	p := newPeer(t)
	p.mu.Lock()
	p.greeting = frame(opReply, StatusConnectionLimit, 0, append([]byte{0, 0, 0, 0}, "no room"...))
	p.mu.Unlock()
	c := client(t, p.path, Options{Timeout: time.Second})
	_, err := c.Next(context.Background(), "orders")
	wantIs(t, err, StatusConnectionLimit, true, true)
	_, err = c.NextDirect(within(t, 100*time.Millisecond), "orders")
	wantIs(t, err, StatusConnectionLimit, false, true)
	wantIs(t, err, context.DeadlineExceeded, false, true)
}

func TestADaemonThatIsNotThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	began := time.Now()
	_, err := client(t, path, Options{Timeout: time.Minute}).Next(context.Background(), "orders")
	wantIs(t, err, ErrUnreachable, true, false)
	if !errors.Is(err, os.ErrNotExist) || time.Since(began) > 10*time.Second {
		t.Fatal(err)
	}
	waiting := client(t, path, Options{Timeout: time.Minute, Wait: true})
	_, err = waiting.Next(within(t, 50*time.Millisecond), "orders")
	wantIs(t, err, ErrUnreachable, false, true)
	wantIs(t, err, context.DeadlineExceeded, false, true)

	drawn := make(chan error)
	go func() { _, err := waiting.Next(context.Background(), "orders"); drawn <- err }()
	p := &peer{t: t, path: path, answer: nil, open: nil}
	p.open, p.answer = map[net.Conn]bool{}, p.good
	p.hold.Store(60_000)
	p.next.Store(1)
	p.listen()
	defer p.stop()
	if err := <-drawn; err != nil {
		t.Fatal(err)
	}
}

func TestASocketThatIsNotForThisUser(t *testing.T) {
	_, err := client(t, filepath.Join(t.TempDir(), "s"), Options{}).Next(context.Background(), "orders")
	denied := &Error{Cause: fmt.Errorf("%w: %w", ErrUnreachable, os.ErrPermission)}
	if denied.Retryable() || !errors.Is(denied, os.ErrPermission) || !errors.Is(denied, ErrUnreachable) || err == nil {
		t.Fatal(denied)
	}
}

func TestHostileAnswersEndTheConnectionAndNothingElse(t *testing.T) {
	for name, answer := range map[string]func(asked) []byte{
		"another request's id": func(a asked) []byte { a.id++; return reply(a, StatusOK, idsBody(0, run{1, 1, 1})) },
		"another opcode":       func(a asked) []byte { a.opcode++; return reply(a, StatusOK, idsBody(0, run{1, 1, 1})) },
		"a huge length":        func(a asked) []byte { return le.AppendUint64(le.AppendUint32(nil, 1<<31), 0) },
		"a tiny length":        func(a asked) []byte { return le.AppendUint64(le.AppendUint32(nil, 7), 0) },
		"no ids":               func(a asked) []byte { return reply(a, StatusOK, idsBody(0)) },
		"too many ids":         func(a asked) []byte { return reply(a, StatusOK, idsBody(0, run{1, 2, 1})) },
		"a negative id":        func(a asked) []byte { return reply(a, StatusOK, idsBody(0, run{-1, 1, 1})) },
		"half a refusal":       func(a asked) []byte { return reply(a, StatusDenied, []byte{0}) },
		"nothing it knows":     func(a asked) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n") },
	} {
		answer := answer
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			p.answers(answer)
			c := client(t, p.path, Options{Timeout: 10 * time.Second})
			_, err := c.NextDirect(context.Background(), "orders")
			wantIs(t, err, ErrProtocol, false, false)
			p.answers(p.good)
			draw(t, c, "orders", 10)
		})
	}
}

func TestRefusalsAreTheDaemonsOwnWords(t *testing.T) {
	p := newPeer(t)
	p.answers(func(a asked) []byte {
		return reply(a, StatusOverloaded, append(le.AppendUint32(nil, 1500), "a queue is full\xff"...))
	})
	c := client(t, p.path, Options{})
	_, err := c.Next(context.Background(), "orders")
	own := wantIs(t, err, StatusOverloaded, true, false)
	if own.RetryAfter != 1500*time.Millisecond || own.Message != "a queue is full\uFFFD" || errors.Is(err, StatusDenied) {
		t.Fatalf("%+v", own)
	}
	if err.Error() != "leafd: OVERLOADED: a queue is full\uFFFD" {
		t.Fatal(err)
	}
	p.answers(func(a asked) []byte { return refuse(a, 999, "of a later version") })
	_, err = c.Next(context.Background(), "orders")
	wantIs(t, err, Status(999), false, false)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.connections != 1 {
		t.Fatalf("%d connections", p.connections)
	}
}

func TestReadiness(t *testing.T) {
	p := newPeer(t)
	p.answers(func(a asked) []byte { return reply(a, StatusOK, infoBody(1, 2)) })
	c := client(t, p.path, Options{})
	if info, err := c.Info(context.Background()); err != nil || info.SegmentsReady || !info.SnowflakeReady {
		t.Fatal(info, err)
	}
	p.answers(func(a asked) []byte { return reply(a, StatusOK, infoBody(2, 3)) })
	_, err := c.Info(context.Background())
	wantIs(t, err, ErrProtocol, false, false)
}

func TestTagsThatCannotBeAreRejectedByTheDaemonAndForgotten(t *testing.T) {
	h := serving(t)
	c, public := client(t, h.socket(), Options{}), PublicForm{Prefix: strings.Repeat("p", 300)}
	ctx := context.Background()
	for _, tag := range []string{"", "a\u0085", "a\xff", strings.Repeat("é", 129), strings.Repeat("a", 100_000)} {
		for _, draw := range []func(context.Context, string) (int64, error){c.Next, c.NextDirect} {
			_, err := draw(ctx, tag)
			wantIs(t, err, StatusTagInvalid, false, false)
		}
		_, err := c.PublicIDs(tag, PublicForm{}).Mask(ctx, 1)
		wantIs(t, err, StatusTagInvalid, false, false)
	}
	for i := 0; i < 10; i++ {
		_, err := c.Next(ctx, fmt.Sprint("nosuch-", i))
		wantIs(t, err, StatusTagUnknown, false, false)
	}
	c.supplies.Range(func(tag, _ any) bool {
		t.Errorf("%.20q is kept", tag)
		return true
	})
	_, err := c.PublicIDs("orders", public).MaskText(ctx, 1)
	wantIs(t, err, StatusValueRefused, false, false)
	long := strings.Repeat("é", 128)
	h.create(long)
	draw(t, c, long, 10)
}

func TestImpossibleArguments(t *testing.T) {
	p := newPeer(t)
	c := client(t, p.path, Options{})
	ctx := context.Background()
	for name, call := range map[string]func() error{
		"a negative count":   func() error { _, err := c.NextBatch(ctx, "orders", -1); return err },
		"2e12 ids":           func() error { _, err := c.NextBatch(ctx, "orders", 2e12); return err },
		"a long path":        func() error { _, err := New(Options{Socket: strings.Repeat("s", 108)}); return err },
		"a negative timeout": func() error { _, err := New(Options{Socket: "s", Timeout: -1}); return err },
		"a layout":           func() error { return Layout{}.Check() },
		"a foreign id":       func() error { _, err := Leaf.Decode(-1); return err },
		"a time before": func() error {
			_, err := Leaf.FirstIDAt(time.Unix(0, 0))
			return err
		},
	} {
		if err := call(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(p.drawn()) > 0 {
		t.Error("the daemon received a request")
	}
}

func TestALayoutDecodesWhatItsFirstIDIs(t *testing.T) {
	for _, layout := range []Layout{Leaf, {31, 10, 12, time.Second, time.UnixMilli(1_700_000_000_000)},
		{41, 0, 10, time.Millisecond, time.UnixMilli(0)}} {
		at := layout.Epoch.Add(1_234_567 * layout.Tick)
		id, err := layout.FirstIDAt(at.Add(layout.Tick - 1))
		if err != nil {
			t.Fatal(err)
		}
		parts, err := layout.Decode(id)
		if err != nil || !parts.Time.Equal(at) || parts.Tick != 1_234_567 || parts.Worker != 0 || parts.Sequence != 0 {
			t.Fatal(parts, err)
		}
		if before, _ := layout.Decode(id - 1); !before.Time.Before(at) {
			t.Fatal(before)
		}
	}
}

func TestWhereTheSocketIs(t *testing.T) {
	own, state := "/run/user/7/leafd/leafd.sock", "/home/u/.local/state/leafd/leafd.sock"
	systems := "/run/leafd/leafd.sock"
	for _, c := range []struct {
		variables map[string]string
		root      bool
		there     string
		want      string
	}{
		{map[string]string{"LEAFD_SOCKET": "/x"}, true, "", "/x"},
		{map[string]string{"LEAFD_SOCKET": ""}, true, own, systems},
		{map[string]string{"XDG_RUNTIME_DIR": "/run/user/7", "HOME": "/home/u"}, false, "", own},
		{map[string]string{"XDG_RUNTIME_DIR": "/run/user/7", "HOME": "/home/u"}, false, state, state},
		{map[string]string{"XDG_RUNTIME_DIR": "/run/user/7", "HOME": "/home/u"}, false, systems, systems},
		{map[string]string{"XDG_RUNTIME_DIR": "run", "XDG_STATE_HOME": "/s"}, false, "", "/s/leafd/leafd.sock"},
		{map[string]string{}, false, "", systems},
	} {
		getenv := func(name string) string { return c.variables[name] }
		if path := chooseSocket(getenv, c.root, func(path string) bool { return path == c.there }); path != c.want {
			t.Errorf("%+v: %s", c, path)
		}
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	p := newPeer(t)
	c := client(t, p.path, Options{})
	draw(t, c, "orders", 1000)
	c.Close()
	c.Close()
	eventually(t, "all connections are closed", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.open) == 0 && len(c.link.turns) == 0
	})
	_, err := c.Info(context.Background())
	wantIs(t, err, ErrClosed, false, false)
}

func TestCloseEndsCallsThatWait(t *testing.T) {
	p := newPeer(t)
	p.answers(silent)
	c := client(t, p.path, Options{Timeout: time.Minute})
	ended := make(chan error)
	go func() { _, err := c.Next(context.Background(), "orders"); ended <- err }()
	go func() { _, err := c.NextDirect(context.Background(), "orders"); ended <- err }()
	eventually(t, "they wait", func() bool { return len(p.drawn()) == 2 })
	c.Close()
	for i := 0; i < 2; i++ {
		wantIs(t, <-ended, ErrClosed, false, false)
	}
}

func TestAllGoroutinesThatWaitLearnTheDaemonsReason(t *testing.T) {
	p := newPeer(t)
	p.answers(func(a asked) []byte {
		time.Sleep(time.Duration(a.left()) * time.Millisecond)
		return refuse(a, StatusDeadline, "it waited for the store")
	})
	c := client(t, p.path, Options{Timeout: 200 * time.Millisecond})
	failed := make(chan error)
	for i := 0; i < 32; i++ {
		go func() { _, err := c.Next(context.Background(), "orders"); failed <- err }()
	}
	for i := 0; i < 32; i++ {
		wantIs(t, <-failed, StatusDeadline, true, true)
	}
	_, err := c.Next(within(t, 100*time.Millisecond), "orders")
	wantIs(t, err, StatusDeadline, true, true)
}

func TestRunsThatAreFetchedAheadLeaveConnectionsForCallers(t *testing.T) {
	p := newPeer(t)
	c := client(t, p.path, Options{Timeout: time.Minute})
	tags := make([]string, 2*requestsMax)
	for i := range tags {
		tags[i] = fmt.Sprint("tag-", i)
		draw(t, c, tags[i], 1)
	}
	p.answers(func(a asked) []byte {
		if a.hold() {
			return []byte{}
		}
		return p.good(a)
	})
	for _, tag := range tags {
		draw(t, c, tag, 3) // the next run is requested
	}
	eventually(t, "runs are requested", func() bool { return len(c.link.turns) >= refillsMax })
	if _, err := c.NextDirect(within(t, 5*time.Second), "orders"); err != nil {
		t.Fatal(err)
	}
}

func TestCancelledCallsDoNotDelayLaterOnes(t *testing.T) {
	quickest := time.Minute
	for try := 0; try < 10 && quickest > 50*time.Millisecond; try++ {
		p := newPeer(t)
		p.answers(silent)
		c := client(t, p.path, Options{Direct: true, Timeout: time.Minute})
		for i := 0; i < 8; i++ {
			_, err := c.Next(within(t, 5*time.Millisecond), "orders")
			wantIs(t, err, context.DeadlineExceeded, false, true)
		}
		p.answers(p.good)
		began := time.Now()
		draw(t, c, "orders", 1)
		quickest = min(quickest, time.Since(began))
	}
	if quickest > 50*time.Millisecond {
		t.Fatalf("the next call took %v", quickest)
	}
}

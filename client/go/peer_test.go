package leafd

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// asked is a request as received by a peer.
type asked struct {
	opcode, flags byte
	id            uint32
	body          []byte
}

func (a asked) count() int   { return int(le.Uint32(a.body)) }
func (a asked) hold() bool   { return a.flags&flagHold != 0 }
func (a asked) left() uint32 { return le.Uint32(a.body[4:]) }

// peer is a fake daemon whose answers a test defines. By default, it behaves like a real daemon with one counter.
type peer struct {
	t    *testing.T
	path string
	hold atomic.Int64 // in milliseconds
	next atomic.Int64

	mu          sync.Mutex
	answer      func(asked) []byte // nil closes the connection; an empty answer sends nothing
	greeting    []byte
	requests    []asked
	connections int
	listener    net.Listener
	open        map[net.Conn]bool
}

func newPeer(t *testing.T) *peer {
	p := &peer{t: t, path: filepath.Join(t.TempDir(), "s"), open: map[net.Conn]bool{}}
	p.hold.Store(60_000)
	p.next.Store(1)
	p.answer = p.good
	p.listen()
	t.Cleanup(p.stop)
	return p
}

func (p *peer) listen() {
	listener, err := net.Listen("unix", p.path)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.listener = listener
	p.mu.Unlock()
	go func() {
		for {
			socket, err := listener.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.connections++
			p.open[socket] = true
			p.mu.Unlock()
			go p.serve(socket)
		}
	}()
}

func (p *peer) serve(socket net.Conn) {
	defer func() {
		socket.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, socket)
	}()
	p.mu.Lock()
	greeting := p.greeting
	p.mu.Unlock()
	socket.Write(greeting)
	for {
		head := make([]byte, headerBytes)
		if _, err := io.ReadFull(socket, head); err != nil {
			return
		}
		body := make([]byte, le.Uint32(head)-8)
		if _, err := io.ReadFull(socket, body); err != nil {
			return
		}
		a := asked{head[4], head[5], le.Uint32(head[8:]), body}
		p.mu.Lock()
		p.requests = append(p.requests, a)
		answer := p.answer
		p.mu.Unlock()
		bytes := answer(a)
		if bytes == nil {
			return
		}
		socket.Write(bytes)
	}
}

// stop closes all connections, like a daemon that has exited.
func (p *peer) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener.Close()
	for socket := range p.open {
		socket.Close()
	}
	p.open = map[net.Conn]bool{}
}

func (p *peer) answers(answer func(asked) []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// drawn returns the requests for ids.
func (p *peer) drawn() (drawn []asked) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.requests {
		if a.opcode == opIDs {
			drawn = append(drawn, a)
		}
	}
	return drawn
}

func (p *peer) good(a asked) []byte {
	if a.opcode == opInfo {
		return reply(a, StatusOK, infoBody(1, 3))
	}
	count := int64(a.count())
	return reply(a, StatusOK, idsBody(p.hold.Load(), run{p.next.Add(count) - count, count, 1}))
}

func silent(asked) []byte { return []byte{} }

func reply(a asked, status Status, body []byte) []byte {
	return frame(a.opcode+opReply, status, a.id, body)
}

func refuse(a asked, status Status, message string) []byte {
	return reply(a, status, append([]byte{0, 0, 0, 0}, message...))
}

func frame(opcode byte, status Status, id uint32, body []byte) []byte {
	bytes := le.AppendUint32(nil, uint32(8+len(body)))
	bytes = le.AppendUint16(append(bytes, opcode, 0), uint16(status))
	return append(le.AppendUint32(bytes, id), body...)
}

func idsBody(holdMs int64, runs ...run) []byte {
	body := le.AppendUint16(le.AppendUint32(nil, uint32(holdMs)), uint16(len(runs)))
	body = append(body, 0, 0)
	for _, r := range runs {
		body = le.AppendUint64(body, uint64(r.first))
		body = le.AppendUint32(le.AppendUint32(body, uint32(r.count)), uint32(r.stride))
	}
	return body
}

func infoBody(version, ready uint16) []byte {
	body := le.AppendUint16(le.AppendUint16(nil, version), ready)
	for _, number := range []uint32{65_536, countMax, 1024, 60_000, 1} {
		body = le.AppendUint32(body, number)
	}
	return append(append(le.AppendUint16(body, 5), "0.1.0"...), 0, 0)
}

func client(t *testing.T, path string, options Options) *Client {
	t.Helper()
	options.Socket = path
	c, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// within returns a context that limits how long a test may take to fail.
func within(t *testing.T, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// newConn gets a connection in the same way as a call.
func newConn(t *testing.T, l *link, fresh bool) *conn {
	t.Helper()
	conn, failed := l.connect(fresh)
	if failed != nil {
		t.Fatal(failed)
	}
	return conn
}

func draw(t *testing.T, c *Client, tag string, count int) []int64 {
	t.Helper()
	ids := make([]int64, count)
	for i := range ids {
		id, err := c.Next(context.Background(), tag)
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = id
	}
	return ids
}

// inGoroutines draws the same number of ids in each goroutine.
func inGoroutines(t *testing.T, number int, draw func() ([]int64, error)) [][]int64 {
	t.Helper()
	drawn, failed := make([][]int64, number), make([]error, number)
	var group sync.WaitGroup
	for i := 0; i < number; i++ {
		i := i
		group.Add(1)
		go func() {
			defer group.Done()
			drawn[i], failed[i] = draw()
		}()
	}
	group.Wait()
	for _, err := range failed {
		if err != nil {
			t.Fatal(err)
		}
	}
	return drawn
}

func many(c *Client, tag string, count int) func() ([]int64, error) {
	return func() ([]int64, error) {
		ids := make([]int64, 0, count)
		for len(ids) < count {
			id, err := c.Next(context.Background(), tag)
			if err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
		return ids, nil
	}
}

func unique(t *testing.T, count int, drawn ...[]int64) {
	t.Helper()
	seen := map[int64]bool{}
	for _, ids := range drawn {
		for _, id := range ids {
			if seen[id] {
				t.Fatalf("%d repeats", id)
			}
			if id < 1 {
				t.Fatalf("%d is not positive", id)
			}
			seen[id] = true
		}
	}
	if len(seen) != count {
		t.Fatalf("%d ids, not %d", len(seen), count)
	}
}

func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

func wantIs(t *testing.T, err, target error, retryable, timeout bool) *Error {
	t.Helper()
	var own *Error
	if !errors.As(err, &own) || !errors.Is(err, target) {
		t.Fatalf("%v is not %v", err, target)
	}
	if own.Retryable() != retryable || own.Timeout() != timeout {
		t.Fatalf("%v: retryable %v, timeout %v", err, own.Retryable(), own.Timeout())
	}
	return own
}

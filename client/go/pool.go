package leafd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"sync"
	"time"
)

const (
	requestsMax = 64 // at once; further calls wait for their turn
	idleMax     = 8  // connections that are kept for later calls

	// A request is repeated once if the connection had answered before: the daemon restarts. It is repeated up to five
	// times if new connections never answer: the daemon is still stopping or starting.
	breaksMax       = 5
	servedBreakCost = 3

	backOffMin = 2 * time.Millisecond
	backOffMax = 100 * time.Millisecond

	// grace is how much longer a call waits than the daemon may, so that the daemon's reason arrives in time.
	grace = 250 * time.Millisecond
)

// call is the context of one call, which always has an end.
type call struct {
	context.Context
	caller context.Context
	start  time.Time
}

func (p *pool) call(ctx context.Context) (call, context.CancelFunc) {
	limit := p.timeout + grace
	if _, ok := ctx.Deadline(); ok {
		limit = deadlineMax + grace
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	return call{limited, ctx, time.Now()}, cancel
}

// leftMs is how long the daemon may take.
func (c call) leftMs() uint32 {
	end, _ := c.Deadline()
	left := max(0, int64(time.Until(end)))
	left -= min(int64(grace), left/4)
	return uint32(min((left+999_999)/1_000_000, deadlineMax.Milliseconds()))
}

// over is the error of a call that has ended.
func (c call) over() error {
	why := c.caller.Err()
	if why == nil {
		why = os.ErrDeadlineExceeded
	}
	waited := time.Since(c.start).Round(time.Millisecond)
	return &Error{Message: fmt.Sprintf("no answer within %v: %v; check the daemon's log", waited, why), Cause: why}
}

// conn is a connection, which serves one request at a time.
type conn struct {
	net.Conn
	in     *bufio.Reader
	lastID uint32
	served bool // it has brought an answer
	epoch  int
}

// exchange sends a request and returns the answer's body.
func (c *conn) exchange(call call, frame []byte) ([]byte, error) {
	end, _ := call.Deadline()
	c.SetDeadline(end)
	if call.caller.Done() != nil {
		done, ended := make(chan struct{}), make(chan struct{})
		go func() {
			select {
			case <-call.Done():
				c.SetDeadline(time.Unix(1, 0))
			case <-done:
			}
			close(ended)
		}()
		defer func() { close(done); <-ended }()
	}
	if c.lastID++; c.lastID == 0 {
		c.lastID = 1 // the daemon addresses the whole connection with 0
	}
	le.PutUint32(frame[8:], c.lastID)
	c.Write(frame) // if that fails, there may still be an answer to read
	var head [headerBytes]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return nil, err
	}
	status, length, id, err := readHeader(head[:], frame[4])
	if err != nil {
		return nil, err
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(c.in, body); err != nil {
		return nil, err
	}
	if id != c.lastID && (id != 0 || !status.closes()) {
		return nil, broken("a reply belongs to no request")
	}
	if status != StatusOK {
		return nil, readRefusal(status, body)
	}
	c.served = true
	return body, nil
}

// pool has the connections of a client. It makes them when they are needed, and again when they break.
type pool struct {
	path    string
	timeout time.Duration
	wait    bool // for a daemon that was never there
	turns   chan struct{}

	mu      sync.Mutex
	idle    []*conn
	busy    map[*conn]bool
	epoch   int // counts breaks: connections from before are stale
	closed  bool
	reached bool // a connection was made before, so that a missing daemon is one that restarts
	nextTry time.Time
	backOff time.Duration
	random  *rand.Rand
}

func newPool(path string, timeout time.Duration, wait bool) *pool {
	// The processes of a host must not all come back at once.
	random := rand.New(rand.NewSource(time.Now().UnixNano() ^ int64(os.Getpid())<<32))
	return &pool{path: path, timeout: timeout, wait: wait, turns: make(chan struct{}, requestsMax),
		busy: map[*conn]bool{}, backOff: backOffMin, random: random}
}

// ask sends a request that is safe to repeat until it is answered. Frame writes it anew for each attempt.
func (p *pool) ask(c call, frame func(deadlineMs uint32) []byte, read func(body []byte) error) error {
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
	case <-c.Done():
		return c.over()
	}
	for cost, last := 0, error(nil); ; {
		conn, err := p.get(c)
		if err != nil {
			return err
		}
		hadServed := conn.served
		body, err := conn.exchange(c, frame(c.leftMs()))
		if err == nil {
			err = read(body)
		}
		p.put(conn, err)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			<-c.Done() // which is about to happen
		}
		var own *Error
		switch isOwn := errors.As(err, &own); {
		case err == nil || isOwn && (c.Err() != nil || !own.Status.closes() || !own.Retryable()):
			return err
		case c.Err() != nil && last != nil:
			return last
		case c.Err() != nil:
			return c.over()
		case isOwn:
			last = err // the daemon is stopping, or has no room for now
			continue
		case hadServed:
			cost += servedBreakCost
		default:
			cost++
		}
		if cost > breaksMax {
			return &Error{Message: "the connection to " + p.path + " broke before the answer came: " + err.Error() +
				"; the daemon may be restarting, check its log", Cause: cause{ErrDisconnected, err}}
		}
	}
}

// get returns a connection for one request. It makes one with growing pauses while the call lasts. A daemon that was never
// there is an error at once, unless the client waits for it.
func (p *pool) get(c call) (*conn, error) {
	for {
		conn, pause, err := p.tryGet(c)
		if conn != nil || err != nil {
			return conn, err
		}
		select {
		case <-time.After(pause):
		case <-c.Done():
		}
	}
}

func (p *pool) tryGet(call call) (*conn, time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, 0, closed()
	}
	if last := len(p.idle) - 1; last >= 0 {
		c := p.idle[last]
		p.idle = p.idle[:last]
		p.busy[c] = true
		return c, 0, nil
	}
	hopeless := call.Err() != nil
	if pause := time.Until(p.nextTry); pause > 0 && !hopeless {
		return nil, pause, nil
	}
	socket, err := net.Dial("unix", p.path) // never waits with a Unix socket
	if err == nil {
		p.reached = true
		c := &conn{Conn: socket, in: bufio.NewReader(socket), epoch: p.epoch}
		p.busy[c] = true
		return c, 0, nil
	}
	p.pause()
	denied := errors.Is(err, os.ErrPermission)
	// A socket with a full backlog has its daemon, and one that refuses was left by a daemon that was killed.
	if !hopeless && !denied && (p.wait || p.reached || exists(p.path) || hasJustGone(p.path)) {
		return nil, time.Until(p.nextTry), nil
	}
	hint := "is the daemon running, and is this its socket? LEAFD_SOCKET can name another path"
	if denied {
		hint = "the socket's group and mode do not admit this user; see the settings socket_group and socket_mode"
	}
	why := cause{ErrUnreachable, err}
	if ended := call.caller.Err(); ended != nil {
		why.system = ended
	}
	return nil, 0, &Error{Message: fmt.Sprintf("cannot connect to %s: %v; %s", p.path, err, hint), Cause: why}
}

// put takes a connection back. It is closed unless it can be used again.
func (p *pool) put(c *conn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.busy, c)
	var own *Error
	refused := errors.As(err, &own) && own.Status != StatusOK
	if (err == nil || refused && !own.Status.closes()) && len(p.idle) < idleMax && !p.closed && c.epoch == p.epoch {
		p.idle = append(p.idle, c)
		p.backOff = backOffMin
		return
	}
	c.Close()
	broke := err != nil && own == nil && !errors.Is(err, os.ErrDeadlineExceeded)
	if c.epoch == p.epoch && (broke || refused && own.Status == StatusShuttingDown) {
		p.epoch++
		p.closeIdle()
	}
	if !c.served && (broke || refused) {
		p.pause() // a connection that never answered anything is as good as none
	}
}

func (p *pool) closeIdle() {
	for _, c := range p.idle {
		c.Close()
	}
	p.idle = nil
}

func (p *pool) pause() {
	p.nextTry = time.Now().Add(p.backOff * time.Duration(75+p.random.Intn(50)) / 100)
	p.backOff = time.Duration(min(int64(2*p.backOff), int64(backOffMax)))
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.closeIdle()
	for c := range p.busy {
		c.Close()
	}
}

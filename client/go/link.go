package leafd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

const (
	requestsMax = 64 // at once; further calls wait for their turn
	idleMax     = 8  // connections that are kept for later calls
	breaksMax   = 6  // connections that may break during one call while the daemon stops and starts

	backOffMin = 2 * time.Millisecond
	backOffMax = 100 * time.Millisecond

	// grace is how much longer a call waits than the daemon may, so that the daemon's error arrives in time.
	grace = 250 * time.Millisecond
)

// link sends requests, each on a connection that no other request uses at the same time.
type link struct {
	path    string
	timeout time.Duration
	wait    bool // for a daemon that was never there
	turns   chan struct{}
	idle    chan *conn
	life    context.Context // until the client is closed
	end     context.CancelFunc

	mu      sync.Mutex
	reached bool // a connection was made before, so a missing daemon is restarting
	nextTry time.Time
	backOff time.Duration
}

type conn struct {
	net.Conn
	in     *bufio.Reader
	lastID uint32
	served bool // it has answered a request
}

func newLink(path string, timeout time.Duration, wait bool) *link {
	l := &link{path: path, timeout: timeout, wait: wait, turns: make(chan struct{}, requestsMax),
		idle: make(chan *conn, idleMax), backOff: backOffMin}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

// call is the context of one call, which always has an end.
type call struct {
	context.Context
	caller context.Context
}

func (l *link) call(ctx context.Context) (call, context.CancelFunc) {
	limit := l.timeout + grace
	if _, ok := ctx.Deadline(); ok {
		limit = deadlineMax + grace
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	return call{limited, ctx}, cancel
}

// over returns the error of a call that ran out of time, or whose client is closed.
func (l *link) over(c call) error {
	why := c.caller.Err()
	if l.life.Err() != nil {
		return closed()
	} else if why == nil {
		why = os.ErrDeadlineExceeded
	}
	return &Error{Message: fmt.Sprintf("no answer in time: %v; check the daemon's log", why), Cause: why}
}

// deadlineMs is how long the daemon may take.
func (c call) deadlineMs() uint32 {
	end, _ := c.Deadline()
	left := max(0, time.Until(end))
	left -= min(grace, left/4)
	return uint32(min(left+time.Millisecond-1, deadlineMax) / time.Millisecond)
}

// ask sends a request that is safe to repeat until it is answered. It calls frame for each attempt.
//
// Idle connections may have ended with an earlier daemon, so after a break the call only uses new ones.
func (l *link) ask(c call, frame func(deadlineMs uint32) []byte, read func(body []byte) error) error {
	select {
	case l.turns <- struct{}{}:
		defer func() { <-l.turns }()
	case <-c.Done():
		return l.over(c)
	}
	var refusal, broke error
	for breaks := 0; breaks < breaksMax; {
		conn, err := l.connect(c, refusal != nil || broke != nil)
		if err != nil {
			return err
		}
		body, err := l.exchange(c, conn, frame(c.deadlineMs()))
		if err == nil {
			err = read(body)
		}
		var own *Error
		isOwn := errors.As(err, &own)
		answered := err == nil || isOwn && own.Status != StatusOK && !own.Status.closes()
		l.giveBack(conn, answered && c.Err() == nil)
		switch {
		case err == nil || isOwn && !(own.Status.closes() && own.Retryable()):
			return err
		case isOwn:
			refusal = err // the daemon is stopping, or has no room for now
		default:
			broke = err
			breaks++
		}
		if c.Err() != nil && refusal != nil {
			return refusal
		} else if c.Err() != nil || l.life.Err() != nil {
			return l.over(c)
		}
	}
	return &Error{Message: "the connection to " + l.path + " broke before the answer came: " + broke.Error() +
		"; the daemon may be restarting, check its log", Cause: cause{ErrDisconnected, broke}}
}

// draw requests ids. With hold, the daemon may send fewer than count.
func (l *link) draw(c call, tag string, count int, hold bool) (got drawn, err error) {
	if err := checkTag(tag); err != nil {
		return got, err
	}
	var sent time.Time
	err = l.ask(c, func(deadlineMs uint32) []byte {
		sent = time.Now()
		return idsRequest(hold, count, deadlineMs, tag)
	}, func(body []byte) (err error) {
		got, err = readIDs(body, count, hold)
		return err
	})
	got.sent = sent
	return got, err
}

// exchange sends a request and returns the body of its answer.
func (l *link) exchange(call call, c *conn, frame []byte) ([]byte, error) {
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		select {
		case <-call.Done():
			c.SetDeadline(time.Unix(1, 0))
		case <-l.life.Done():
			c.Close()
		case <-done:
		}
		close(watched)
	}()
	defer func() { close(done); <-watched }()
	if c.lastID++; c.lastID == 0 {
		c.lastID = 1 // the daemon addresses the whole connection with 0
	}
	le.PutUint32(frame[8:], c.lastID)
	c.Write(frame) // if this fails, the daemon may still have sent a reason
	status, opcode, id, body, err := readReply(c.in)
	switch {
	case err != nil:
		return nil, err
	case (id != c.lastID || opcode != frame[4]+opReply) && !(id == 0 && status.closes()):
		return nil, broken("a reply belongs to no request")
	case status != StatusOK:
		return nil, readRefusal(status, body)
	}
	c.served = true
	return body, nil
}

// connect returns a connection: an idle one, or a new one, for which it tries again with growing pauses while the call
// lasts. It fails at once if no daemon was ever there, unless the client waits for one.
func (l *link) connect(c call, fresh bool) (*conn, error) {
	if fresh {
		l.closeIdle()
	}
	for {
		select {
		case conn := <-l.idle:
			return conn, nil
		default:
		}
		conn, pause, err := l.dial(c)
		if conn != nil || err != nil {
			return conn, err
		}
		select {
		case <-time.After(pause):
		case <-c.Done():
		}
	}
}

func (l *link) dial(c call) (*conn, time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Err() != nil {
		return nil, 0, closed()
	}
	last := c.Err() != nil
	if pause := time.Until(l.nextTry); pause > 0 && !last {
		return nil, pause, nil
	}
	socket, err := net.Dial("unix", l.path) // does not block for a Unix socket
	if err == nil {
		l.reached = true
		return &conn{Conn: socket, in: bufio.NewReader(socket)}, 0, nil
	}
	l.pause()
	denied := errors.Is(err, os.ErrPermission)
	// A full backlog means that a daemon is there. A socket that refuses was left by a daemon that was killed.
	if !last && !denied && (l.wait || l.reached || exists(l.path) || hasJustGone(l.path)) {
		return nil, time.Until(l.nextTry), nil
	}
	hint := "is the daemon running, and is this its socket? LEAFD_SOCKET can name another path"
	if denied {
		hint = "the socket's group and mode do not admit this user; see the settings socket_group and socket_mode"
	}
	why := cause{ErrUnreachable, err}
	if ended := c.caller.Err(); ended != nil {
		why.system = ended
	}
	return nil, 0, &Error{Message: fmt.Sprintf("cannot connect to %s: %v; %s", l.path, err, hint), Cause: why}
}

// giveBack keeps a usable connection for later calls.
func (l *link) giveBack(c *conn, usable bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.served {
		l.backOff = backOffMin
	} else if !usable {
		l.pause() // a connection without any answer counts as a failed attempt
	}
	if usable && l.life.Err() == nil {
		select {
		case l.idle <- c:
			return
		default:
		}
	}
	c.Close()
}

// pause delays the next attempt to connect, with jitter, so that a host's processes don't all reconnect at once.
func (l *link) pause() {
	now := time.Now()
	l.nextTry = now.Add(l.backOff * time.Duration(75+now.Nanosecond()/64%50) / 100)
	l.backOff = min(2*l.backOff, backOffMax)
}

func (l *link) closeIdle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		select {
		case c := <-l.idle:
			c.Close()
		default:
			return
		}
	}
}

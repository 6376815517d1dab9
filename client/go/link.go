package leafd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"
)

const (
	requestsMax = 64 // the maximum at once; further calls wait for their turn
	refillsMax  = 32
	idleMax     = 8 // idle connections kept for later calls
	resendsMax  = 5 // the maximum for a request whose connections break while the daemon stops and starts

	// The pauses between the attempts of one call.
	backOffMin = 2 * time.Millisecond
	backOffMax = 100 * time.Millisecond

	// grace is how much longer a call waits than the daemon may, so that the daemon's error arrives in time.
	grace = 250 * time.Millisecond
)

// link sends requests, each on a connection that no other request uses at the same time.
type link struct {
	Options
	turns   chan struct{}
	refills chan struct{} // limits requests ahead of use, so that the other turns are left for calls
	idle    chan *conn
	reached atomic.Bool // a connection was made before, so a missing daemon is restarting

	open  context.Context // ends when the client is closed
	close context.CancelFunc
}

// conn is a connection, which serves one call at a time and closes with its link.
type conn struct {
	net.Conn
	in     *bufio.Reader
	lastID uint32
	forget func() bool
}

func (c *conn) Close() error {
	c.forget()
	return c.Conn.Close()
}

// call is the context of one call, which always has a deadline.
type call struct {
	context.Context
	caller  context.Context
	failure *Error // why the last attempt failed
}

func newLink(options Options) *link {
	l := &link{Options: options, idle: make(chan *conn, idleMax)}
	l.turns, l.refills = make(chan struct{}, requestsMax), make(chan struct{}, refillsMax)
	l.open, l.close = context.WithCancel(context.Background())
	return l
}

func (l *link) call(ctx context.Context) (call, context.CancelFunc) {
	limit := l.Timeout + grace
	if _, ok := ctx.Deadline(); ok {
		limit = deadlineMax + grace
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	return call{limited, ctx, nil}, cancel
}

// deadlineMs is how long the daemon may take.
func (c call) deadlineMs() uint32 {
	end, _ := c.Deadline()
	left := max(0, time.Until(end))
	left -= min(grace, left/4)
	return uint32(min(left+time.Millisecond-1, deadlineMax) / time.Millisecond)
}

// over returns the error of a call that timed out.
func (c call) over() error {
	why := c.caller.Err()
	if why == nil {
		why = os.ErrDeadlineExceeded
	}
	if last := c.failure; last != nil {
		return &Error{last.Status, last.RetryAfter, last.Message, fmt.Errorf("%w: %w", why, last)}
	}
	return &Error{Message: fmt.Sprintf("no answer in time: %v; check the daemon's log", why), Cause: why}
}

// ask sends a request that is safe to repeat until it is answered, and returns the body of the answer.
func (l *link) ask(c call, frame []byte) ([]byte, error) {
	select {
	case l.turns <- struct{}{}:
		defer func() { <-l.turns }()
	case <-c.Done():
		return nil, c.over()
	}
	resends := 0
	for pause := backOffMin; ; pause = min(2*pause, backOffMax) {
		body, failed := l.attempt(c, frame, pause > backOffMin)
		if failed == nil {
			return body, nil
		}
		if errors.Is(failed, ErrDisconnected) {
			if resends++; c.Err() != nil {
				return nil, c.over()
			}
		}
		if c.failure = failed; resends > resendsMax || !l.mayTryAgain(failed) {
			return nil, failed
		}
		// The pause has jitter, so that a host's processes don't all reconnect at once.
		select {
		case <-time.After(pause * time.Duration(75+time.Now().Nanosecond()/64%50) / 100):
		case <-c.Done():
			return nil, c.over()
		}
	}
}

// mayTryAgain reports whether an attempt may have failed because the daemon is restarting or temporarily has no room.
func (l *link) mayTryAgain(failed *Error) bool {
	switch {
	case failed.Status != StatusOK:
		return failed.Status.closes() && failed.Retryable()
	case errors.Is(failed, ErrUnreachable):
		// A full backlog means that a daemon is running. A socket that refuses connections was left by a killed daemon.
		return failed.Retryable() && (l.Wait || l.reached.Load() || exists(l.Socket) || hasJustGone(l.Socket))
	}
	return errors.Is(failed, ErrDisconnected)
}

// attempt sends a request once, and keeps the connection for later calls if it can be used again.
func (l *link) attempt(c call, frame []byte, fresh bool) ([]byte, *Error) {
	conn, failed := l.connect(fresh)
	if failed != nil {
		return nil, failed
	}
	if frame[4] == opIDs || frame[4] == opSeriesNext {
		le.PutUint32(frame[deadlineAt:], c.deadlineMs())
	}
	goesOn := context.AfterFunc(c, func() { conn.Close() })
	body, failed := conn.exchange(frame)
	if !goesOn() || failed != nil && (failed.Status == StatusOK || failed.Status.closes()) {
		conn.Close()
		return body, failed
	}
	select {
	case l.idle <- conn:
	default:
		conn.Close()
	}
	return body, failed
}

// connect returns an idle connection or opens a new one. Idle connections may have ended with an earlier daemon, so
// after a failure only a new one is used.
func (l *link) connect(fresh bool) (*conn, *Error) {
	select {
	case conn := <-l.idle:
		if !fresh {
			return conn, nil
		}
		conn.Close()
		return l.connect(fresh) // until no idle connection is left
	default:
	}
	if l.open.Err() != nil {
		return nil, errClosed
	}
	socket, err := net.Dial("unix", l.Socket) // does not block for a Unix socket
	if err == nil {
		l.reached.Store(true)
		forget := context.AfterFunc(l.open, func() { socket.Close() })
		return &conn{socket, bufio.NewReader(socket), 0, forget}, nil
	}
	hint := "is the daemon running, and is this its socket? LEAFD_SOCKET can name another path"
	if errors.Is(err, os.ErrPermission) {
		hint = "the socket's group and mode do not admit this user; see the settings socket_group and socket_mode"
	}
	return nil, &Error{Message: fmt.Sprintf("cannot connect to %s: %v; %s", l.Socket, err, hint),
		Cause: fmt.Errorf("%w: %w", ErrUnreachable, err)}
}

// exchange sends a request and returns the body of its answer.
func (c *conn) exchange(frame []byte) ([]byte, *Error) {
	if c.lastID++; c.lastID == 0 {
		c.lastID = 1 // the id 0 marks connection-level errors
	}
	le.PutUint32(frame[8:], c.lastID)
	c.Write(frame) // if this fails, the daemon may still have sent a reason
	status, opcode, id, body, err := readReply(c.in)
	if err == nil && (id != c.lastID || opcode != frame[4]+opReply) && !(id == 0 && status.closes()) {
		err = broken("a reply belongs to no request")
	}
	if own, isOwn := err.(*Error); isOwn {
		return nil, own
	} else if err != nil {
		return nil, &Error{Message: fmt.Sprintf("the connection to %s broke before the answer came: %v; the daemon may be "+
			"restarting, check its log", c.RemoteAddr(), err), Cause: fmt.Errorf("%w: %w", ErrDisconnected, err)}
	}
	if status != StatusOK {
		return nil, readRefusal(status, body)
	}
	return body, nil
}

// draw requests ids. With hold, the daemon may send fewer than count. It also returns how long they may be held.
func (l *link) draw(c call, tag string, count int, hold bool) ([]run, time.Duration, error) {
	body, err := l.ask(c, idsRequest(hold, count, c.deadlineMs(), tag))
	if err != nil {
		return nil, 0, err
	}
	return readIDs(body, count, hold)
}

package leafd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	requestsMax = 64 // at once; further calls wait for their turn
	refillsMax  = 32
	idleMax     = 8 // connections that are kept for later calls
	resendsMax  = 5 // of a request whose connections break, while the daemon stops and starts

	// The pauses between the attempts of one call.
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
	refills chan struct{} // requests ahead of use; they leave the other turns to calls
	closed  atomic.Bool
	reached atomic.Bool // a connection was made before, so a missing daemon is restarting

	mu   sync.Mutex
	idle []*conn // the last one is used first
}

// call is the context of one call, which always has an end.
type call struct {
	context.Context
	caller  context.Context
	failure *Error // why the last attempt failed
}

func (l *link) call(ctx context.Context) (call, context.CancelFunc) {
	limit := l.timeout + grace
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

// over returns the error of a call that ran out of time.
func (c call) over() error {
	why := c.caller.Err()
	if why == nil {
		why = os.ErrDeadlineExceeded
	}
	if last := c.failure; last != nil {
		return &Error{last.Status, last.RetryAfter, last.Message, cause{last, why}}
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
		// With jitter, so that a host's processes don't all reconnect at once.
		select {
		case <-time.After(pause * time.Duration(75+time.Now().Nanosecond()/64%50) / 100):
		case <-c.Done():
		}
		if c.Err() != nil {
			return nil, c.over()
		}
	}
}

// mayTryAgain reports whether the failure of an attempt may be that of a daemon that restarts or has no room for now.
func (l *link) mayTryAgain(failed *Error) bool {
	switch {
	case failed.Status != StatusOK:
		return failed.Status.closes() && failed.Retryable()
	case errors.Is(failed, ErrUnreachable):
		// A full backlog means that a daemon is there. A socket that refuses was left by a daemon that was killed.
		return failed.Retryable() && (l.wait || l.reached.Load() || exists(l.path) || hasJustGone(l.path))
	}
	return errors.Is(failed, ErrDisconnected)
}

// attempt sends a request once. Idle connections may have ended with an earlier daemon, so after a failure only a new one is
// used.
func (l *link) attempt(c call, frame []byte, fresh bool) ([]byte, *Error) {
	conn, failed := l.connect(fresh)
	if failed != nil {
		return nil, failed
	}
	body, failed := conn.exchange(c, frame)
	l.giveBack(conn, failed == nil || failed.Status != StatusOK && !failed.Status.closes())
	return body, failed
}

// giveBack keeps a usable connection for later calls.
func (l *link) giveBack(conn *conn, usable bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if usable && len(l.idle) < idleMax && !l.closed.Load() {
		l.idle = append(l.idle, conn)
	} else {
		conn.Close()
	}
}

func (l *link) connect(fresh bool) (*conn, *Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for last := len(l.idle) - 1; last >= 0; last-- {
		conn := l.idle[last]
		l.idle = l.idle[:last]
		if !fresh {
			return conn, nil
		}
		conn.Close()
	}
	if l.closed.Load() {
		return nil, closed()
	}
	socket, err := net.Dial("unix", l.path) // does not block for a Unix socket
	if err == nil {
		l.reached.Store(true)
		conn := &conn{Conn: socket, link: l}
		conn.in = bufio.NewReader(conn)
		return conn, nil
	}
	hint := "is the daemon running, and is this its socket? LEAFD_SOCKET can name another path"
	if errors.Is(err, os.ErrPermission) {
		hint = "the socket's group and mode do not admit this user; see the settings socket_group and socket_mode"
	}
	return nil, &Error{Message: fmt.Sprintf("cannot connect to %s: %v; %s", l.path, err, hint), Cause: cause{ErrUnreachable, err}}
}

// close makes later calls fail, and waiting ones soon.
func (l *link) close() {
	l.closed.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.idle {
		conn.Close()
	}
	l.idle = nil
}

// draw requests ids. With hold, the daemon may send fewer than count. It also returns how long they may be held.
func (l *link) draw(c call, tag string, count int, hold bool) ([]run, time.Duration, error) {
	if err := checkTag(tag); err != nil {
		return nil, 0, err
	}
	body, err := l.ask(c, idsRequest(hold, count, c.deadlineMs(), tag))
	if err != nil {
		return nil, 0, err
	}
	return readIDs(body, count, hold)
}

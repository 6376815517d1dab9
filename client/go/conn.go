package leafd

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// A waiting call checks after lookMin, then with doubling pauses up to lookMax, whether its context or client has ended.
// A goroutine that notices at once would cost more than most answers.
const (
	lookMin = time.Millisecond
	lookMax = 16 * time.Millisecond
)

// conn is a connection, which serves one call at a time.
type conn struct {
	net.Conn
	link   *link
	in     *bufio.Reader
	call   call
	lastID uint32
}

// exchange sends a request and returns the body of its answer.
func (c *conn) exchange(call call, frame []byte) ([]byte, *Error) {
	c.call = call
	if c.lastID++; c.lastID == 0 {
		c.lastID = 1 // the daemon addresses the whole connection with 0
	}
	le.PutUint32(frame[8:], c.lastID)
	if frame[4] == opIDs {
		le.PutUint32(frame[deadlineAt:], call.deadlineMs())
	}
	end, _ := call.Deadline()
	c.SetWriteDeadline(end)
	c.Write(frame) // if this fails, the daemon may still have sent a reason
	status, opcode, id, body, err := readReply(c.in)
	if err == nil && (id != c.lastID || opcode != frame[4]+opReply) && !(id == 0 && status.closes()) {
		err = broken("a reply belongs to no request")
	}
	if own, isOwn := err.(*Error); isOwn {
		return nil, own
	} else if err != nil {
		return nil, &Error{Message: fmt.Sprintf("the connection to %s broke before the answer came: %v; the daemon may be "+
			"restarting, check its log", c.link.path, err), Cause: cause{ErrDisconnected, err}}
	}
	if status != StatusOK {
		return nil, readRefusal(status, body)
	}
	return body, nil
}

// Read waits for bytes while the call lasts.
func (c *conn) Read(into []byte) (int, error) {
	for look := lookMin; ; look = min(2*look, lookMax) {
		c.SetReadDeadline(time.Now().Add(look))
		n, err := c.Conn.Read(into)
		if !errors.Is(err, os.ErrDeadlineExceeded) || c.call.Err() != nil || c.link.closed.Load() {
			return n, err
		}
	}
}

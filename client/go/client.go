// Package leafd draws unique 64-bit ids from the leafd daemon on this host.
//
//	client, err := leafd.New(leafd.Options{})
//	id, err := client.Next(ctx, "orders")
//
// A client returns ids from runs that the process holds, in nanoseconds, or draws them directly from the daemon, in
// microseconds. All goroutines can share one client. If the daemon restarts, calls wait for it within their time limit,
// and retry their requests.
package leafd

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

const (
	batchMax       = 1_000_000_000
	timeoutDefault = 2 * time.Second
	pathBytesMax   = 107 // the limit of the system's address structure
)

// Options are the settings of a client. The zero value has good defaults.
type Options struct {
	// Socket is the path of the daemon's socket, at most 107 bytes. The default is DefaultSocket().
	Socket string
	// Timeout limits calls whose context has no deadline. It is 2 s by default and at most 60 s. Such a call waits up
	// to 250 ms longer for the daemon's error.
	Timeout time.Duration
	// Wait makes calls wait for a daemon that has not been started yet, up to their time limit. By default they fail
	// immediately. Calls always wait for a daemon that appears to be restarting.
	Wait bool
	// Direct makes Next draw every id directly from the daemon.
	Direct bool
}

// Generator has the methods that most programs use. Both [Client] and the fake in package leafdtest implement it.
type Generator interface {
	// Next returns the next id of a tag; see [Client.Next].
	Next(ctx context.Context, tag string) (int64, error)
	// NextDirect draws the next id of a tag with a separate request; see [Client.NextDirect].
	NextDirect(ctx context.Context, tag string) (int64, error)
	// NextBatch draws count ids of a tag; see [Client.NextBatch].
	NextBatch(ctx context.Context, tag string, count int) ([]int64, error)
}

// Client draws ids. It is safe for concurrent use.
type Client struct {
	link     *link
	closed   atomic.Bool
	supplies sync.Map // from names to *supply
}

// New returns a client, which connects on first use. It fails with [ErrInvalid] if an option is outside its limits.
func New(options Options) (*Client, error) {
	if options.Socket == "" {
		options.Socket = DefaultSocket()
	}
	if options.Timeout == 0 {
		options.Timeout = timeoutDefault
	}
	if len(options.Socket) > pathBytesMax {
		return nil, invalid("a socket path must have at most %d bytes; this one has %d: %s", pathBytesMax,
			len(options.Socket), options.Socket)
	}
	if options.Timeout < 0 || options.Timeout > deadlineMax {
		return nil, invalid("a timeout is at most %v, not %v", deadlineMax, options.Timeout)
	}
	return &Client{link: newLink(options)}, nil
}

// Next returns the next id of a segment tag or a snowflake layout. The name has 1 to 128 characters, none of them a
// control character.
//
// Most calls return an id from a run that the process holds, and don't check the context. Such ids are not in
// chronological order across goroutines and processes.
func (c *Client) Next(ctx context.Context, tag string) (int64, error) {
	if c.link.Direct {
		return c.NextDirect(ctx, tag)
	}
	known, ok := c.supplies.Load(tag)
	if !ok {
		made := &supply{tag: tag, link: c.link, wish: firstCount, turn: make(chan struct{}, 1)}
		known, _ = c.supplies.LoadOrStore(tag, made)
	}
	id, err := known.(*supply).next(ctx)
	if c.closed.Load() {
		return 0, errClosed
	} else if err != nil && (errors.Is(err, StatusTagUnknown) || errors.Is(err, StatusTagInvalid)) {
		c.supplies.Delete(tag) // a program's users may enter any number of such names
	}
	return id, err
}

// NextDirect draws the next id of a tag with a separate request. It is higher than any id drawn directly on this host
// before.
func (c *Client) NextDirect(ctx context.Context, tag string) (int64, error) {
	ids, err := c.NextBatch(ctx, tag, 1)
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// NextBatch draws count ids directly, in the order of issue: from 0 to a billion. Each million takes one request. If
// one of several requests fails, the ids of the others are skipped.
func (c *Client) NextBatch(ctx context.Context, tag string, count int) ([]int64, error) {
	if count < 0 || count > batchMax {
		return nil, invalid("a batch has 0 to %d ids, not %d", batchMax, count)
	}
	call, cancel := c.link.call(ctx)
	defer cancel()
	ids := make([]int64, 0, min(count, countMax))
	for len(ids) < count {
		runs, _, err := c.link.draw(call, tag, min(count-len(ids), countMax), false)
		if err != nil {
			return nil, err
		}
		for _, run := range runs {
			for offset := int64(0); offset < run.count; offset++ {
				ids = append(ids, run.first+offset*run.stride)
			}
		}
	}
	return ids, nil
}

// Info returns what the daemon reports about itself.
func (c *Client) Info(ctx context.Context) (Info, error) {
	call, cancel := c.link.call(ctx)
	defer cancel()
	body, err := c.link.ask(call, infoRequest(protocolVersion, protocolVersion))
	if err != nil {
		return Info{}, err
	}
	return readInfo(body)
}

// Close closes all connections and drops all held ids. Waiting and later calls fail with [ErrClosed].
func (c *Client) Close() error {
	c.closed.Store(true)
	c.link.close()
	return nil
}

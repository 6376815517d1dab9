// Package leafd draws unique 64-bit ids from the leafd daemon of this host.
//
//	client, err := leafd.New(leafd.Options{})
//	id, err := client.Next(ctx, "orders")
//
// A client returns ids from runs that the process holds, in nanoseconds, or draws them directly from the daemon, in
// microseconds. All goroutines can share one client. If the daemon restarts, calls wait for it within their time limit and
// send their requests again.
package leafd

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	tagsMax        = 65_536
	batchMax       = 1_000_000_000
	timeoutDefault = 2 * time.Second
)

// Options are the settings of a client. The zero value has good defaults.
type Options struct {
	// Socket is the path of the daemon's socket; by default DefaultSocket().
	Socket string
	// Timeout limits calls whose context has no deadline: 2 s by default, at most 60 s. Such a call waits up to 250 ms longer
	// for the daemon's error.
	Timeout time.Duration
	// Wait makes calls wait for a daemon that has not been started yet, up to their time limit. By default they fail at
	// once. Calls always wait for a daemon that appears to be restarting.
	Wait bool
	// Direct makes Next draw every id directly from the daemon.
	Direct bool
}

// Generator has the methods that most programs use. Both [Client] and the fake in package leafdtest implement it.
type Generator interface {
	Next(ctx context.Context, tag string) (int64, error)
	NextDirect(ctx context.Context, tag string) (int64, error)
	NextBatch(ctx context.Context, tag string, count int) ([]int64, error)
}

var _ Generator = (*Client)(nil)

// Client draws ids. It is safe for concurrent use.
type Client struct {
	link     *link
	direct   bool
	supplies sync.Map // from names to *supply
	tags     atomic.Int64
}

// New returns a client. It connects on first use.
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
	return &Client{direct: options.Direct, link: &link{path: options.Socket, timeout: options.Timeout, wait: options.Wait,
		turns: make(chan struct{}, requestsMax), refills: make(chan struct{}, refillsMax)}}, nil
}

// Next returns the next id of a segment tag or a snowflake layout.
//
// Most calls return an id from a run that the process holds, and don't check the context. Ids drawn by different
// goroutines or processes are then not in order of time.
func (c *Client) Next(ctx context.Context, tag string) (int64, error) {
	if c.direct {
		return c.NextDirect(ctx, tag)
	}
	supply, err := c.supply(tag)
	if err != nil {
		return 0, err
	}
	return supply.next(ctx)
}

// NextDirect draws the next id of a tag with a separate request. It is above all ids drawn directly on this host before.
func (c *Client) NextDirect(ctx context.Context, tag string) (int64, error) {
	ids, err := c.NextBatch(ctx, tag, 1)
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// NextBatch draws up to a billion ids directly, in the order of issue. Each million is a separate request. If one of them
// fails, the ids of the others are skipped.
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

// The names of the kinds of ids that [Client.Ping] can ask about.
const (
	Segments  = "segment"
	Snowflake = "snowflake"
)

// Ping returns nil if the daemon answers and can issue ids of all these kinds now. Use it for health checks.
func (c *Client) Ping(ctx context.Context, kinds ...string) error {
	info, err := c.Info(ctx)
	for _, kind := range kinds {
		if err == nil && (kind == Segments && !info.SegmentsReady || kind == Snowflake && !info.SnowflakeReady) {
			err = &Error{Message: kind + " ids are unavailable now; check `leafctl status`", Cause: ErrNotReady}
		}
	}
	return err
}

// Socket returns the path of the daemon's socket.
func (c *Client) Socket() string { return c.link.path }

// Close closes all connections and drops all held ids. Waiting and later calls fail with [ErrClosed].
func (c *Client) Close() error {
	c.link.close()
	c.supplies.Range(func(_, value any) bool {
		value.(*supply).close()
		return true
	})
	return nil
}

func (c *Client) supply(tag string) (*supply, error) {
	if known, ok := c.supplies.Load(tag); ok {
		return known.(*supply), nil
	}
	if err := checkTag(tag); err != nil {
		return nil, err
	}
	if c.tags.Load() >= tagsMax {
		return nil, invalid("one client uses at most %d tags; make another client for %q", tagsMax, tag)
	}
	made := &supply{tag: tag, link: c.link, sizing: sizing{firstCount}, turn: make(chan struct{}, 1)}
	known, loaded := c.supplies.LoadOrStore(tag, made)
	if !loaded {
		c.tags.Add(1)
	}
	return known.(*supply), nil
}

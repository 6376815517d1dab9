// Package leafd draws unique 64-bit ids from the leafd daemon of this host.
//
//	client, err := leafd.New(leafd.Options{})
//	id, err := client.Next(ctx, "orders")
//
// A client takes ids out of runs that the process holds, in nanoseconds, or draws them directly from the daemon, in
// microseconds. All goroutines share one client. A restart of the daemon is no error: calls wait for it within their
// time, and their requests are repeated once.
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

// Options are the settings of a client. The zero value is a good one.
type Options struct {
	// Socket is the path of the daemon's socket; by default DefaultSocket().
	Socket string
	// Timeout limits calls whose context has no deadline: 2 s by default, at most 60 s. Such a call waits up to 250 ms longer
	// for the daemon's reason.
	Timeout time.Duration
	// Wait has calls wait for a daemon that was never there, as long as their time lasts. By default that is an error at
	// once. Calls always wait for a daemon that seems to be restarting.
	Wait bool
	// Direct has Next draw every id directly.
	Direct bool
}

// Generator is what most programs need of a client. The fake in package leafdtest implements it as well.
type Generator interface {
	Next(ctx context.Context, tag string) (int64, error)
	NextDirect(ctx context.Context, tag string) (int64, error)
	NextBatch(ctx context.Context, tag string, count int) ([]int64, error)
}

var _ Generator = (*Client)(nil)

// Client draws ids. Any goroutine may use it.
type Client struct {
	pool     *pool
	direct   bool
	supplies sync.Map // from names to *supply
	tags     atomic.Int64
	closed   atomic.Bool
}

// New makes a client, which connects on first use.
func New(options Options) (*Client, error) {
	if options.Socket == "" {
		options.Socket = DefaultSocket()
	}
	if options.Timeout == 0 {
		options.Timeout = timeoutDefault
	}
	if len(options.Socket) > pathBytesMax {
		return nil, invalid("the path of a socket has at most %d bytes; this one has %d: %s", pathBytesMax,
			len(options.Socket), options.Socket)
	}
	if options.Timeout < 0 || options.Timeout > deadlineMax {
		return nil, invalid("a timeout is at most %v, not %v", deadlineMax, options.Timeout)
	}
	return &Client{pool: newPool(options.Socket, options.Timeout, options.Wait), direct: options.Direct}, nil
}

// Next returns the next id of a tag, which is a segment tag or the name of a snowflake layout.
//
// Most calls take it out of a run that the process holds, without looking at the context. Ids of different goroutines
// and processes are not in order of time then.
func (c *Client) Next(ctx context.Context, tag string) (int64, error) {
	supply, err := c.supply(tag)
	if err != nil {
		return 0, err
	}
	return supply.next(ctx)
}

// NextDirect draws the next id of a tag by a request of its own. It is higher than any that was drawn so on this host before.
func (c *Client) NextDirect(ctx context.Context, tag string) (int64, error) {
	supply, err := c.supply(tag)
	if err != nil {
		return 0, err
	}
	return supply.nextDirect(ctx)
}

// NextBatch draws up to a billion ids directly, in the order in which they are issued. Each million is a request; after an
// error the ids that came before it are skipped.
func (c *Client) NextBatch(ctx context.Context, tag string, count int) ([]int64, error) {
	supply, err := c.supply(tag)
	if err != nil {
		return nil, err
	}
	return supply.nextBatch(ctx, count)
}

// Info returns what the daemon reports about itself.
func (c *Client) Info(ctx context.Context) (info Info, err error) {
	call, cancel := c.pool.call(ctx)
	defer cancel()
	err = c.pool.ask(call, func(uint32) []byte {
		return infoRequest(protocolVersion, protocolVersion)
	}, func(body []byte) (err error) {
		if info, err = readInfo(body); err == nil && info.Version != protocolVersion {
			err = broken("the daemon chose a protocol version that the client did not offer")
		}
		return err
	})
	return info, err
}

// The names of the kinds of ids that [Client.Ping] can ask about.
const (
	Segments  = "segment"
	Snowflake = "snowflake"
)

// Ping returns nil if the daemon answers and can issue ids of all these kinds now. It suits health checks.
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
func (c *Client) Socket() string { return c.pool.path }

// Close closes the connection and drops all held ids. Waiting and later calls fail with [ErrClosed].
func (c *Client) Close() error {
	c.closed.Store(true)
	c.pool.close()
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
	known, loaded := c.supplies.LoadOrStore(tag, newSupply(tag, c.pool, c.direct))
	if !loaded {
		c.tags.Add(1)
	}
	if c.closed.Load() {
		known.(*supply).close()
	}
	return known.(*supply), nil
}

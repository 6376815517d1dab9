package leafd

import "time"

// Layout describes the bits of a snowflake id: a sign bit of 0, then time, worker and sequence. The time counts ticks
// since the epoch.
type Layout struct {
	TimeBits, WorkerBits, SequenceBits uint8         // at most 63 bits together; time and sequence have at least one each
	Tick                               time.Duration // the length of a tick, in whole milliseconds from 1 ms to 1 h
	Epoch                              time.Time     // the start of tick 0
}

// Leaf is the layout of Leaf's snowflake ids, which leafd issues under the name "snowflake".
var Leaf = Layout{TimeBits: 41, WorkerBits: 10, SequenceBits: 12, Tick: time.Millisecond, Epoch: time.UnixMilli(1288834974657)}

const (
	tickMax = time.Hour
	// Half the range, so that arithmetic on instants can't overflow.
	unixMsMax = 1<<62 - 1
)

// Parts contains the parts of a snowflake id.
type Parts struct {
	Time                   time.Time // the start of the tick
	Tick, Worker, Sequence int64     // ticks since the epoch; the worker that issued the id; its number within both
}

// Check returns [ErrInvalid] unless all ids of the layout are positive and all its instants are representable.
func (l Layout) Check() error {
	ms, epoch := l.Tick.Milliseconds(), l.Epoch.UnixMilli()
	switch {
	case l.TimeBits < 1 || l.SequenceBits < 1 || int(l.TimeBits)+int(l.WorkerBits)+int(l.SequenceBits) > 63:
		return invalid("a layout has at least one bit each of time and sequence, and at most 63 bits together")
	case l.Tick < time.Millisecond || l.Tick > tickMax || l.Tick%time.Millisecond != 0:
		return invalid("a tick lasts 1 to 3,600,000 whole milliseconds, not %v", l.Tick)
	case epoch < 0 || epoch > unixMsMax || int64(1)<<l.TimeBits > (unixMsMax-epoch)/ms:
		return invalid("the layout's time bits reach beyond the last representable instant")
	}
	return nil
}

// Decode splits an id of this layout into its parts. It returns [ErrInvalid] for an invalid layout, or an id with bits
// that the layout doesn't have.
func (l Layout) Decode(id int64) (Parts, error) {
	if err := l.Check(); err != nil {
		return Parts{}, err
	}
	tick := id >> (l.WorkerBits + l.SequenceBits)
	if id < 0 || tick >= 1<<l.TimeBits {
		return Parts{}, invalid("%d is not an id of this layout: it has bits outside the layout's", id)
	}
	return Parts{
		Time:     time.UnixMilli(l.Epoch.UnixMilli() + tick*l.Tick.Milliseconds()),
		Tick:     tick,
		Worker:   id >> l.SequenceBits & (1<<l.WorkerBits - 1),
		Sequence: id & (1<<l.SequenceBits - 1),
	}, nil
}

// FirstIDAt returns the smallest id that can be issued at a given time or later, for range queries by time. It returns
// [ErrInvalid] for an invalid layout, or a time outside its range.
func (l Layout) FirstIDAt(at time.Time) (int64, error) {
	if err := l.Check(); err != nil {
		return 0, err
	}
	end := time.UnixMilli(l.Epoch.UnixMilli() + int64(1)<<l.TimeBits*l.Tick.Milliseconds())
	if at.Before(l.Epoch) || !at.Before(end) {
		return 0, invalid("%v is outside this layout's time, which goes from %v to %v", at, l.Epoch, end)
	}
	return (at.UnixMilli() - l.Epoch.UnixMilli()) / l.Tick.Milliseconds() << (l.WorkerBits + l.SequenceBits), nil
}

// Info is what the daemon reports about itself.
type Info struct {
	Version         int               // the protocol version that both sides support
	SegmentsReady   bool              // whether segment ids are available now
	SnowflakeReady  bool              // whether snowflake ids are available now
	RequestBytesMax uint32            // the largest length field of a request
	CountMax        uint32            // the maximum number of ids in one request
	PipelineMax     uint32            // the maximum number of requests on one connection that may await an answer
	DeadlineMax     time.Duration     // the longest deadline that the daemon honours
	PID             uint32            // the daemon's process id, in its own process namespace
	Release         string            // the daemon's release, such as "0.1.0"
	Layouts         map[string]Layout // the snowflake layouts, by the names under which their ids are drawn
}

package leafd

import "time"

// Layout describes the bits of a snowflake id: a sign bit of 0, then time, worker and sequence. The time counts ticks
// since the epoch.
type Layout struct {
	TimeBits, WorkerBits, SequenceBits uint8
	Tick                               time.Duration // the length of a tick, 1 ms to 1 h
	Epoch                              time.Time
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
	Time                   time.Time // when the tick begins
	Tick, Worker, Sequence int64
}

// Check returns an error unless all ids of the layout are positive and all its instants are representable.
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

// Decode splits an id of this layout into its parts.
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

// FirstIDAt returns the smallest id that can be issued at a time or later, for range queries by time.
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
	Version         int
	SegmentsReady   bool // segment ids can be drawn now
	SnowflakeReady  bool // snowflake ids can be drawn now
	RequestBytesMax uint32
	CountMax        uint32
	PipelineMax     uint32
	DeadlineMax     time.Duration
	PID             uint32 // in the daemon's own process namespace
	Release         string
	Layouts         map[string]Layout // by the names under which their ids are drawn
}

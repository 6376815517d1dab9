package leafd

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// supply is one tag of a client: the run that the process holds, and where the next one comes from.
//
// One goroutine at a time fetches a run. Callers that need one wait for it, each with its own context. Well before a run's
// end the caller that takes the id there has the next one fetched, and does not wait.
type supply struct {
	tag     string
	pool    *pool
	direct  bool
	current atomic.Pointer[heldRun] // written under the lock

	mu          sync.Mutex
	queued      []*heldRun // fetched, not yet used
	sizing      sizing
	unlearned   *heldRun // the run that was installed last, until its use is taken into account
	installedAt time.Time
	fetching    *fetch
	waiting     int
	neverHold   bool // ids of this tag may not be held
	timer       *time.Timer
	closed      bool
}

// fetch is a request for a run.
type fetch struct {
	ahead bool // nobody waited for it when it began
	count int
	done  chan struct{}
	first int64 // the first id, which belongs to the caller that began the fetch, unless that was ahead
	err   error
}

func newSupply(tag string, pool *pool, direct bool) *supply {
	s := &supply{tag: tag, pool: pool, direct: direct, sizing: sizing{firstCount}}
	s.current.Store(exhausted)
	return s
}

func (s *supply) next(ctx context.Context) (int64, error) {
	run := s.current.Load()
	id, offset, ok := run.take()
	if !ok {
		return s.nextSlow(ctx)
	}
	if offset == run.refillAt && s.mu.TryLock() {
		if s.fetching == nil && len(s.queued) == 0 && !s.neverHold && !s.closed {
			c, cancel := s.pool.call(context.Background())
			f := s.begin(true)
			go func() { s.fetch(c, f); cancel() }()
		}
		s.mu.Unlock()
	}
	return id, nil
}

func (s *supply) nextDirect(ctx context.Context) (int64, error) {
	c, cancel := s.pool.call(ctx)
	defer cancel()
	got, err := s.draw(c, 1, false)
	return got.first(), err
}

func (s *supply) nextBatch(ctx context.Context, count int) ([]int64, error) {
	if count < 0 || count > batchMax {
		return nil, invalid("a batch has 0 to %d ids, not %d", batchMax, count)
	}
	c, cancel := s.pool.call(ctx)
	defer cancel()
	ids := make([]int64, 0, min(int64(count), countMax))
	for len(ids) < count {
		got, err := s.draw(c, int(min(int64(count-len(ids)), countMax)), false)
		if err != nil {
			return nil, err
		}
		for _, run := range got.runs {
			for offset := int64(0); offset < run.count; offset++ {
				ids = append(ids, run.first+offset*run.stride)
			}
		}
	}
	return ids, nil
}

func (s *supply) draw(c call, count int, hold bool) (got drawn, err error) {
	var sent time.Time
	err = s.pool.ask(c, func(deadlineMs uint32) []byte {
		sent = time.Now()
		return idsRequest(hold, count, deadlineMs, s.tag)
	}, func(body []byte) (err error) {
		got, err = readIDs(body, count, hold)
		return err
	})
	got.sent = sent
	return got, err
}

func (s *supply) nextSlow(ctx context.Context) (int64, error) {
	c, cancel := s.pool.call(ctx)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed {
		// Another goroutine may have installed a run.
		if id, _, ok := s.current.Load().take(); ok {
			return id, nil
		}
		if s.direct || s.neverHold {
			return s.nextUnheld(c)
		}
		if s.installNext() {
			continue
		}
		f := s.fetching
		if f == nil {
			f = s.begin(false)
			s.mu.Unlock()
			s.fetch(c, f)
			s.mu.Lock()
			return f.first, f.err
		}
		s.waiting++
		s.mu.Unlock()
		select {
		case <-f.done:
		case <-c.Done():
		}
		s.mu.Lock()
		s.waiting--
		var failed *Error
		if s.fetching == f {
			return 0, c.over()
		} else if errors.As(f.err, &failed) && !f.ahead && !failed.Timeout() && !errors.Is(f.err, context.Canceled) {
			return 0, f.err
		}
		// What went wrong ahead was some time ago, and another call may have had less time.
	}
	return 0, closed()
}

// begin decides on a fetch, which is to follow. The lock is held.
func (s *supply) begin(ahead bool) *fetch {
	s.learn()
	// Each goroutine that waits is to get an id.
	count := min(max(s.sizing.wish, int64(s.waiting+1)), runCountMax)
	s.fetching = &fetch{ahead: ahead, count: int(count), done: make(chan struct{})}
	return s.fetching
}

func (s *supply) fetch(c call, f *fetch) {
	got, err := s.draw(c, f.count, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.closed {
		err = closed()
	}
	s.fetching = nil
	if f.err = err; err == nil {
		f.first = got.first()
		s.stow(got, f.ahead)
	}
	close(f.done)
}

func (s *supply) stow(got drawn, ahead bool) {
	s.neverHold = got.hold == 0 // then what came beyond the first id is skipped
	for i, run := range got.runs {
		if !s.neverHold {
			s.queued = append(s.queued, newHeldRun(run, !ahead && i == 0, got.sent, got.hold))
		}
	}
	if !ahead {
		s.installNext()
	}
}

// nextUnheld draws one id by itself. It releases the lock while it waits.
func (s *supply) nextUnheld(c call) (int64, error) {
	s.mu.Unlock()
	got, err := s.draw(c, 1, !s.direct)
	s.mu.Lock()
	if err == nil && got.hold > 0 {
		s.neverHold = false // the tag was created anew
	}
	return got.first(), err
}

// installNext makes the next queued run the current one, or has no current one.
func (s *supply) installNext() bool {
	s.learn()
	for len(s.queued) > 0 {
		run := s.queued[0]
		s.queued = s.queued[1:]
		if run.isTooOld() {
			continue
		}
		s.unlearned, s.installedAt = run, time.Now()
		s.current.Store(run)
		if run.hold >= shortHold {
			s.dropInTime(run)
		}
		return true
	}
	s.current.Store(exhausted)
	return false
}

func (s *supply) dropInTime(run *heldRun) {
	left := run.hold - time.Since(run.sent)
	if s.timer == nil {
		s.timer = time.AfterFunc(left, s.timeOver)
	} else {
		s.timer.Reset(left)
	}
}

func (s *supply) timeOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run := s.current.Load(); run.hold >= shortHold && run.isTooOld() {
		s.current.Store(exhausted)
	} else if run.hold >= shortHold && !s.closed {
		s.dropInTime(run)
	}
}

// learn takes the use of the current run into account, once a run.
func (s *supply) learn() {
	if run := s.unlearned; run != nil {
		s.unlearned = nil
		s.sizing.observe(run.hold, run.count, run.used(), time.Since(s.installedAt))
	}
}

// close makes sure that no id of a held run, or of one that has been asked for, is returned any more.
func (s *supply) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.current.Load().poison()
	s.current.Store(exhausted)
	s.queued = nil
	if s.timer != nil {
		s.timer.Stop()
	}
}

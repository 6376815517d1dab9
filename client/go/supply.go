package leafd

import (
	"context"
	"sync/atomic"
	"time"
)

// supply holds the current run of one tag and fetches the next one.
//
// Goroutines that need a run take turns: the one with the turn fetches a run, and the others then take ids from it.
// Before a run ends, one caller starts to fetch the next run in the background.
type supply struct {
	tag  string
	link *link

	current   atomic.Pointer[heldRun] // nil: no run is held
	neverHold atomic.Bool             // ids of this tag may not be held
	waiting   atomic.Int64
	failure   atomic.Pointer[Error] // why the last fetch for the goroutines that wait failed

	turn chan struct{} // full while a goroutine has the turn; only that goroutine uses the following fields
	// Runs that were fetched but not used yet.
	queued      []*heldRun
	wish        int64    // how many ids the next run should have
	unlearned   *heldRun // the run installed last, until its use has been taken into account
	installedAt time.Time
}

func (s *supply) next(ctx context.Context) (int64, error) {
	run := s.current.Load()
	id, offset, ok := run.take()
	if !ok {
		return s.nextSlow(ctx)
	}
	if offset == run.refillAt {
		s.refill()
	}
	return id, nil
}

func (s *supply) nextSlow(ctx context.Context) (int64, error) {
	c, cancel := s.link.call(ctx)
	defer cancel()
	if s.neverHold.Load() {
		return s.nextUnheld(c)
	}
	if s.waiting.Add(1) == 1 {
		s.failure.Store(nil)
	}
	defer s.waiting.Add(-1)
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
		c.failure = s.failure.Load()
	case <-c.Done():
		c.failure = s.failure.Load()
		return 0, c.over()
	}
	if id, ok := s.advance(); ok {
		return id, nil
	}
	return s.fetch(c, false)
}

// nextUnheld draws a single id that may not be held, which requires no turn.
func (s *supply) nextUnheld(c call) (int64, error) {
	runs, hold, err := s.link.draw(c, s.tag, 1, true)
	if err != nil {
		return 0, err
	}
	s.neverHold.Store(hold == 0) // otherwise the tag was recreated
	return runs[0].first, nil
}

// refill fetches the next run in the background, unless another goroutine has the turn, or too many other runs are
// being fetched. If it fetches no run, the run is requested again when the current one ends.
func (s *supply) refill() {
	select {
	case s.turn <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-s.turn }()
		select {
		case s.link.refills <- struct{}{}:
			defer func() { <-s.link.refills }()
		default:
			return
		}
		if len(s.queued) == 0 && !s.neverHold.Load() {
			c, cancel := s.link.call(context.Background())
			defer cancel()
			s.fetch(c, true)
		}
	}()
}

// fetch draws runs and queues them. Unless it is ahead of use, it takes the first id. The caller must have the turn.
func (s *supply) fetch(c call, ahead bool) (int64, error) {
	if run := s.unlearned; run != nil {
		s.unlearned = nil
		s.wish = nextWish(s.wish, run.hold, run.count, run.used(), time.Since(s.installedAt))
	}
	// Each waiting goroutine should get an id.
	sent := time.Now()
	runs, hold, err := s.link.draw(c, s.tag, int(min(max(s.wish, s.waiting.Load()), runCountMax)), true)
	if failure, _ := err.(*Error); c.caller.Err() == nil {
		s.failure.Store(failure)
	}
	if err != nil {
		return 0, err
	}
	first := &runs[0]
	id := first.first
	if !ahead {
		first.first += first.stride
		first.count--
	}
	s.neverHold.Store(hold == 0) // then all ids except the first are skipped
	for _, run := range runs {
		if hold > 0 {
			s.queued = append(s.queued, newHeldRun(run, sent, hold))
		}
	}
	return id, nil
}

// advance takes an id from the current run or the next one. The caller must have the turn.
func (s *supply) advance() (int64, bool) {
	for {
		if id, _, ok := s.current.Load().take(); ok {
			return id, true
		}
		if len(s.queued) == 0 {
			return 0, false
		}
		run := s.queued[0]
		if s.queued = s.queued[1:]; run.isTooOld() {
			continue
		}
		s.unlearned, s.installedAt = run, time.Now()
		s.current.Store(run)
		if run.hold >= shortHold {
			time.AfterFunc(run.hold-time.Since(run.sent), func() { s.current.CompareAndSwap(run, nil) })
		}
	}
}

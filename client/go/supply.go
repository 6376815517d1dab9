package leafd

import (
	"context"
	"sync/atomic"
	"time"
)

// supply holds the current run of one tag and fetches the next one.
//
// Goroutines that need a run take turns: the one that has the turn fetches a run, and the others then find ids in it.
// Before a run ends, one caller starts to fetch the next run in the background.
type supply struct {
	tag  string
	link *link

	current   atomic.Pointer[heldRun]
	neverHold atomic.Bool // ids of this tag may not be held
	closed    atomic.Bool
	waiting   atomic.Int64

	turn chan struct{} // full while a goroutine has the turn, which the following fields belong to
	// Runs that were fetched, but not used yet.
	queued      []*heldRun
	sizing      sizing
	unlearned   *heldRun // the run that was installed last, until its use is taken into account
	installedAt time.Time
}

func newSupply(tag string, link *link) *supply {
	s := &supply{tag: tag, link: link, sizing: sizing{firstCount}, turn: make(chan struct{}, 1)}
	s.current.Store(exhausted)
	return s
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
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	select {
	case s.turn <- struct{}{}:
	case <-c.Done():
		return 0, s.link.over(c)
	case <-s.link.life.Done():
		return 0, closed()
	}
	id, ok := s.advance()
	if ok || s.neverHold.Load() {
		<-s.turn
		if !ok {
			return s.nextUnheld(c)
		}
		return id, nil
	}
	defer func() { <-s.turn }()
	got, err := s.fetch(c, true)
	if err == nil && s.closed.Load() {
		err = closed()
	}
	return got.first(), err
}

// nextUnheld draws a single id that may not be held.
func (s *supply) nextUnheld(c call) (int64, error) {
	got, err := s.link.draw(c, s.tag, 1, true)
	if got.hold > 0 {
		s.neverHold.Store(false) // the tag was created anew
	}
	return got.first(), err
}

// refill fetches the next run in the background, unless another goroutine has the turn.
func (s *supply) refill() {
	select {
	case s.turn <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-s.turn }()
		if len(s.queued) == 0 && !s.neverHold.Load() {
			c, cancel := s.link.call(context.Background())
			defer cancel()
			s.fetch(c, false) // if it fails, the end of the run asks again
		}
	}()
}

// fetch draws a run and queues it, without its first id if the caller takes that. The caller must have the turn.
func (s *supply) fetch(c call, firstTaken bool) (drawn, error) {
	s.learn()
	// Each goroutine that waits is to get an id.
	got, err := s.link.draw(c, s.tag, int(min(max(s.sizing.wish, s.waiting.Load()), runCountMax)), true)
	if err != nil {
		return drawn{}, err
	}
	s.neverHold.Store(got.hold == 0) // then what came beyond the first id is skipped
	for i, run := range got.runs {
		if got.hold > 0 {
			s.queued = append(s.queued, newHeldRun(run, firstTaken && i == 0, got.sent, got.hold))
		}
	}
	return got, nil
}

// advance takes an id from the current run or the next one. The caller must have the turn.
func (s *supply) advance() (int64, bool) {
	for {
		if id, _, ok := s.current.Load().take(); ok {
			return id, true
		}
		s.learn()
		if len(s.queued) == 0 || s.closed.Load() {
			s.current.Store(exhausted)
			return 0, false
		}
		run := s.queued[0]
		if s.queued = s.queued[1:]; !run.isTooOld() {
			s.install(run)
		}
	}
}

func (s *supply) install(run *heldRun) {
	s.unlearned, s.installedAt = run, time.Now()
	s.current.Store(run)
	if run.hold >= shortHold {
		time.AfterFunc(run.hold-time.Since(run.sent), func() { s.current.CompareAndSwap(run, exhausted) })
	}
	if s.closed.Load() {
		s.close()
	}
}

// learn updates the size of the next run from the use of the current one, once per run. The caller must have the turn.
func (s *supply) learn() {
	if run := s.unlearned; run != nil {
		s.unlearned = nil
		s.sizing.observe(run.hold, run.count, run.used(), time.Since(s.installedAt))
	}
}

// close drops all held ids, and those of a run that is being fetched.
func (s *supply) close() {
	s.closed.Store(true)
	s.current.Swap(exhausted).poison()
}

package leafd

import (
	"sync/atomic"
	"time"
)

const (
	runCountMax   = 65_536
	firstCount    = 4   // small, because a process may draw a few ids and exit
	longFloor     = 4   // the minimum size of a run of long-lived ids
	shortRunCount = 256 // runs of fewer ids are short
	growthMax     = 16
	checkEvery    = 64

	shortHold  = time.Second // ids that may be held for less are short-lived
	shortRun   = 3 * time.Millisecond
	longRunMin = 250 * time.Millisecond
	longRunMax = 2 * time.Second
)

// heldRun is a run that this process holds. Its cursor only increases, so each id is returned once, however long a
// goroutine is suspended.
type heldRun struct {
	_      [128]byte // the cursor shares no cache line with anything else
	cursor atomic.Int64
	_      [128]byte

	run
	sent     time.Time
	hold     time.Duration
	refillAt int64 // the goroutine that takes the id at this offset starts fetching the next run
	// The clocks are checked at offsets where these bits are 0. A timer drops long-lived runs, so checking them at
	// every 64th id is enough.
	uncheckedBits int64
}

func newHeldRun(r run, sent time.Time, hold time.Duration) *heldRun {
	h := &heldRun{run: r, sent: sent, hold: hold}
	// A long run is used quickly, so half of it is left for the time until the answer arrives. A short run is used
	// slowly, or its process has just started and may exit soon, so the later the request, the fewer ids are skipped.
	if h.refillAt = r.count / 2; r.count < shortRunCount {
		h.refillAt = r.count - (r.count+3)/4
	}
	if hold >= shortHold {
		h.uncheckedBits = checkEvery - 1
	}
	return h
}

// isTooOld checks two clocks: the monotonic one stops while the machine is suspended, and the wall clock can be set.
func (h *heldRun) isTooOld() bool {
	now := time.Now()
	return now.Sub(h.sent) >= h.hold || now.Round(0).Sub(h.sent.Round(0)) >= h.hold
}

// take returns the next id and its offset, unless no usable one is left.
func (h *heldRun) take() (id, offset int64, ok bool) {
	if h == nil {
		return 0, 0, false
	}
	offset = h.cursor.Add(1) - 1
	ok = offset < h.count && (offset&h.uncheckedBits != 0 || !h.isTooOld())
	return h.first + offset*h.stride, offset, ok
}

func (h *heldRun) used() int64 { return min(h.cursor.Load(), h.count) }

// nextWish decides how many ids the next run should have, based on how many ids of the last run were used and how long
// that took.
func nextWish(wish int64, hold time.Duration, count, used int64, lasted time.Duration) int64 {
	taken, ns := float64(max(used, 1)), float64(max(lasted, 1))
	next, floor := float64(wish), int64(longFloor)
	if hold < shortHold {
		floor = 1
		next = taken * float64(min(shortRun, hold/2)) / ns
	} else if whole := ns * float64(count) / taken; whole < float64(longRunMin) {
		next *= 2
	} else if whole > float64(longRunMax) {
		next /= 2
	}
	return max(floor, int64(min(next, float64(wish*growthMax), runCountMax)))
}

//! The run that a process holds of one tag. One atomic addition takes an id from it.
//!
//! A fork zeroes the slot in the child, so a slot may be all zeros at any moment, and zero means empty. The cursor
//! carries the generation of its run, and the reader checks that the run it read has the same generation. So a thread
//! never pairs one run's cursor with another run's end, however long it slept in between.
//!
//! ```text
//! cursor: generation (40 bits) | offset (24 bits)
//! ```
//!
//! A generation is used once. Its offset starts where [`Slot::install`] sets it and only increases, so each
//! (generation, offset) goes to one thread only.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

use leafd_wire::Run;

/// The most ids in an installed run. The rest of the offset's range is room for late threads. Most of them continue
/// with [`Slot::clear`]; those far above the run's end reset the offset.
pub(crate) const RUN_COUNT_MAX: u32 = 65_536;

/// Runs with fewer ids are short.
const SHORT_RUN_COUNT: u64 = 256;

/// From this value on, the offset is reset. It must never reach the generation's bits, where it would revive an earlier
/// run.
const OFFSET_LATE: u64 = 1 << (OFFSET_BITS - 1);

/// The last generation. A slot that reaches it (after a century at 300 runs a second) holds no more runs.
pub(crate) const GENERATION_MAX: u64 = (1 << (64 - OFFSET_BITS)) - 1;

const OFFSET_BITS: u32 = 24;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;

/// How many runs a thread may lag behind before its id is skipped. Under loom there is one place, so every install
/// overwrites what a reader may be reading.
const RING: usize = if cfg!(loom) { 1 } else { 4 };

/// The generation of a descriptor whose fields are changing. No real generation is this large.
const WRITING: u64 = u64::MAX;

/// One tag's held run. It has cache lines of its own: the cursor changes often, the descriptors rarely.
#[repr(C)]
pub(crate) struct Slot {
    cursor: Cursor,
    runs: [Descriptor; RING],
}

/// An id of a held run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldId {
    /// The id.
    pub id: u64,
    /// Whether it is time to request the next run. True once per run.
    pub refill_due: bool,
}

#[repr(C, align(128))]
struct Cursor(AtomicU64);

#[repr(C, align(32))]
struct Descriptor {
    generation: AtomicU64,
    first: AtomicU64,
    /// Stride in the upper half, count in the lower.
    shape: AtomicU64,
    expires_ns: AtomicU64,
}

/// The thread that takes the id at this offset requests the next run. A long run is used within microseconds, so half
/// of it is left for the time until the answer arrives. A short run is used slowly, or its process has just started and
/// may exit soon. The later it requests the next run, the fewer ids are skipped.
#[inline]
fn refill_offset(count: u64) -> u64 {
    if count < SHORT_RUN_COUNT { count - count.div_ceil(4) } else { count / 2 }
}

// === impl Slot ===

impl Slot {
    /// Takes the next id of the held run. `None`: nothing is held, or the run is exhausted or too old. The caller must
    /// then take the slow path, which clears or refills the slot.
    #[inline]
    pub(crate) fn take(&self, now_ns: u64) -> Option<HeldId> {
        // Acquire pairs with the Release in `install`: a thread that sees a generation in the cursor sees its
        // descriptor's fields, or later ones.
        let cursor = self.cursor.0.fetch_add(1, Ordering::Acquire);
        let generation = cursor >> OFFSET_BITS;
        let offset = cursor & OFFSET_MASK;
        let run = &self.runs[generation as usize % RING];
        let first = run.first.load(Ordering::Relaxed);
        let shape = run.shape.load(Ordering::Relaxed);
        let expires_ns = run.expires_ns.load(Ordering::Relaxed);
        // If any field above came from a later install, this fence makes the mark that the install set first visible
        // to the load below, and the generations differ.
        fence(Ordering::Acquire);
        if run.generation.load(Ordering::Relaxed) != generation {
            return self.nothing(offset);
        }
        // An empty slot's descriptor of generation 0 has a count of 0.
        let count = shape & u64::from(u32::MAX);
        if offset >= count || now_ns >= expires_ns {
            return self.nothing(offset);
        }
        let refill_due = offset == refill_offset(count);
        Some(HeldId { id: first + offset * (shape >> 32), refill_due })
    }

    /// Handles a slot with nothing left to take. Callers that only check for held ids get here repeatedly.
    #[cold]
    fn nothing(&self, offset: u64) -> Option<HeldId> {
        if offset >= OFFSET_LATE {
            let mut cursor = self.cursor.0.load(Ordering::Relaxed);
            // A run that was installed meanwhile has a small offset again, and stays as it is.
            while cursor & OFFSET_MASK >= OFFSET_LATE {
                match self.cursor.0.compare_exchange_weak(
                    cursor,
                    0,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => break,
                    Err(now) => cursor = now,
                }
            }
        }
        None
    }

    /// Installs `run`, whose ids are taken from the `offset`-th on.
    ///
    /// Only one thread at a time may call this or [`Slot::clear`], each generation must be above
    /// all earlier ones, and the run's ids must be positive signed 64-bit numbers.
    pub(crate) fn install(&self, generation: u64, run: Run, offset: u32, expires_ns: u64) {
        assert!((1..=GENERATION_MAX).contains(&generation), "generation {generation}");
        assert!(run.count <= RUN_COUNT_MAX && offset <= run.count, "{run:?} from {offset}");
        assert!(run.last().is_some(), "{run:?} leaves the positive 64-bit numbers");
        let place = &self.runs[generation as usize % RING];
        place.generation.store(WRITING, Ordering::Relaxed);
        fence(Ordering::Release);
        place.first.store(run.first, Ordering::Relaxed);
        let shape = u64::from(run.stride) << 32 | u64::from(run.count);
        place.shape.store(shape, Ordering::Relaxed);
        place.expires_ns.store(expires_ns, Ordering::Relaxed);
        place.generation.store(generation, Ordering::Release);
        self.cursor.0.store(generation << OFFSET_BITS | u64::from(offset), Ordering::Release);
    }

    /// Empties the slot and skips the rest of its ids.
    pub(crate) fn clear(&self) {
        self.cursor.0.store(0, Ordering::Relaxed);
    }

    /// How many offsets of `generation` were taken, if it is the current one.
    pub(crate) fn offset(&self, generation: u64) -> Option<u32> {
        let cursor = self.cursor.0.load(Ordering::Relaxed);
        (cursor >> OFFSET_BITS == generation).then_some((cursor & OFFSET_MASK) as u32)
    }
}

#[cfg(test)]
impl Slot {
    fn new() -> Slot {
        let zero = || AtomicU64::new(0);
        Slot {
            cursor: Cursor(zero()),
            runs: std::array::from_fn(|_| Descriptor {
                generation: zero(),
                first: zero(),
                shape: zero(),
                expires_ns: zero(),
            }),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn zero_is_empty() {
        let slot = Slot::new();
        for _ in 0..100 {
            assert_eq!(slot.take(0), None);
        }
        slot.clear();
        assert_eq!(slot.take(0), None);
    }

    #[test]
    fn a_run_is_taken_from_its_offset_to_its_end_and_no_further() {
        let slot = Slot::new();
        slot.install(1, Run { first: 100, count: 4, stride: 3 }, 1, u64::MAX);
        let taken: Vec<_> = std::iter::from_fn(|| slot.take(0)).collect();
        assert_eq!(
            taken,
            [
                HeldId { id: 103, refill_due: false },
                HeldId { id: 106, refill_due: false },
                HeldId { id: 109, refill_due: true },
            ]
        );
        assert_eq!(slot.take(0), None);
    }

    #[test]
    fn the_next_run_is_asked_for_once_a_run_and_late_in_short_ones() {
        for (count, due_at) in
            [(2, Some(1)), (4, Some(3)), (64, Some(48)), (256, Some(128)), (65_536, Some(32_768))]
        {
            let slot = Slot::new();
            slot.install(1, Run { first: 100, count, stride: 1 }, 0, u64::MAX);
            let due = (0..count).filter(|_| slot.take(0).unwrap().refill_due);
            let due: Vec<u64> = due.map(u64::from).collect();
            assert_eq!(due, Vec::from_iter(due_at), "of {count}");
        }
    }

    #[test]
    fn an_old_run_gives_nothing() {
        let slot = Slot::new();
        slot.install(1, Run { first: 1, count: 10, stride: 1 }, 0, 1_000);
        assert!(slot.take(999).is_some());
        assert!(slot.take(1_000).is_none());
    }

    #[test]
    fn whoever_looks_in_vain_for_ever_finds_no_old_run() {
        let slot = Slot::new();
        let run = Run { first: 100, count: 4, stride: 1 };
        slot.install(1, run, 4, u64::MAX);
        for cleared in [false, true] {
            if cleared {
                slot.clear();
            }
            for _ in 0..(OFFSET_MASK + 1) * 2 {
                assert_eq!(slot.take(0), None);
            }
        }
        slot.install(2, run, 3, u64::MAX);
        assert_eq!(slot.take(0).map(|taken| taken.id), Some(103));
    }

    #[test]
    fn ids_up_to_the_largest_positive_number_can_be_taken() {
        let slot = Slot::new();
        let last = i64::MAX as u64;
        slot.install(1, Run { first: last - 1, count: 2, stride: 1 }, 1, u64::MAX);
        assert_eq!(slot.take(0).map(|taken| taken.id), Some(last));
        assert_eq!(slot.take(0), None);
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    const OLD: Run = Run { first: 10, count: 2, stride: 1 };
    const NEW: Run = Run { first: 20, count: 3, stride: 2 };

    fn belongs(run: Run, id: u64) -> bool {
        run.ids().any(|of_run| of_run == id)
    }

    fn check_unique(mut ids: Vec<u64>) {
        assert!(ids.iter().all(|&id| belongs(OLD, id) || belongs(NEW, id)), "{ids:?}");
        ids.sort_unstable();
        let all = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), all, "an id repeats: {ids:?}");
    }

    /// Each install overwrites the descriptor that the taker may be reading. A publish without Release, a missing
    /// generation check or a missing fence would pair old fields with new ones.
    #[test]
    fn loom_no_cursor_is_paired_with_another_runs_end() {
        loom::model(|| {
            let slot = Arc::new(Slot::new());
            slot.install(1, OLD, 0, u64::MAX);
            let taker = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || {
                    (0..2).filter_map(|_| slot.take(0)).map(|taken| taken.id).collect::<Vec<_>>()
                })
            };
            slot.install(2, NEW, 1, u64::MAX);
            let mut ids: Vec<u64> = slot.take(0).map(|taken| taken.id).into_iter().collect();
            ids.extend(taker.join().unwrap());
            check_unique(ids);
        });
    }

    /// Threads take an id each while a run is installed, cleared and replaced.
    fn share(takers: usize) {
        let slot = Arc::new(Slot::new());
        let takers: Vec<_> = (0..takers)
            .map(|_| {
                let slot = Arc::clone(&slot);
                thread::spawn(move || slot.take(0).map(|taken| taken.id))
            })
            .collect();
        slot.install(1, OLD, 0, u64::MAX);
        slot.clear();
        slot.install(2, NEW, 0, u64::MAX);
        check_unique(takers.into_iter().filter_map(|taker| taker.join().unwrap()).collect());
    }

    #[test]
    fn loom_a_run_that_is_cleared_and_replaced_gives_no_mixture() {
        loom::model(|| share(1));
    }

    /// Three threads have too many schedules to try all of them. Those with two preemptions take a quarter of a minute.
    #[test]
    fn loom_threads_that_share_a_run_never_share_an_id() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| share(2));
    }

    #[test]
    fn loom_the_first_run_is_seen_whole_or_not_at_all() {
        loom::model(|| {
            let slot = Arc::new(Slot::new());
            let taker = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || slot.take(0))
            };
            slot.install(1, NEW, 0, u64::MAX);
            if let Some(taken) = taker.join().unwrap() {
                assert_eq!(taken.id, NEW.first);
            }
        });
    }
}

//! The generator alone, with clocks that behave as real ones do.

use std::collections::HashSet;

use leafd_core::lease::IssueWindow;
use leafd_core::snowflake::{Generator, Now, Refusal};
use leafd_core::{BootMs, UnixMs, WorkerId};
use leafd_wire::{Layout, Run};

use crate::seed::seeds;

const START_MS: u64 = 1_800_000_000_000;
const DRIFT_MS: u64 = 5_000;

fn at(ms: u64) -> Now {
    Now { unix: UnixMs(START_MS + ms), boot: BootMs(ms) }
}

/// A generator that starts at this mark, as a worker without an end.
fn as_worker(worker: WorkerId, layout: Layout, mark: UnixMs) -> Generator {
    let mut generator = Generator::new(layout, mark, DRIFT_MS);
    generator.follow(Some(IssueWindow::fixed(worker)));
    generator
}

/// When the ids of a run of Leaf's layout were issued.
fn tick_start(run: &Run) -> u64 {
    Layout::LEAF.tick_start_ms(Layout::LEAF.decompose(run.first).expect("it is Leaf's").tick)
}

fn generator() -> Generator {
    let mut generator = as_worker(WorkerId(17), Layout::LEAF, UnixMs(0));
    generator.marked(UnixMs(START_MS + 1_000_000_000));
    generator
}

#[test]
fn an_id_has_the_layout_s_parts() {
    let run = generator().take(at(0), 1, 7).expect("nothing speaks against it");
    let parts = Layout::LEAF.decompose(run.first).expect("it is of this layout");
    assert_eq!(parts.worker, 17);
    assert_eq!(parts.sequence, 7);
    assert_eq!(Layout::LEAF.tick_start_ms(parts.tick), START_MS);
}

#[test]
fn the_sequence_starts_below_a_sixty_fourth_and_below_100() {
    let mut generator = generator();
    let mut sequence = |ms| {
        let run = generator.take(at(ms), 1, ms * 31).expect("a new tick");
        Layout::LEAF.decompose(run.first).expect("ours").sequence
    };
    assert_eq!((0..1_000).map(&mut sequence).max(), Some(63));
    assert_eq!(generator.issued, 1_000);
}

#[test]
#[should_panic(expected = "at least one id")]
fn a_request_for_zero_ids_panics() {
    let _ = generator().take(at(0), 0, 0);
}

#[test]
fn a_used_up_tick_waits_for_the_next_one() {
    let mut generator = generator();
    assert_eq!(generator.take(at(0), 4_095, 0).map(|run| run.count), Ok(4_095));
    assert_eq!(generator.take(at(0), 5_000, 0).map(|run| run.count), Ok(1));
    assert_eq!(generator.take(at(0), 1, 0), Err(Refusal::TickUsedUp { wait_ms: 1 }));
    assert!(generator.take(at(1), 1, 0).is_ok());
}

#[test]
fn ticks_slept_through_by_a_waiting_request_are_used() {
    let mut generator = generator();
    let mut issued = 0;
    for wake_ms in [0, 2, 5, 7, 10] {
        while let Ok(run) = generator.take(at(wake_ms), 5_000, 0) {
            issued += run.count;
        }
    }
    assert_eq!(issued, 11 * 4_096, "every tick from 0 to 10 is used");
    // Whoever comes later didn't wait.
    generator.take(at(11), 1, 0).expect("a new tick");
    assert_eq!(tick_start(&generator.take(at(100), 1, 0).expect("a new tick")), START_MS + 100);
}

#[test]
fn a_coarse_tick_that_is_used_up_ends_with_the_wall_clock() {
    let layout = Layout { unit_ms: 10, sequence_bits: 4, epoch_ms: START_MS, ..Layout::LEAF };
    let mut generator = as_worker(WorkerId(17), layout, UnixMs(0));
    generator.marked(UnixMs(START_MS + 1_000_000));
    assert_eq!(generator.take(at(7), 100, 0).map(|run| run.count), Ok(16));
    assert_eq!(generator.take(at(7), 1, 0), Err(Refusal::TickUsedUp { wait_ms: 3 }));
    let mut issued = 0;
    while let Ok(run) = generator.take(at(35), 100, 0) {
        issued += run.count;
    }
    assert_eq!(issued, 16, "only short ticks that passed meanwhile are used");
    // One tick is longer than the drift.
    let layout = Layout { unit_ms: 2 * DRIFT_MS as u32, ..layout };
    let mut generator = as_worker(WorkerId(17), layout, UnixMs(0));
    generator.marked(UnixMs(START_MS + 1_000_000));
    assert_eq!(generator.take(at(7), 100, 0).map(|run| run.count), Ok(16));
    assert_eq!(generator.take(at(7), 1, 0), Err(Refusal::TickUsedUp { wait_ms: 9_993 }));
}

#[test]
fn a_clock_stepping_back_within_the_drift_is_ridden_out() {
    let mut generator = generator();
    let before = generator.take(at(10_000), 1, 0).expect("it runs").first;
    let mut last = before;
    for ms in 0..2_000 {
        let now = Now { unix: UnixMs(START_MS + 8_000 + ms), boot: BootMs(10_000 + ms) };
        let id = generator.take(now, 1, 0).expect("2 s back is within 5 s of drift").first;
        assert!(id > last);
        last = id;
    }
}

#[test]
fn ahead_of_the_clock_ids_come_no_faster_than_time_passes() {
    let mut generator = generator();
    generator.take(at(10_000), 1, 0).expect("it runs");
    let mut issued = 0;
    for ms in 0..100 {
        let now = Now { unix: UnixMs(START_MS + 8_000), boot: BootMs(10_000 + ms) };
        while let Ok(run) = generator.take(now, 10_000, 0) {
            issued += run.count;
        }
    }
    assert!(issued <= 101 * 4_096, "{issued} ids in 100 ms");
    assert!(issued >= 99 * 4_000, "{issued} ids in 100 ms");
}

#[test]
fn ahead_of_the_clock_time_slept_through_is_not_lost() {
    let mut generator = generator();
    generator.take(at(10_000), 1, 0).expect("it runs");
    let mut issued = 0;
    for wake_ms in [0, 2, 5, 7, 10] {
        let now = Now { unix: UnixMs(START_MS + 8_000), boot: BootMs(10_000 + wake_ms) };
        while let Ok(run) = generator.take(now, 10_000, 0) {
            issued += run.count;
        }
    }
    assert_eq!(issued, 11 * 4_096 - 1, "every tick of the ten milliseconds is used");
}

#[test]
fn a_clock_beyond_the_drift_is_refused_with_the_time_to_wait() {
    let mut generator = generator();
    generator.take(at(3_600_000), 1, 0).expect("it runs");
    let back = Now { unix: UnixMs(START_MS), boot: BootMs(3_600_001) };
    assert_eq!(
        generator.take(back, 1, 0),
        Err(Refusal::ClockBehind { behind_ms: 3_600_000, wait_ms: 3_595_000 })
    );
    let caught_up = Now { unix: UnixMs(START_MS + 3_595_000), boot: BootMs(3_600_002) };
    assert!(generator.take(caught_up, 1, 0).is_ok());
}

#[test]
fn nothing_is_issued_past_the_mark_however_late_it_is_checked() {
    let mark = START_MS + 10;
    let mut generator = as_worker(WorkerId(1), Layout::LEAF, UnixMs(0));
    generator.marked(UnixMs(mark));
    assert!(generator.take(at(9), 1, 0).is_ok(), "the tick ends at the mark");
    assert_eq!(generator.take(at(10), 1, 0), Err(Refusal::MarkReached));
    assert_eq!(generator.take(at(1_000_000), 1, 0), Err(Refusal::MarkReached));
    // Nor past the end of a lease.
    let mut generator = Generator::new(Layout::LEAF, UnixMs(0), DRIFT_MS);
    let limit = UnixMs(START_MS + 5);
    generator.follow(Some(IssueWindow { limit, ..IssueWindow::fixed(WorkerId(1)) }));
    generator.marked(UnixMs(mark));
    assert_eq!(generator.take(at(4), 1, 0).map(|run| tick_start(&run)), Ok(START_MS + 4));
    assert_eq!(generator.take(at(5), 1, 0), Err(Refusal::LeaseEnds));
}

#[test]
fn a_mark_is_wanted_before_use_reaches_it() {
    let start = UnixMs(START_MS);
    let window = IssueWindow::fixed(WorkerId(1));
    let wanted = |layout, mark: u64, window, ms| {
        let mut generator = Generator::new(layout, UnixMs(START_MS + mark), DRIFT_MS);
        generator.follow(Some(window));
        generator.mark_wanted(at(ms)).map(|mark| mark.0 - START_MS)
    };
    let leaf = |mark, ms| wanted(Layout::LEAF, mark, window, ms);
    // Half the drift above the clock, when less than half of that is left.
    assert_eq!(leaf(0, 0), Some(2_500));
    // Use begins at the mark: an eighth above that.
    assert_eq!(leaf(3_000, 0), Some(3_312));
    // Two coarse ticks.
    let coarse = Layout { unit_ms: 1_000, epoch_ms: START_MS, ..Layout::LEAF };
    assert_eq!(wanted(coarse, 3_000, window, 0), Some(5_000));
    // Not above a lease's end, nor where the layout has no time left.
    let window_to = |ms| IssueWindow { limit: UnixMs(START_MS + ms), ..window };
    assert_eq!(wanted(Layout::LEAF, 1_000, window_to(1_001), 0), Some(1_001));
    assert_eq!(wanted(Layout::LEAF, 1_000, window_to(1_000), 0), None);
    let short = Layout { time_bits: 10, epoch_ms: START_MS, ..Layout::LEAF };
    assert_eq!(wanted(short, 0, window, 1_023), Some(3_523));
    assert_eq!(wanted(short, 0, window, 1_024), None);

    let mut generator = as_worker(WorkerId(1), Layout::LEAF, start);
    generator.marked(UnixMs(START_MS + 2_500));
    assert_eq!(generator.mark_wanted(at(1_249)), None);
    assert_eq!(generator.mark_wanted(at(1_250)), Some(UnixMs(START_MS + 3_750)));
}

#[test]
fn a_restart_goes_on_at_the_recorded_mark_at_once() {
    let mark = START_MS + 3_000;
    let mut generator = as_worker(WorkerId(1), Layout::LEAF, UnixMs(mark));
    assert_eq!(generator.take(at(0), 1, 0), Err(Refusal::MarkReached));
    let next = generator.mark_wanted(at(0)).expect("it has none ahead");
    generator.marked(next);
    let run = generator.take(at(0), 1, 0).expect("3 s ahead is within the drift");
    assert_eq!(tick_start(&run), mark);
}

#[test]
fn a_higher_mark_that_is_learnt_without_a_worker_is_what_a_stop_records() {
    let mut generator = generator();
    generator.take(at(0), 1, 0).expect("nothing speaks against it");
    generator.follow(None);
    let mark = UnixMs(START_MS + 2_000_000_000);
    generator.start_over(mark);
    assert_eq!(generator.used_end(), Some(mark), "a stop must not move the mark back");
    assert_eq!(generator.issued_below(), mark, "nor a lease that is let go of tell less");
}

#[test]
fn a_worker_goes_on_above_a_higher_mark_that_is_learnt() {
    let mut generator = generator();
    generator.start_over(UnixMs(START_MS + 1_000_000_000));
    generator.marked(UnixMs(START_MS + 2_000_000_000));
    let run = generator.take(at(1_000_000_000), 1, 0).expect("the clock is there");
    assert_eq!(tick_start(&run), START_MS + 1_000_000_000);
}

#[test]
fn a_host_that_crashes_again_and_again_stays_within_the_drift() {
    let mut mark = UnixMs(0);
    for crash in 0..8 {
        let now = at(crash);
        let mut generator = as_worker(WorkerId(1), Layout::LEAF, mark);
        mark = generator.mark_wanted(now).expect("a new life needs a new mark");
        generator.marked(mark);
        assert!(generator.take(now, 1, 0).is_ok(), "crash {crash}, mark {mark:?}");
    }
}

#[test]
fn the_time_bits_end_in_an_error_and_not_in_a_wrap() {
    let layout = Layout { time_bits: 10, epoch_ms: START_MS, ..Layout::LEAF };
    let mut generator = as_worker(WorkerId(1), layout, UnixMs(0));
    generator.marked(UnixMs(START_MS + 1_000_000));
    assert!(generator.take(at(1_023), 1, 0).is_ok());
    assert_eq!(generator.clock_refusal(at(1_023)), None);
    assert_eq!(generator.take(at(1_024), 1, 0), Err(Refusal::TimeExhausted));
    let before = Now { unix: UnixMs(START_MS - 1), boot: BootMs(0) };
    assert_eq!(generator.take(before, 1, 0), Err(Refusal::BeforeEpoch));
    // Worker 0's very first id would be 0, which is none.
    let mut generator = as_worker(WorkerId(0), layout, UnixMs(0));
    generator.marked(UnixMs(START_MS + 1_000_000));
    assert_eq!(generator.take(at(0), 1, 0), Err(Refusal::BeforeEpoch));
    assert!(generator.take(at(0), 1, 1).is_ok());
}

#[test]
fn a_53_bit_layout_stays_within_what_javascript_holds() {
    let layout = Layout {
        time_bits: 37,
        worker_bits: 8,
        sequence_bits: 8,
        unit_ms: 10,
        epoch_ms: 1_735_689_600_000,
    };
    layout.check().expect("it can be");
    let mut generator = as_worker(WorkerId(255), layout, UnixMs(0));
    generator.marked(UnixMs(u64::MAX / 4));
    let end = layout.tick_start_ms(layout.tick_max());
    let id =
        generator.take(Now { unix: UnixMs(end), boot: BootMs(0) }, 256, 0).expect("the last tick");
    assert!(id.last().is_some_and(|last| last < 1 << 53));
}

/// Clocks that step both ways, crashes, clean stops, late marks. The ids of all lives are unique, and the
/// host's ids ascend.
#[test]
fn no_id_is_issued_twice_whatever_the_clocks_do() {
    for mut random in seeds(200) {
        let mut mark = UnixMs(0);
        let (mut wall, mut boot) = (START_MS, 0);
        let mut issued = HashSet::new();
        let mut last = 0;
        for _life in 0..10 {
            let layout = Layout { sequence_bits: 4, ..Layout::LEAF };
            let mut generator = as_worker(WorkerId(3), layout, mark);
            let mut wanted = None;
            for _step in 0..random.usize(1..300) {
                match random.u32(0..100) {
                    0 => wall -= random.u64(0..10_000),
                    1 => wall += random.u64(0..10_000),
                    _ => {
                        let passed = random.u64(0..4);
                        wall += passed;
                        boot += passed;
                    }
                }
                let now = Now { unix: UnixMs(wall), boot: BootMs(boot) };
                match random.u32(0..4) {
                    0 if wanted.is_none() => wanted = generator.mark_wanted(now),
                    1 => {
                        if let Some(moved) = wanted.take() {
                            mark = moved;
                            generator.marked(moved);
                        }
                    }
                    _ => {
                        if let Ok(run) = generator.take(now, random.u32(1..40), random.u64(..)) {
                            for id in run.ids() {
                                assert!(issued.insert(id), "{id} is issued twice");
                                assert!(id > last, "{id} follows {last}");
                                last = id;
                                let tick = layout.decompose(id).expect("ours").tick;
                                assert!(layout.tick_start_ms(tick + 1) <= mark.0);
                            }
                        }
                    }
                }
            }
            if random.bool() {
                mark = generator.used_end().expect("there is a worker").max(UnixMs(1));
            }
        }
    }
}

#[test]
fn a_start_ahead_of_the_clock_has_its_whole_drift_left() {
    for back_ms in [1, 3_000, 4_990] {
        for after_ms in [0, 1, 2_000, 4_999, 6_000] {
            let floor = UnixMs(START_MS + DRIFT_MS);
            let mut generator = as_worker(WorkerId(17), Layout::LEAF, floor);
            generator.marked(UnixMs(START_MS + 1_000_000_000));
            let mut last = generator.take(at(0), 1, 0).expect("within the drift").first;
            last = last.max(generator.take(at(after_ms), 1, 0).expect("no step yet").first);
            for passed_ms in 0..100 {
                let boot = after_ms + passed_ms;
                let now = Now {
                    unix: UnixMs(START_MS + boot - back_ms.min(boot + START_MS)),
                    boot: BootMs(boot),
                };
                let id = generator.take(now, 1, 0).unwrap_or_else(|refusal| {
                    panic!("{back_ms} ms back after {after_ms} ms: {refusal:?}")
                });
                assert!(id.first > last);
                last = id.first;
            }
            // The lead doesn't allow more: an id beyond drift and lead is refused.
            let far = Now {
                unix: UnixMs(START_MS + after_ms - 2 * DRIFT_MS.min(START_MS) - 200),
                boot: BootMs(after_ms + 100),
            };
            assert!(matches!(generator.take(far, 1, 0), Err(Refusal::ClockBehind { .. })));
        }
    }
}

#[test]
fn the_lead_of_a_start_is_gone_once_time_has_caught_up() {
    let mut generator = as_worker(WorkerId(17), Layout::LEAF, UnixMs(START_MS + 3_000));
    generator.marked(UnixMs(START_MS + 1_000_000_000));
    generator.take(at(1_000), 1, 0).expect("within the drift");
    let back = Now { unix: UnixMs(START_MS + 1_500 - DRIFT_MS), boot: BootMs(1_500) };
    generator.take(back, 1, 0).expect("within the drift and what is left of the lead");

    let mut generator = as_worker(WorkerId(17), Layout::LEAF, UnixMs(START_MS + 2_000));
    generator.marked(UnixMs(START_MS + 1_000_000_000));
    generator.take(at(0), 1, 0).expect("within the drift");
    generator.take(at(3_000), 1, 0).expect("the clock is past the start");
    let back = |ms| Now { unix: UnixMs(START_MS + 3_000 - ms), boot: BootMs(3_000) };
    generator.take(back(DRIFT_MS), 1, 0).expect("within the drift");
    let refused = generator.take(back(DRIFT_MS + 1), 1, 0);
    let behind_ms = DRIFT_MS + 1;
    assert_eq!(refused, Err(Refusal::ClockBehind { behind_ms, wait_ms: 1 }));
}

#[test]
fn a_new_worker_gets_no_lead() {
    let mut generator = as_worker(WorkerId(17), Layout::LEAF, UnixMs(START_MS + 4_000));
    generator.marked(UnixMs(START_MS + DRIFT_MS + 1_000));
    generator.take(at(0), 1, 0).expect("within the drift");
    generator.follow(Some(IssueWindow::fixed(WorkerId(18))));
    let behind = Refusal::ClockBehind { behind_ms: DRIFT_MS + 1_000, wait_ms: 1_000 };
    assert_eq!(generator.take(at(0), 1, 0), Err(behind));
    // This is known before there is a worker too.
    let generator = Generator::new(Layout::LEAF, generator.mark, DRIFT_MS);
    assert_eq!(generator.clock_refusal(at(0)), Some(behind));
}

#[test]
fn a_mark_only_rises() {
    let mut generator = as_worker(WorkerId(17), Layout::LEAF, UnixMs(START_MS));
    generator.marked(UnixMs(START_MS + 2_000));
    // An earlier record is told late.
    generator.marked(UnixMs(START_MS + 1_000));
    assert_eq!(generator.mark, UnixMs(START_MS + 2_000));
    generator.take(at(1_500), 1, 0).expect("below the higher mark");
    // The next worker starts above what this one may have issued.
    generator.follow(Some(IssueWindow::fixed(WorkerId(18))));
    generator.marked(UnixMs(START_MS + 1_000_000));
    let run = generator.take(at(1_500), 1, 0).expect("within the drift");
    assert_eq!(tick_start(&run), START_MS + 2_000);
}

#[test]
fn a_start_beyond_the_drift_waits_for_the_clock() {
    let floor = UnixMs(START_MS + DRIFT_MS + 1_000);
    let mut generator = as_worker(WorkerId(17), Layout::LEAF, floor);
    generator.marked(UnixMs(START_MS + 1_000_000_000));
    let refused = generator.take(at(0), 1, 0);
    assert_eq!(refused, Err(Refusal::ClockBehind { behind_ms: DRIFT_MS + 1_000, wait_ms: 1_000 }));
    assert!(generator.take(at(999), 1, 0).is_err());
    assert!(generator.take(at(1_000), 1, 0).is_ok());
}

#[test]
fn what_the_clock_refuses_is_known_before_an_id_is_asked_for() {
    for mut random in seeds(200) {
        let floor = START_MS + random.u64(..2 * DRIFT_MS);
        let mut generator = as_worker(WorkerId(17), Layout::LEAF, UnixMs(floor));
        generator.marked(UnixMs(START_MS + 1_000_000_000));
        let (mut boot, mut unix) = (0, START_MS);
        for _ in 0..300 {
            boot += random.u64(..3_000);
            // It steps both ways, sometimes to before the epoch or beyond the time bits.
            unix = match random.u64(..30) {
                0 => unix - random.u64(..20_000),
                1 => unix + random.u64(..20_000),
                2 => *random.choice([0, 1 << 42, START_MS].iter()).expect("there are some"),
                _ => unix + 1,
            };
            unix = unix.max(30_000);
            let now = Now { unix: UnixMs(unix), boot: BootMs(boot) };
            let expected = generator.clock_refusal(now);
            let taken = generator.take(now, random.u32(1..6_000), random.u64(..));
            match taken {
                Ok(_) | Err(Refusal::TickUsedUp { .. } | Refusal::MarkReached) => {
                    assert_eq!(expected, None, "{now:?}: {taken:?}");
                }
                Err(refusal) => assert_eq!(expected, Some(refusal), "{now:?}"),
            }
        }
    }
}

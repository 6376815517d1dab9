//! The lives of a daemon that draws from one tag's lanes at random: stores met early and late, claims, marks,
//! lost commits, lanes forgotten, ceilings moved, and a journal that commits in order and late, crashes included.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use leafd::id::segment::{Allocator, Cut, MarkMove, Provision};
use leafd::id::{BootMs, Want};
use leafd_wire::Run;

use crate::seed::{Seeded, seeds};

const PROVISION: Provision =
    Provision { autonomy_ms: 600_000, step_max: 10_000_000, mark_ahead_ms: 5_000 };

const START: BootMs = BootMs(0);

const ID_MAX: u64 = i64::MAX as u64;

/// One lane's store and what the journal has of the lane.
#[derive(Clone, Debug)]
struct OnDisk {
    max_id: u64,
    /// The largest number that may be issued.
    ceiling: u64,
    segments: Vec<(Range<u64>, u64)>,
    highest_end: u64,
}

/// A change on its way into the journal, and what follows when it is there.
enum Change {
    Mark(MarkMove, Option<Vec<MarkMove>>),
    Segment { lane: u32, numbers: Range<u64>, mark: u64, held: bool },
    Forget(u32),
}

/// A daemon's life over stores and a journal.
struct Life {
    tag: Allocator<u32>,
    journal: VecDeque<Change>,
    met: Vec<bool>,
    claim: Option<u64>,
    now: BootMs,
}

/// What must hold over all lives.
#[derive(Default)]
struct Issued {
    ids: HashSet<u64>,
    /// Each lane's highest number.
    last: Vec<u64>,
    /// What was cut, lane by lane.
    dead: Vec<(u32, Range<u64>)>,
}

impl Life {
    fn journal_cut(&mut self, lane: u32, cut: Cut) {
        self.journal.extend(cut.closed.into_iter().map(|closed| Change::Mark(closed, None)));
        if let Some((numbers, mark)) = cut.kept {
            self.journal.push_back(Change::Segment { lane, numbers, mark, held: false });
        }
    }

    fn set_ceiling(&mut self, lane: u32, ceiling: u64, issued: &mut Issued) {
        let above = self
            .tag
            .exact_marks()
            .filter(|(of, numbers, _)| *of == lane && numbers.end > ceiling.saturating_add(1));
        let dead = above.map(|(_, numbers, next)| (lane, next.max(ceiling + 1)..numbers.end));
        let dead: Vec<_> = dead.collect();
        let lost: u64 = dead.iter().map(|(_, numbers)| numbers.end - numbers.start).sum();
        issued.dead.extend(dead);
        let cut = self.tag.set_ceiling(lane, ceiling);
        assert_eq!(cut.lost, lost);
        self.journal_cut(lane, cut);
    }

    /// Meets a lane's store: takes up what the journal has of it.
    fn meet(&mut self, lane: u32, disk: &OnDisk, ceiling_first: bool, issued: &mut Issued) {
        let unused = disk.segments.iter().filter(|(numbers, mark)| *mark < numbers.end);
        let mut leftovers: Vec<_> = unused.map(|(numbers, mark)| *mark..numbers.end).collect();
        leftovers.sort_by_key(|range| range.start);
        if ceiling_first {
            self.set_ceiling(lane, disk.ceiling, issued);
        }
        let cut = self.tag.restore(lane, leftovers, disk.highest_end);
        self.journal_cut(lane, cut);
        self.set_ceiling(lane, disk.ceiling, issued);
        self.met[lane as usize] = true;
    }

    /// The store answers the claim in flight.
    fn answer(&mut self, want: u64, lane: u32, disk: &mut OnDisk, random: &mut Seeded) {
        let numbers = disk.max_id..disk.max_id + want.max(10);
        if random.u32(0..4) == 0 || numbers.start > disk.ceiling {
            // The answer is lost or a refusal.
            return self.tag.claim_failed(BootMs(self.now.0 + random.u64(0..100)));
        }
        disk.max_id = numbers.end;
        match self.tag.claimed(self.now, lane, &numbers, 10) {
            Ok(moved) => {
                assert_eq!((moved.lane, moved.end), (lane, numbers.end));
                let mark = moved.mark;
                self.journal.push_back(Change::Segment { lane, numbers, mark, held: true });
            }
            Err(end) => {
                assert!(numbers.start < end);
                disk.max_id = disk.max_id.max(end);
                self.tag.claim_failed(self.now);
            }
        }
    }

    /// The journal commits its next change. `alive`: the daemon is there to see it.
    fn commit(&mut self, disks: &mut [OnDisk], alive: bool) {
        let Some(change) = self.journal.pop_front() else { return };
        match change {
            Change::Mark(moved, last_of) => {
                let segments = &mut disks[moved.lane as usize].segments;
                if let Some(found) = segments.iter_mut().find(|(held, _)| held.end == moved.end) {
                    assert!(moved.mark >= found.1 && moved.mark <= found.0.end, "{moved:?}");
                    found.1 = moved.mark;
                }
                segments.retain(|(held, mark)| *mark < held.end);
                if let Some(moves) = last_of.filter(|_| alive) {
                    self.tag.marked(&moves);
                }
            }
            Change::Segment { lane, numbers, mark, held } => {
                let disk = &mut disks[lane as usize];
                let overlaps = |(old, _): &(Range<u64>, u64)| {
                    old.start < numbers.end && numbers.start < old.end
                };
                assert!(!disk.segments.iter().any(overlaps), "{numbers:?} overlaps");
                disk.highest_end = disk.highest_end.max(numbers.end);
                if mark < numbers.end {
                    disk.segments.push((numbers.clone(), mark));
                }
                if held && alive {
                    let cut = self.tag.hold(lane, &numbers, mark);
                    self.journal_cut(lane, cut);
                }
            }
            Change::Forget(lane) => disks[lane as usize].segments.clear(),
        }
    }

    /// The exact marks of a clean stop.
    fn stop(mut self, disks: &mut [OnDisk]) {
        while !self.journal.is_empty() {
            self.commit(disks, true);
        }
        for (lane, held, mark) in self.tag.exact_marks() {
            let segments = &mut disks[lane as usize].segments;
            segments.retain(|(numbers, _)| numbers.end != held.end);
            segments.push((held, mark));
        }
    }
}

impl Issued {
    fn check(&mut self, runs: Vec<Run>, lanes: u32, disks: &[OnDisk]) {
        for id in runs.into_iter().flat_map(Run::ids) {
            let lane = u32::try_from(id % u64::from(lanes)).expect("a lane is 32 bits wide");
            let (k, disk) = (id / u64::from(lanes), &disks[lane as usize]);
            assert!(id <= ID_MAX, "{id} is no id");
            assert!(self.ids.insert(id), "{id} is issued twice");
            assert!(k <= disk.ceiling, "{k} of lane {lane} lies above {}", disk.ceiling);
            assert!(k < disk.highest_end, "{k} of lane {lane} was never recorded");
            let left = disk.segments.iter().find(|(held, mark)| (*mark..held.end).contains(&k));
            assert_eq!(left, None, "a restart would issue {k} of lane {lane} again");
            let dead = self.dead.iter().find(|(of, cut)| *of == lane && cut.contains(&k));
            assert_eq!(dead, None, "{k} of lane {lane} was cut");
            let last = &mut self.last[lane as usize];
            assert!(k > *last, "{k} of lane {lane} follows {last}");
            *last = k;
        }
    }
}

/// No id twice, none above its lane's ceiling, none that a restart would issue again, and each lane's ascending
/// throughout.
#[test]
fn no_id_is_issued_twice_whatever_becomes_of_the_lanes() {
    let mut drawn = 0;
    for mut random in seeds(100) {
        let lanes = random.u32(1..5);
        let first = match random.bool() {
            true => 1,
            // Near the last id.
            false => ID_MAX / u64::from(lanes) - random.u64(1..20_000),
        };
        let new = OnDisk { max_id: first, ceiling: ID_MAX, segments: Vec::new(), highest_end: 0 };
        let mut disks = vec![new; lanes as usize];
        let mut issued = Issued { last: vec![0; lanes as usize], ..Issued::default() };
        let mut now = START;
        for _life in 0..8 {
            let mut life = Life {
                tag: Allocator::new(PROVISION, lanes, now),
                journal: VecDeque::new(),
                met: vec![false; lanes as usize],
                claim: None,
                now,
            };
            for _step in 0..random.usize(1..400) {
                now = BootMs(now.0 + random.u64(0..50));
                life.now = now;
                let lane = random.u32(0..lanes);
                let disk = &mut disks[lane as usize];
                let mut runs = Vec::new();
                match random.u32(0..16) {
                    0..5 => {
                        let fewer_will_do = random.bool();
                        let count = if random.u32(0..10) == 0 { 5_000 } else { random.u32(1..200) };
                        let want = Want { count, fewer_will_do };
                        if !life.tag.take(want, &mut runs) {
                            life.tag.enqueue(want, BootMs(now.0 + 500), 0);
                        }
                    }
                    5..7 => {
                        let moves = life.tag.marks_wanted(now);
                        for (index, moved) in moves.iter().enumerate() {
                            let last = (index + 1 == moves.len()).then(|| moves.clone());
                            life.journal.push_back(Change::Mark(*moved, last));
                        }
                    }
                    7..9 if life.claim.is_none() => life.claim = life.tag.claim_wanted(now),
                    9..11 if life.met[lane as usize] => {
                        if let Some(want) = life.claim.take() {
                            life.answer(want, lane, disk, &mut random);
                        }
                    }
                    11 if !life.met[lane as usize] => {
                        life.meet(lane, disk, random.bool(), &mut issued);
                    }
                    12 if random.u32(0..4) == 0 && life.met[lane as usize] => {
                        disk.ceiling = match random.bool() {
                            true => ID_MAX,
                            false => disk.max_id.saturating_sub(random.u64(0..500)),
                        };
                        life.set_ceiling(lane, disk.ceiling, &mut issued);
                    }
                    13 if random.u32(0..8) == 0 => {
                        life.tag.forget_lane(lane);
                        life.journal.push_back(Change::Forget(lane));
                    }
                    14 if random.u32(0..8) == 0 => {
                        // The store loses commits.
                        disk.max_id = disk.max_id.saturating_sub(random.u64(0..500)).max(first);
                    }
                    _ => life.commit(&mut disks, true),
                }
                life.tag.expire(now);
                while life.tag.serve_next(&mut runs).is_some() {}
                issued.check(runs, lanes, &disks);
            }
            if random.bool() {
                life.stop(&mut disks);
            } else {
                for _ in 0..random.usize(0..3) {
                    life.commit(&mut disks, false);
                }
                if !life.journal.is_empty() {
                    // What the journal was not told in time may be issued yet.
                    issued.dead.clear();
                }
            }
        }
        drawn += issued.ids.len();
    }
    assert!(drawn > 10_000, "only {drawn} ids were drawn");
}

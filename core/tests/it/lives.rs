//! The lives of a daemon that draws at random from one tag's shards. Stores are met early and late, claims and marks
//! are made, commits are lost, shards forgotten, ceilings moved. Tags leave memory and come back, and a journal
//! commits in order but late. Crashes are included.

use std::collections::{HashSet, VecDeque};

use leafd_core::segment::{Allocator, MarkMove, PrefetchPolicy, Truncation};
use leafd_core::store::{ClaimWish, Generation, Shard, TagRow, plan_claim};
use leafd_core::{BootMs, Tag, Want};
use leafd_wire::Run;

use crate::seed::{Seeded, seeds};

const PROVISION: PrefetchPolicy =
    PrefetchPolicy { autonomy_ms: 600_000, step_max: 10_000_000, mark_ahead_ms: 5_000, hold_ms: 0 };

const START: BootMs = BootMs(0);

const ID_MAX: u64 = i64::MAX as u64;

/// One shard's store and what the journal has of the shard.
#[derive(Clone, Debug)]
struct OnDisk {
    max_id: u64,
    /// The largest number that may be issued.
    ceiling: u64,
    segments: Vec<(Run, u64)>,
    highest_end: u64,
}

/// A change on its way into the journal, and what follows its commit.
enum Change {
    Mark(MarkMove, Option<Vec<MarkMove>>),
    Segment {
        shard: u32,
        run: Run,
        mark: u64,
        held: bool,
    },
    DrawBack {
        shard: u32,
        run: Run,
        mark: u64,
    },
    /// All marks before it are exact. The tag leaves memory if no more than this many ids were issued by then.
    Rest(u64),
    Forget(u32),
}

/// One life of a daemon, over stores and a journal.
struct Life {
    tag: Allocator<u32>,
    journal: VecDeque<Change>,
    met: Vec<bool>,
    claim: Option<u64>,
    now: BootMs,
    /// How often the tag has left memory.
    rests: u32,
}

/// What must hold over all lives.
#[derive(Default)]
struct Issued {
    ids: HashSet<u64>,
    /// Each shard's highest number.
    last: Vec<u64>,
    /// Numbers that were cut.
    dead: HashSet<u64>,
}

impl Life {
    fn journal_cut(&mut self, shard: u32, cut: Truncation) {
        self.journal.extend(cut.closed.into_iter().map(|closed| Change::Mark(closed, None)));
        if let Some((run, mark)) = cut.kept {
            self.journal.push_back(Change::Segment { shard, run, mark, held: false });
        }
    }

    fn set_ceiling(&mut self, shard: u32, ceiling: u64, issued: &mut Issued) {
        let above =
            self.tag.held.exact_marks().filter(|(of, run, _)| *of == shard && run.end() > ceiling);
        let dead: Vec<(u32, Vec<u64>)> = above
            .map(|(_, run, next)| {
                (shard, run.ids().filter(|id| *id >= next && *id > ceiling).collect())
            })
            .collect();
        let lost: u64 = dead.iter().map(|(_, ids)| ids.len() as u64).sum();
        issued.dead.extend(dead.into_iter().flat_map(|(_, ids)| ids));
        let cut = self.tag.set_ceiling(shard, ceiling);
        assert_eq!(cut.lost, lost);
        self.journal_cut(shard, cut);
    }

    /// Has the journal record all that is held, so that the tag can leave memory.
    fn lay_to_rest(&mut self) {
        if !self.tag.is_idle() {
            return;
        }
        for (shard, run, mark) in self.tag.draw_all_marks_back() {
            self.journal.push_back(Change::DrawBack { shard, run, mark });
        }
        self.journal.push_back(Change::Rest(self.tag.issued()));
    }

    /// Meets a shard's store: takes up what the journal has of the shard.
    fn meet(&mut self, shard: u32, disk: &OnDisk, ceiling_first: bool, issued: &mut Issued) {
        let unused = disk.segments.iter();
        let mut leftovers: Vec<Run> =
            unused.filter_map(|(run, mark)| run.without_first(run.count_below(*mark))).collect();
        leftovers.sort_by_key(|run| run.first);
        if ceiling_first {
            self.set_ceiling(shard, disk.ceiling, issued);
        }
        let cut = self.tag.restore(shard, leftovers, disk.highest_end);
        self.journal_cut(shard, cut);
        self.set_ceiling(shard, disk.ceiling, issued);
        self.met[shard as usize] = true;
    }

    /// The store answers the claim in flight.
    fn answer(&mut self, want: u64, shard: u32, disk: &mut OnDisk, random: &mut Seeded) {
        let row = TagRow {
            tag: Tag::parse(b"t").unwrap(),
            max_id: disk.max_id.cast_signed(),
            step: 10,
            ceiling: disk.ceiling,
            generation: Generation(0),
            strict: false,
            masked: None,
            description: None,
            updated: None,
        };
        let shards = Shard { index: shard, of: self.tag.shards() };
        let wish = ClaimWish { shard: shards, ..ClaimWish::new(want, 10) };
        let planned = plan_claim(&row, 0, wish).ok().filter(|_| random.u32(0..4) > 0);
        let Some(plan) = planned else {
            // The answer is lost, or is a refusal.
            return self.tag.claim_failed(BootMs(self.now.0 + random.u64(0..100)));
        };
        let run = plan.run;
        disk.max_id = run.end();
        match self.tag.claimed(self.now, shard, run, 10) {
            Ok(moved) => {
                assert_eq!((moved.shard, moved.end), (shard, run.end()));
                let mark = moved.mark;
                self.journal.push_back(Change::Segment { shard, run, mark, held: true });
            }
            Err(end) => {
                assert!(run.first < end);
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
                let segments = &mut disks[moved.shard as usize].segments;
                if let Some(found) = segments.iter_mut().find(|(held, _)| held.end() == moved.end) {
                    assert!(moved.mark >= found.1 && moved.mark <= found.0.end(), "{moved:?}");
                    found.1 = moved.mark;
                }
                segments.retain(|(held, mark)| *mark < held.end());
                if let Some(moves) = last_of.filter(|_| alive) {
                    self.tag.marked(self.now, &moves);
                }
            }
            Change::Segment { shard, run, mark, held } => {
                let disk = &mut disks[shard as usize];
                let overlaps =
                    |(old, _): &(Run, u64)| old.first < run.end() && run.first < old.end();
                assert!(!disk.segments.iter().any(overlaps), "{run:?} overlaps");
                disk.highest_end = disk.highest_end.max(run.end());
                if mark < run.end() {
                    disk.segments.push((run, mark));
                }
                if held && alive {
                    let cut = self.tag.add_segment(shard, run, mark);
                    self.journal_cut(shard, cut);
                }
            }
            Change::DrawBack { shard, run, mark } => {
                let segments = &mut disks[shard as usize].segments;
                segments.retain(|(held, _)| held.end() != run.end());
                segments.push((run, mark));
            }
            Change::Rest(issued) => {
                if alive && self.tag.is_idle() && self.tag.issued() == issued {
                    self.tag = Allocator::new(PROVISION, self.tag.shards(), self.now);
                    self.met.fill(false);
                    self.rests += 1;
                }
            }
            Change::Forget(shard) => disks[shard as usize].segments.clear(),
        }
    }

    /// The exact marks of a clean stop.
    fn stop(mut self, disks: &mut [OnDisk]) {
        while !self.journal.is_empty() {
            self.commit(disks, true);
        }
        for (shard, held, mark) in self.tag.held.exact_marks() {
            let segments = &mut disks[shard as usize].segments;
            segments.retain(|(run, _)| run.end() != held.end());
            segments.push((held, mark));
        }
    }
}

impl Issued {
    fn check(&mut self, runs: Vec<Run>, shards: u32, disks: &[OnDisk]) {
        for id in runs.into_iter().flat_map(Run::ids) {
            let shard = u32::try_from(id % u64::from(shards)).expect("a shard is 32 bits wide");
            let disk = &disks[shard as usize];
            assert!(id <= ID_MAX, "{id} is no id");
            assert!(self.ids.insert(id), "{id} is issued twice");
            assert!(id <= disk.ceiling, "{id} of shard {shard} lies above {}", disk.ceiling);
            assert!(id < disk.highest_end, "{id} of shard {shard} was never recorded");
            let left = |(held, mark): &&(Run, u64)| (*mark..held.end()).contains(&id);
            let left = disk.segments.iter().find(left);
            assert_eq!(left, None, "a restart would issue {id} of shard {shard} again");
            assert!(!self.dead.contains(&id), "{id} of shard {shard} was cut");
            let last = &mut self.last[shard as usize];
            assert!(id > *last, "{id} of shard {shard} follows {last}");
            *last = id;
        }
    }
}

/// No id comes twice or above its shard's ceiling, a restart repeats none, and each shard's ids ascend throughout.
#[test]
fn no_id_is_issued_twice_whatever_becomes_of_the_shards() {
    let (mut drawn, mut rests) = (0, 0);
    for mut random in seeds(100) {
        let shards = random.u32(1..5);
        let first = match random.bool() {
            true => 1,
            // Near the last id.
            false => ID_MAX - u64::from(shards) * random.u64(1..20_000),
        };
        let new = OnDisk { max_id: first, ceiling: ID_MAX, segments: Vec::new(), highest_end: 0 };
        let mut disks = vec![new; shards as usize];
        let mut issued = Issued { last: vec![0; shards as usize], ..Issued::default() };
        let mut now = START;
        for _life in 0..8 {
            let mut life = Life {
                tag: Allocator::new(PROVISION, shards, now),
                journal: VecDeque::new(),
                met: vec![false; shards as usize],
                claim: None,
                now,
                rests: 0,
            };
            for _step in 0..random.usize(1..400) {
                now = BootMs(now.0 + random.u64(0..50));
                life.now = now;
                let shard = random.u32(0..shards);
                let disk = &mut disks[shard as usize];
                let mut runs = Vec::new();
                match random.u32(0..16) {
                    0..5 => {
                        let allow_partial = random.bool();
                        let count = if random.u32(0..10) == 0 { 5_000 } else { random.u32(1..200) };
                        let want = Want { count, allow_partial };
                        if !life.tag.take(want, &mut runs) {
                            life.tag.waiting.push(0, want, BootMs(now.0 + 500), 0);
                        }
                    }
                    5..7 => {
                        let moves = life.tag.marks_wanted(now);
                        for (index, moved) in moves.iter().enumerate() {
                            let last = (index + 1 == moves.len()).then(|| moves.clone());
                            life.journal.push_back(Change::Mark(*moved, last));
                        }
                    }
                    7..9 if life.claim.is_none() => {
                        life.claim = life.tag.claim_wanted(now).map(|order| order.want);
                    }
                    9..11 if life.met[shard as usize] => {
                        if let Some(want) = life.claim.take() {
                            life.answer(want, shard, disk, &mut random);
                        }
                    }
                    11 if !life.met[shard as usize] => {
                        // Earlier writes are on the disk when the journal is asked.
                        while !life.journal.is_empty() {
                            life.commit(&mut disks, true);
                        }
                        let disk = &mut disks[shard as usize];
                        life.meet(shard, disk, random.bool(), &mut issued);
                    }
                    12 if random.u32(0..4) == 0 && life.met[shard as usize] => {
                        disk.ceiling = match random.bool() {
                            true => ID_MAX,
                            false => disk.max_id.saturating_sub(random.u64(0..500)),
                        };
                        life.set_ceiling(shard, disk.ceiling, &mut issued);
                    }
                    15 if random.u32(0..8) == 0 => {
                        // The rate has fallen.
                        now = BootMs(now.0 + random.u64(0..1_200_000));
                        life.now = now;
                        for (shard, run, mark) in life.tag.draw_marks_back(now) {
                            life.journal.push_back(Change::DrawBack { shard, run, mark });
                        }
                    }
                    15 => life.lay_to_rest(),
                    13 if random.u32(0..8) == 0 => {
                        life.tag.forget_shard(shard);
                        life.journal.push_back(Change::Forget(shard));
                    }
                    14 if random.u32(0..8) == 0 => {
                        // The store loses commits.
                        disk.max_id = disk.max_id.saturating_sub(random.u64(0..500)).max(first);
                    }
                    _ => life.commit(&mut disks, true),
                }
                life.tag.waiting.expire(now);
                while life.tag.serve_next(&mut runs).is_some() {}
                issued.check(runs, shards, &disks);
            }
            rests += life.rests;
            if random.bool() {
                life.stop(&mut disks);
            } else {
                for _ in 0..random.usize(0..3) {
                    life.commit(&mut disks, false);
                }
                if !life.journal.is_empty() {
                    // What the journal did not hear of in time may still be issued.
                    issued.dead.clear();
                }
            }
        }
        drawn += issued.ids.len();
    }
    assert!(drawn > 10_000, "only {drawn} ids were drawn");
    assert!(rests > 10, "tags left memory only {rests} times");
}

//! Several hosts draw from one strict tag, alone and together, and hold it while they are alone. Daemons are stopped at
//! any point and crash, answers come late or never, clocks run at different rates, and the store loses what it records.
//! A request made after another was answered gets a larger id, on whichever hosts they are. No id is given twice.

use std::collections::{HashMap, HashSet};

use leafd_core::segment::{Allocator, PrefetchPolicy};
use leafd_core::store::{ClaimWish, HoldPlan, Holding, plan_hold};
use leafd_core::{BootMs, Want};
use leafd_wire::Run;

use crate::seed::seeds;

const HOLD_MS: u64 = 1_000;

/// How long hosts wait after a fail-over: no longer than they must.
const SETTLE_MS: u64 = HOLD_MS;

const PROVISION: PrefetchPolicy = PrefetchPolicy {
    autonomy_ms: 600_000,
    step_max: 100_000,
    mark_ahead_ms: 5_000,
    hold_ms: HOLD_MS,
};

/// How long a run lasts.
const RUN_MS: u64 = 30_000;

/// How much faster or slower than true time a clock runs, in thousandths. Linux allows no more.
const RATE: i64 = 100;

const FREE: Holding = Holding::Free { wanted: false };

const WANT: Want = Want { count: 1, allow_partial: false };

/// What is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    /// The clock is read before a request has come, and the daemon is stopped in between.
    ClockReadEarly,
    /// A clock stands still while its host is suspended.
    SuspendNotCounted,
    /// One clock runs at half the speed of another one.
    ClocksDiffer,
    /// After a fail-over, hosts claim at once.
    SettlingSkipped,
    /// The store gives ids to a host although another one holds the tag.
    HolderIgnored,
    /// A restart goes on with the ids that the daemon held.
    LeftoversUsed,
    /// A claim covers requests that arrive after its commit.
    CoveredAfterCommit,
}

const BREAKS: [Break; 7] = [
    Break::ClockReadEarly,
    Break::SuspendNotCounted,
    Break::ClocksDiffer,
    Break::SettlingSkipped,
    Break::HolderIgnored,
    Break::LeftoversUsed,
    Break::CoveredAfterCommit,
];

/// A claim on its way: to the store, back, and into the journal.
#[derive(Clone, Copy)]
enum Claim {
    Sent(ClaimWish),
    Granted(Run, Holding),
    Held {
        end: u64,
        ms: u64,
    },
    Recording(Run),
    /// The caller learns that it failed, and perhaps not whether it was made.
    Failed,
}

struct Host {
    tag: Allocator<u64>,
    claim: Option<(u64, Claim)>,
    /// Which life of the store it has seen, and from when on it claims, by its own clock.
    life: (u64, u64),
    rate: i64,
    /// How long its clock stood still.
    lost_ms: u64,
    stopped_until: u64,
    /// Until then it has crashed, and takes no requests.
    down_until: u64,
    /// Requests that have come and were not read.
    inbox: Vec<u64>,
    /// Answers that were not sent.
    outbox: Vec<u64>,
    /// The clock as it was read last.
    read: BootMs,
}

/// A request: the highest id answered before it was made.
struct Asked {
    floor: u64,
    at: u64,
    host: usize,
}

#[derive(Default)]
struct Totals {
    answers: u64,
    from_memory: u64,
    handed_over: u64,
    waited: u64,
    stops: u64,
    crashes: u64,
    fail_overs: u64,
    late: u64,
    lost: u64,
    covered: u64,
    /// The longest time a host waited for another one, with nothing else wrong.
    hand_over_ms: u64,
}

struct World {
    random: fastrand::Rng,
    broken: Option<Break>,
    now: u64,
    hosts: Vec<Host>,
    /// The row: its end, and the number that says whether it is held.
    row: (u64, i64),
    life: u64,
    settled: bool,
    /// Claims that failed for their host, and that the store carries out later: when, whose, and in which life.
    late: Vec<(u64, usize, u64, ClaimWish)>,
    asked: HashMap<u64, Asked>,
    requests: u64,
    highest_answered: u64,
    ids: HashSet<u64>,
    drawing: Vec<bool>,
    calm: bool,
    /// How common some events are in this run, so that each of them is frequent in some runs: one in so many.
    often: Often,
    totals: Totals,
}

struct Often {
    /// Other hosts begin or stop drawing, of the steps.
    switches: u32,
    /// A host crashes, of the steps.
    crashes: u32,
    /// A claim is slow on its way to the store.
    slow: u32,
}

impl Host {
    fn clock(&self, now: u64) -> BootMs {
        let now = now.saturating_sub(self.lost_ms);
        BootMs((now as i64 + now as i64 * self.rate / 1_000) as u64)
    }

    /// The end of the claims that it knows, or will know once it reads an answer that has come.
    fn knows(&self) -> u64 {
        let answered = match self.claim {
            Some((_, Claim::Granted(run, _))) => run.end(),
            Some((_, Claim::Held { end, .. })) => end,
            _ => 0,
        };
        answered.max(self.tag.highest_end(0))
    }

    fn restart(&mut self, leftovers: Option<Run>, now: BootMs) {
        let highest_end = self.tag.highest_end(0);
        self.tag = Allocator::new(PROVISION, 1, now);
        let _ = self.tag.restore(0, leftovers.into_iter().collect(), highest_end);
        (self.claim, self.inbox, self.outbox) = (None, Vec::new(), Vec::new());
    }
}

impl World {
    fn new(seed: u64, broken: Option<Break>) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let often = Often {
            switches: [700, 1_000, 2_500][random.usize(..3)],
            crashes: [1_000, 3_000, 10_000][random.usize(..3)],
            slow: [2, 4, 12][random.usize(..3)],
        };
        let hosts = (0..random.usize(2..=3)).map(|index| Host {
            tag: Allocator::new(PROVISION, 1, BootMs(0)),
            claim: None,
            life: (0, 0),
            rate: match broken {
                Some(Break::ClocksDiffer) if index == 0 => -333,
                Some(Break::ClocksDiffer) => 333,
                _ => [RATE, -RATE][random.usize(..2)],
            },
            lost_ms: 0,
            stopped_until: 0,
            down_until: 0,
            inbox: Vec::new(),
            outbox: Vec::new(),
            read: BootMs(0),
        });
        let hosts: Vec<Host> = hosts.collect();
        World {
            drawing: vec![false; hosts.len()],
            random,
            broken,
            now: 1_000,
            hosts,
            row: (1, 1),
            life: 0,
            settled: true,
            late: Vec::new(),
            asked: HashMap::new(),
            requests: 0,
            highest_answered: 0,
            ids: HashSet::new(),
            calm: false,
            often,
            totals: Totals::default(),
        }
    }

    fn run(&mut self, calm: bool) -> Result<(), String> {
        self.calm = calm;
        while self.now < RUN_MS {
            self.now += self.random.u64(1..=6);
            self.mischief();
            self.carry_out_late();
            for index in 0..self.hosts.len() {
                if self.drawing[index] {
                    (0..self.random.u8(1..4)).for_each(|_| self.ask(index));
                }
                self.step(index)?;
            }
        }
        Ok(())
    }

    fn mischief(&mut self) {
        if self.random.u32(..self.often.switches) == 0 {
            // Mostly one host draws, so that it holds the tag before others come.
            let alone = self.random.usize(..self.hosts.len());
            let others = self.random.u8(..3) == 0;
            for (index, draws) in self.drawing.iter_mut().enumerate() {
                *draws = index == alone || others && self.random.bool();
            }
        }
        if self.calm {
            return;
        }
        let index = self.random.usize(..self.hosts.len());
        if self.random.u32(..self.often.crashes) == 0 {
            self.crash(index);
        }
        match self.random.u32(..6_000) {
            0..5 => self.stop(index),
            5..7 => {
                self.totals.fail_overs += 1;
                (self.life, self.settled) = (self.life + 1, false);
                // The hosts report what they know. The rest is lost, and perhaps the record of the holder.
                let end = self.hosts.iter().map(Host::knows).max().expect("there are hosts").max(1);
                self.totals.lost += u64::from(end < self.row.0);
                self.row = (end, if self.random.bool() { 1 } else { self.row.1 });
            }
            // An operator raises the tag.
            7..9 => self.row.0 += self.random.u64(1..50),
            9..11 => self.hosts[index].tag.give_up(),
            11 => self.hosts[index].tag.forget(),
            _ => {}
        }
    }

    fn crash(&mut self, index: usize) {
        self.totals.crashes += 1;
        let host = &mut self.hosts[index];
        let now = host.clock(self.now);
        let mut runs = Vec::new();
        let used = self.broken == Some(Break::LeftoversUsed);
        let held = used.then(|| host.tag.take_held(WANT, now, &mut runs));
        let rest = held.filter(|held| *held).map(|_| Run { count: 50, ..runs[0] });
        host.restart(rest, now);
        self.asked.retain(|_, asked| asked.host != index);
        host.stopped_until = self.now + self.random.u64(1..3 * HOLD_MS);
        host.down_until = host.stopped_until;
    }

    /// Stops a host; requests to it still come.
    fn stop(&mut self, index: usize) {
        self.totals.stops += 1;
        let ms = self.random.u64(1..3 * HOLD_MS);
        let host = &mut self.hosts[index];
        if host.stopped_until <= self.now && self.broken == Some(Break::SuspendNotCounted) {
            host.lost_ms += ms;
        }
        host.stopped_until = host.stopped_until.max(self.now + ms);
    }

    fn ask(&mut self, host: usize) {
        if self.now < self.hosts[host].down_until {
            return;
        }
        self.requests += 1;
        let asked = Asked { floor: self.highest_answered, at: self.now, host };
        self.asked.insert(self.requests, asked);
        self.hosts[host].inbox.push(self.requests);
    }

    /// A host does what it can at this moment. It may be stopped in the middle of it.
    fn step(&mut self, index: usize) -> Result<(), String> {
        let stops_often = !self.calm && self.random.u32(..2_000) == 0;
        let host = &mut self.hosts[index];
        if host.stopped_until > self.now {
            return Ok(());
        }
        for id in std::mem::take(&mut host.outbox) {
            self.highest_answered = self.highest_answered.max(id);
        }
        // The store's answer, or the journal's, may have come meanwhile.
        self.take_answer(index)?;
        let now = self.hosts[index].clock(self.now);
        let reads_early = self.broken == Some(Break::ClockReadEarly);
        let read = if reads_early { self.hosts[index].read } else { now };
        for request in std::mem::take(&mut self.hosts[index].inbox) {
            let mut runs = Vec::new();
            let tag = &mut self.hosts[index].tag;
            if tag.is_strict() && tag.take_held(WANT, read, &mut runs) {
                self.totals.from_memory += 1;
                self.answer(index, request, runs[0])?;
            } else {
                tag.waiting.push(0, WANT, BootMs(u64::MAX), request);
            }
        }
        self.serve(index, read)?;
        self.hosts[index].read = now;
        self.claim(index, now);
        if stops_often {
            self.stop(index);
        }
        Ok(())
    }

    fn serve(&mut self, index: usize, now: BootMs) -> Result<(), String> {
        let mut runs = Vec::new();
        loop {
            let tag = &mut self.hosts[index].tag;
            let next = match tag.is_strict() {
                true => tag.serve_next_held(now, &mut runs),
                // What a restart takes for a plain tag's leftovers.
                false => {
                    let moves = tag.marks_wanted(now);
                    if !moves.is_empty() {
                        tag.marked(now, &moves);
                    }
                    tag.serve_next(&mut runs)
                }
            };
            let Some(request) = next else { return Ok(()) };
            self.answer(index, request, runs[0])?;
            runs.clear();
        }
    }

    fn answer(&mut self, index: usize, request: u64, run: Run) -> Result<(), String> {
        let asked = self.asked.remove(&request).expect("it waits");
        let id = run.first;
        if id <= asked.floor {
            return Err(format!("host {index} gives {id} after {} was answered", asked.floor));
        }
        if !self.ids.insert(id) {
            return Err(format!("host {index} gives {id} again"));
        }
        self.totals.answers += 1;
        let waited = self.now - asked.at;
        self.totals.hand_over_ms = self.totals.hand_over_ms.max(waited);
        // It leaves with the host's next step, or much later if the host is stopped.
        self.hosts[index].outbox.push(id);
        Ok(())
    }

    fn claim(&mut self, index: usize, now: BootMs) {
        let host = &mut self.hosts[index];
        if host.claim.is_some() {
            return;
        }
        if host.life.0 != self.life {
            let settles = !self.settled && self.broken != Some(Break::SettlingSkipped);
            host.life = (self.life, now.0 + if settles { SETTLE_MS } else { 0 });
        }
        if now.0 < host.life.1 && !self.settled {
            return;
        }
        if let Some(wish) = host.tag.claim_wanted(now) {
            let slow = !self.calm && self.random.u32(..self.often.slow) == 0;
            let arrives = self.now + self.random.u64(1..=if slow { 2 * HOLD_MS } else { 5 });
            host.claim = Some((arrives, Claim::Sent(wish)));
        }
    }

    fn take_answer(&mut self, index: usize) -> Result<(), String> {
        let Some((at, claim)) = self.hosts[index].claim else { return Ok(()) };
        if at > self.now {
            return Ok(());
        }
        let slow = !self.calm && self.random.u32(..30) == 0;
        let later = self.now + self.random.u64(1..=if slow { 2 * HOLD_MS } else { 5 });
        let lost = !self.calm && self.random.u32(..100) == 0;
        let now = self.hosts[index].clock(self.now);
        let next = match claim {
            Claim::Sent(wish) if lost && self.random.bool() => {
                let at = self.now + self.random.u64(1..4 * HOLD_MS);
                self.late.push((at, index, self.hosts[index].life.0, wish));
                Some(Claim::Failed)
            }
            Claim::Sent(wish) => {
                let more = self.cover(index);
                let made = self.carry_out(index, ClaimWish { want: wish.want + more, ..wish });
                Some(if lost { Claim::Failed } else { made })
            }
            Claim::Granted(run, holding) => {
                if self.broken == Some(Break::CoveredAfterCommit) {
                    self.cover(index);
                }
                let tag = &mut self.hosts[index].tag;
                tag.claimed_strictly(run, holding).map_err(|end| format!("{run:?} below {end}"))?;
                Some(Claim::Recording(run))
            }
            Claim::Held { end, ms } => {
                self.totals.waited += 1;
                self.hosts[index].tag.held_elsewhere(now, end, ms);
                None
            }
            Claim::Recording(run) => {
                let shared = self.hosts[index].tag.distribute(run);
                for (request, run) in shared.served {
                    self.answer(index, request, run)?;
                }
                None
            }
            Claim::Failed => {
                self.hosts[index].tag.claim_failed(BootMs(now.0 + 10));
                None
            }
        };
        self.hosts[index].claim = next.map(|next| (later, next));
        Ok(())
    }

    /// The claim of a host covers the requests that have arrived by now. Returns how many more ids it takes for them.
    fn cover(&mut self, index: usize) -> u64 {
        let more = self.hosts[index].tag.arrivals().and_then(|arrivals| arrivals.cover(Some));
        let more = more.unwrap_or(0);
        self.totals.covered += more;
        match self.broken {
            // There are ids left for those who arrive later.
            Some(Break::CoveredAfterCommit) => more + 4,
            _ => more,
        }
    }

    /// The store carries out claims whose hosts no longer wait for them, unless it has failed over since.
    fn carry_out_late(&mut self) {
        let late = std::mem::take(&mut self.late);
        for claim in late {
            let (at, index, life, wish) = claim;
            if at > self.now {
                self.late.push(claim);
            } else if life == self.life {
                self.totals.late += 1;
                self.carry_out(index, wish);
            }
        }
    }

    /// The store carries out a claim.
    fn carry_out(&mut self, index: usize, wish: ClaimWish) -> Claim {
        if self.hosts[index].life.0 != self.life {
            return Claim::Failed;
        }
        self.settled = true;
        let (end, number) = self.row;
        match plan_hold(number, end, wish.hold) {
            HoldPlan::Wait { ms, number } if self.broken != Some(Break::HolderIgnored) => {
                self.row.1 = number;
                Claim::Held { end, ms }
            }
            plan => {
                let (holding, number) = match plan {
                    HoldPlan::Claim { holding, number } => (holding, number),
                    HoldPlan::Wait { .. } => (FREE, number),
                };
                self.totals.handed_over += u64::from(holding == Holding::Wanted);
                let count = u32::try_from(wish.want).unwrap();
                self.row = (end + wish.want, number);
                Claim::Granted(Run { first: end, count, stride: 1 }, holding)
            }
        }
    }
}

#[test]
fn ids_ascend_over_all_hosts_whoever_holds_the_tag() {
    let mut total = Totals::default();
    for mut seed in seeds(80) {
        let mut world = World::new(seed.u64(..), None);
        world.run(false).unwrap_or_else(|why| panic!("{why}, after {} ms", world.now));
        let Totals {
            answers,
            from_memory,
            handed_over,
            waited,
            stops,
            crashes,
            fail_overs,
            late,
            lost,
            covered,
            ..
        } = world.totals;
        total.covered += covered;
        total.late += late;
        total.lost += lost;
        total.answers += answers;
        total.from_memory += from_memory;
        total.handed_over += handed_over;
        total.waited += waited;
        total.stops += stops;
        total.crashes += crashes;
        total.fail_overs += fail_overs;
    }
    for (what, count) in [
        ("answers", total.answers),
        ("answers from memory", total.from_memory),
        ("hand-overs", total.handed_over),
        ("waits", total.waited),
        ("stops", total.stops),
        ("crashes", total.crashes),
        ("fail-overs", total.fail_overs),
        ("late claims", total.late),
        ("arrivals covered by a claim under way", total.covered),
        ("fail-overs that lost claims", total.lost),
    ] {
        println!("{count} {what}");
        assert!(count > 0, "there were no {what}");
    }
    assert!(total.from_memory * 16 > total.answers, "{} of {}", total.from_memory, total.answers);
}

#[test]
fn every_broken_promise_is_noticed() {
    for broken in BREAKS {
        let noticed = (0..500).find_map(|seed| World::new(seed, Some(broken)).run(false).err());
        let noticed = noticed.unwrap_or_else(|| panic!("{broken:?} went unnoticed"));
        println!("{broken:?}: {noticed}");
    }
}

#[test]
fn a_holder_that_is_well_gives_the_tag_up_in_time() {
    for mut seed in seeds(30) {
        let mut world = World::new(seed.u64(..), None);
        world.run(true).unwrap();
        // A quarter of the time held, and a few round trips.
        let most = HOLD_MS / 4 * 10 / 9 + 100;
        let Totals { hand_over_ms, handed_over, from_memory, .. } = world.totals;
        assert!(hand_over_ms <= most, "a request waited {hand_over_ms} ms");
        assert!(from_memory > 0 || handed_over == 0);
    }
}

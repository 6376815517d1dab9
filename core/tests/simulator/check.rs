//! What must never happen, and what must have happened in the end.
//!
//! From a store that loses commits some ids may come twice, and the documents say which: those of a host that can't be
//! reached for longer than `failover_settle` during a fail-over, and those claimed between a loss that no engine shows
//! and its discovery. While two primaries take writes, hosts that have not seen the old one's history end may claim
//! the same ids from both. These are counted. Everything else is a violation, above all an id issued by a daemon that
//! knew of the loss.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use leafd_core::UnixMs;
use leafd_core::lease::{LeaseProblem, Mode};
use leafd_wire::Run;

use crate::Simulation;
use crate::coverage::{MACHINES, Pairs};
use crate::host::{Daemon, Host};
use crate::lease::LAYOUTS;
use crate::store::{Granted, OLD_PRIMARY, TAGS};
use crate::tags::{Seen, Segment};
use crate::workers::Leased;
use crate::world::{THRESHOLD_MS, World};

/// A claim of a tag that a store made.
pub struct Claim {
    pub at_ms: u64,
    pub granted: Granted,
}

/// An id of a tag that was issued.
#[derive(Clone)]
pub struct Issue {
    host: usize,
    at_ms: u64,
    claim: usize,
    /// It was left in a journal that was restored, which only the store can tell, and has not told yet.
    restored: bool,
    /// How long its daemon had been stopped, and had not asked the store since.
    stopped_ms: u64,
    /// The lives that its daemon had seen by then.
    seen: Rc<[Seen]>,
}

/// A run of snowflake ids that was issued.
#[derive(Clone)]
pub struct Issued {
    /// One past its last id.
    end: u64,
    worker: u64,
    /// When its tick ends.
    tick_end: UnixMs,
    host: usize,
    holder: Arc<str>,
    at_ms: u64,
    /// It was issued under the lease of a journal that was restored.
    restored: bool,
    /// The last commit of each side of the store in what it had shown of the workers by then.
    saw: [u64; 2],
}

/// A broken promise.
pub struct Violation(pub String);

/// How many calls of the registry a host may make within the window. A renewal a second, a look now and then, and
/// retries that back off to one a second stay well below.
const CALLS_MAX: usize = 40;
const CALLS_WINDOW_MS: u64 = 10_000;

/// Clocks differ a little in speed.
const CLOCKS_AGREE_MS: u64 = 5;

/// What runs count: a name, the simulations whose default run must count it, and words for people.
const COUNTED: [(&str, &str, &str); 43] = [
    ("ids", "leases failovers", "ids"),
    ("excused", "failovers", "ids of tags twice as the limits say"),
    ("excused_snowflakes", "failovers", "snowflake ids twice as the limits say"),
    ("excused_by_split", "failovers", "ids twice as the limits of a split say"),
    ("starts", "leases failovers", "starts"),
    ("late_starts", "failovers", "first starts long after the others"),
    ("crashes", "leases failovers", "crashes"),
    ("stops", "leases failovers", "clean stops"),
    ("releases", "leases failovers", "releases"),
    ("releases_elsewhere", "leases failovers", "releases by another host"),
    ("pods", "leases failovers", "pods replaced"),
    ("journals_lost", "leases failovers", "journals lost"),
    ("journals_copied", "leases failovers", "journals copied"),
    ("journals_restored", "leases failovers", "journals set back"),
    ("found_out", "failovers", "old journals that the store found out"),
    ("pauses", "leases failovers", "pauses"),
    ("clock_steps", "leases failovers", "clock steps"),
    ("registry_clock_steps", "leases failovers", "clock steps of the store or registry"),
    ("registry_clock_behind", "leases failovers", "registry clocks behind for a lease"),
    ("disks_hang", "leases failovers", "disks that hang"),
    ("journals_refuse", "leases failovers", "journals that refuse commits"),
    ("journals_fail_late", "leases failovers", "journals that fail after a write"),
    ("fault_crashes", "leases failovers", "crashes while the journal fails"),
    ("inexact_stops", "leases failovers", "stops that a journal could not record"),
    ("outages", "leases failovers", "outages"),
    ("cut_off", "leases failovers", "hosts cut off"),
    ("deaf", "leases failovers", "hosts that hear no answers"),
    ("fail_overs", "leases", "fail-overs"),
    ("promotions", "failovers", "promotions"),
    ("like_another", "failovers", "promotions to a timeline that another server has"),
    ("calm_failovers", "failovers", "promotions with everybody there"),
    ("splits", "failovers", "old primaries that go on taking writes"),
    ("split_claims", "failovers", "claims that they grant"),
    ("moves", "failovers", "connections that move between two primaries"),
    ("set_back", "failovers", "times that data was set back"),
    ("returns", "failovers", "returns of a former primary"),
    ("old_answers", "failovers", "answers of a former primary"),
    ("declared", "failovers", "losses declared by an operator"),
    ("answers_lost", "leases failovers", "answers lost"),
    ("late_answers", "leases failovers", "late answers"),
    ("late_calls", "leases failovers", "late calls"),
    ("one_history_runs", "failovers", "runs of servers that are one store"),
    ("pooler_runs", "failovers", "runs behind a pooler"),
];

/// What happened in a run.
#[derive(Default)]
pub struct Totals {
    counts: BTreeMap<&'static str, u64>,
    /// Which events found each of the machines in which state.
    pub pairs: [Pairs; MACHINES.len()],
}

impl World {
    /// Checks an id of a tag that a host just issued.
    pub fn check_issue(
        &mut self,
        host: usize,
        tag: usize,
        drawn: Segment,
    ) -> Result<(), Violation> {
        let Segment { next: id, claim, .. } = drawn;
        self.totals.note("ids");
        self.hosts[host].drew_at_ms[tag] = self.true_ms;
        self.check_journal(host, format_args!("id {id} of tag {tag}"))?;
        let on_disk = self.hosts[host].journal.ends[tag];
        if id >= on_disk {
            return Err(Violation(format!(
                "host {host} issued id {id} of tag {tag}, and its journal has {on_disk}"
            )));
        }
        let below = std::mem::replace(&mut self.hosts[host].issued_below[tag], id + 1);
        if id < below {
            return Err(Violation(format!(
                "host {host} issued id {id} of tag {tag} after {}",
                below - 1
            )));
        }
        let tags = self.hosts[host].daemon.as_ref().map(|daemon| &daemon.tags);
        let restored = drawn.restored && tags.is_none_or(|tags| !tags.is_anew);
        let seen = tags.map(|tags| Rc::clone(&tags.seen));
        let stopped_ms = self.true_ms - self.hosts[host].ran_at_ms;
        let seen = seen.unwrap_or_default();
        let issue = Issue { host, at_ms: self.true_ms, claim, restored, stopped_ms, seen };
        let Some(first) = self.issued[tag].get(&id).cloned() else {
            self.issued[tag].insert(id, issue);
            return Ok(());
        };
        if let Some(why) = self.why_not_twice(tag, id, &first, &issue) {
            return Err(Violation(format!(
                "id {id} of tag {tag} was issued by host {} and then by {host}: {why}",
                first.host
            )));
        }
        let is_split = |issue: &Issue| {
            let met_both =
                || issue.seen.iter().any(|seen| self.has_met_other_side(issue, &seen.life));
            self.claims[issue.claim].granted.split_since_ms.is_some() || met_both()
        };
        let by_split = is_split(&first) || is_split(&issue);
        self.totals.note(if by_split { "excused_by_split" } else { "excused" });
        Ok(())
    }

    /// A daemon whose journal fails issues nothing until it works.
    fn check_journal(&self, host: usize, ids: fmt::Arguments<'_>) -> Result<(), Violation> {
        match &self.hosts[host].daemon {
            Some(daemon) if daemon.fails() => {
                Err(Violation(format!("host {host} issued {ids} while its journal failed")))
            }
            _ => Ok(()),
        }
    }

    /// Why an id must not have come twice out of these claims.
    fn why_not_twice(
        &self,
        tag: usize,
        id: u64,
        one: &Issue,
        other: &Issue,
    ) -> Option<&'static str> {
        if one.restored || other.restored {
            return None;
        }
        if one.claim == other.claim {
            return Some("both came from one claim");
        }
        let (earlier, later) = match one.claim < other.claim {
            true => (one, other),
            false => (other, one),
        };
        let [lost, again] = [earlier, later].map(|issue| self.claims[issue.claim].granted.commit);
        if self.store.includes(again, lost) {
            return Some("no claim was lost");
        }
        let told = self.store.pushes.iter().any(|push| {
            let of_host = push.host == earlier.host && self.store.includes(again, push.commit);
            of_host && push.covers(tag, id)
        });
        if told {
            return Some("the store was told of the lost claim in time");
        }
        // Clocks differ a little in speed.
        let settle_ms = self.sim.settle_ms;
        let stopped = |issue: &Issue| issue.stopped_ms > settle_ms + settle_ms / 100;
        if stopped(earlier) || stopped(later) {
            return Some("its daemon had been stopped for longer than the others wait for it");
        }
        let knew_better =
            [earlier, later].into_iter().any(|issue| self.knew_better(issue, tag, id));
        knew_better.then_some("it was issued from a claim that was known to be lost")
    }

    /// Whether the daemon must have known that the store may have given the id to another host: it has known of a life
    /// that began since the claim, and was not in time to tell the store there of this id. Where a second loss has taken
    /// the first claim of that life, the store can't show that the daemon came too late.
    fn knew_better(&self, issue: &Issue, tag: usize, id: u64) -> bool {
        let claim = &self.claims[issue.claim];
        // No life that began on the other side of a split contains the claim. But the daemon can't tell a server's life
        // from an old primary's before one of them shows that the other one is over.
        let split_ms = claim.granted.split_since_ms;
        let since_ms = split_ms.unwrap_or(claim.at_ms);
        let late = |Seen { life, must_know_ms, is_known }: &Seen| {
            let noted = &self.store.lives[life];
            if self.has_met_other_side(issue, life) {
                return false;
            }
            let Some(first) = noted.first_claim else { return false };
            let in_time = self.store.pushes.iter().any(|push| {
                let of_host = push.host == issue.host && push.life == *life;
                of_host && push.commit < first && push.covers(tag, id)
            });
            let showed_ms = if *is_known { *must_know_ms } else { issue.at_ms };
            let is_traced = noted.untraced_ms.is_none_or(|lost_ms| showed_ms < lost_ms);
            let is_after = noted.noted_ms > since_ms
                && (split_ms.is_none() || noted.former.contains(&claim.granted.life));
            is_after && *must_know_ms < issue.at_ms && is_traced && !in_time
        };
        issue.seen.iter().any(late)
    }

    /// Whether the daemon has met a life on the other side of a split, and none that shows one of the two as over. Until
    /// then it has no way to know which side is the store.
    fn has_met_other_side(&self, issue: &Issue, life: &Rc<str>) -> bool {
        let lives = || issue.seen.iter().map(|seen| &seen.life);
        let is_over =
            |life: &Rc<str>| lives().any(|seen| self.store.lives[seen].former.contains(life));
        let is_other_side = |other: &Rc<str>| {
            let is_of_split = [life, other].iter().any(|life| self.store.lives[*life].is_of_split);
            other != life && is_of_split && !is_over(other)
        };
        !is_over(life) && lives().any(is_other_side)
    }

    /// Checks a claim of a tag that a host is about to use.
    pub fn check_granted(&self, host: usize, claim: usize) -> Result<(), Violation> {
        let Claim { at_ms, granted, .. } = &self.claims[claim];
        self.check_time(host, Some(*at_ms), granted.in_doubt, &granted.life)
    }

    /// Checks the lease that a host has just written.
    pub fn check_leased(&mut self, host: usize) -> Result<(), Violation> {
        let unwell_ms = self.hosts.iter().map(|host| host.unwell_ms).collect();
        let Some(leased) = self.store.leased.last_mut() else { return Ok(()) };
        leased.unwell_ms = unwell_ms;
        let Leased { at_ms, in_doubt, is_new, .. } = *leased;
        let life = Rc::clone(&leased.life);
        // Others may renew meanwhile, or write again what was lost.
        self.check_time(host, is_new.then_some(at_ms), in_doubt, &life)
    }

    fn check_time(
        &self,
        host: usize,
        at_ms: Option<u64>,
        in_doubt: bool,
        life: &Rc<str>,
    ) -> Result<(), Violation> {
        if in_doubt {
            return Err(Violation::granted(host, "the engine had said that commits may be lost"));
        }
        let noted_ms = self.store.lives[life].noted_ms;
        let from_ms = noted_ms + self.sim.settle_ms - CLOCKS_AGREE_MS;
        if noted_ms > 0 && at_ms.is_some_and(|at_ms| at_ms < from_ms) {
            let why = "other hosts had not had the time to report what they have seen";
            return Err(Violation::granted(host, why));
        }
        Ok(())
    }

    /// Checks snowflake ids that a host just issued.
    pub fn check_run(&mut self, index: usize, layout: usize, run: Run) -> Result<(), Violation> {
        self.check_journal(index, format_args!("{} of layout {layout}", run.first))?;
        let host = &mut self.hosts[index];
        let Some(daemon) = &host.daemon else { return Ok(()) };
        let holder = Arc::clone(&daemon.worker.lease.settings.holder.id);
        let fields = LAYOUTS[layout].decompose(run.first).expect("an id of the layout");
        let [start, end] =
            [fields.tick, fields.tick + 1].map(|tick| UnixMs(LAYOUTS[layout].tick_start_ms(tick)));
        let worker = fields.worker;
        let issued = Issued {
            end: run.first + u64::from(run.count),
            worker,
            tick_end: end,
            host: index,
            holder,
            at_ms: self.true_ms,
            restored: self.sim.has_tags && daemon.worker.is_restored(),
            saw: daemon.worker.saw,
        };
        let broken = |what: String| {
            let ids = format!("{} of layout {layout} and worker {worker}", run.first);
            Err(Violation(format!("host {index} issued {ids} {what}")))
        };
        let before = std::mem::replace(&mut host.highest[layout], issued.end - 1);
        if run.first <= before {
            return broken(format!("after {before}"));
        }
        let on_disk = host.journal.marks[layout];
        if end > on_disk {
            return broken(format!("up to {end:?}, and its journal has {on_disk:?}"));
        }
        let key = (worker, Arc::clone(&issued.holder));
        let [until, begins] = [&self.store.ever, &self.store.begins]
            .map(|of| of.get(&key).copied().unwrap_or_default());
        if self.mode == Mode::Leased && end > until {
            return broken(format!("up to {end:?}, leased until {until:?}"));
        }
        if start < begins {
            return broken(format!("from {start:?}, leased from {begins:?}"));
        }
        host.drew_at_ms[TAGS] = self.true_ms;
        self.totals.note("ids");
        let mut earlier = self.stamped[layout].range(..issued.end).rev();
        let found = earlier.next().map(|(_, first)| first.clone());
        let Some(first) = found.filter(|first| first.end > run.first) else {
            self.stamped[layout].insert(run.first, issued);
            return Ok(());
        };
        if let Some(why) = self.why_not_stamped_twice(&first, &issued) {
            return broken(format!("a second time, after host {}: {why}", first.host));
        }
        let is_split = |issued| self.leases_of(issued).any(|leased| leased.is_split);
        let by_split = is_split(&first) || is_split(&issued);
        self.totals.note(if by_split { "excused_by_split" } else { "excused_snowflakes" });
        Ok(())
    }

    /// Why snowflake ids must not have come twice.
    fn why_not_stamped_twice(&self, one: &Issued, other: &Issued) -> Option<&'static str> {
        if one.restored || other.restored {
            return None;
        }
        if one.holder == other.holder {
            return Some("both are one holder's");
        }
        let (Some(lost), Some(again)) = (self.lease_of(one), self.lease_of(other)) else {
            return Some("the registry knows no such lease");
        };
        if self.store.includes(lost.commit, again.commit)
            || self.store.includes(again.commit, lost.commit)
        {
            return Some("no lease was lost");
        }
        self.why_not_lost(one, other).and(self.why_not_lost(other, one))
    }

    /// The last write of a lease that allowed these ids.
    fn lease_of(&self, issued: &Issued) -> Option<&Leased> {
        self.leases_of(issued).next()
    }

    /// The writes of a lease that allowed these ids, the last one first.
    fn leases_of(&self, issued: &Issued) -> impl Iterator<Item = &Leased> {
        let allows = |leased: &&Leased| {
            (leased.worker, &leased.holder) == (issued.worker, &issued.holder)
                && leased.expires >= issued.tick_end
                && leased.at_ms <= issued.at_ms
        };
        self.store.leased.iter().rev().filter(allows)
    }

    /// Why these ids can't have come twice because the store lost a lease that allowed them and another holder took
    /// their worker. A host writes a lost lease again, so this need not be the last one.
    fn why_not_lost(&self, issued: &Issued, other: &Issued) -> Option<&'static str> {
        let whys = self.leases_of(issued).map(|lost| self.why_kept(issued, lost, other));
        whys.collect::<Option<Vec<_>>>()?.first().copied()
    }

    /// Why this lease was not lost to the other's holder unnoticed. On the old primary of a split store, a lease may be
    /// renewed after that.
    fn why_kept(&self, issued: &Issued, lost: &Leased, other: &Issued) -> Option<&'static str> {
        let is_taking = |leased: &&Leased| {
            (leased.worker, &leased.holder) == (other.worker, &other.holder)
                && (leased.at_ms > lost.at_ms || lost.is_split)
                && !self.store.includes(leased.commit, lost.commit)
                && !self.store.includes(lost.commit, leased.commit)
        };
        let Some(taken) = self.store.leased.iter().find(is_taking) else {
            return Some("its lease was not lost");
        };
        if issued.saw.iter().any(|saw| self.store.includes(*saw, taken.commit)) {
            return Some("the registry had shown that another host has the worker");
        }
        let noted_ms = self.store.lives[&taken.life].noted_ms;
        let unnoticed = noted_ms <= lost.at_ms;
        let was_well = taken.unwell_ms[issued.host] < noted_ms;
        (!unnoticed && was_well).then_some("its host could report the lost lease")
    }

    /// Notes which hosts can't renew their leases now.
    pub fn note_unwell(&mut self) {
        let true_ms = self.true_ms;
        let is_off = |ahead_ms: i64| ahead_ms.unsigned_abs() > THRESHOLD_MS / 2;
        let is_stores_clock_off = is_off(self.store.offset_ms);
        let is_split = self.store.old_side.is_some();
        for host in &mut self.hosts {
            let away_until_ms = self.away_until_ms[host.server];
            let until_ms = away_until_ms.max(host.paused_until_ms).max(host.cut_off_until_ms);
            let until_ms = until_ms.max(host.deaf_until_ms).max(host.disk_hangs_until_ms);
            let until_ms = until_ms.max(host.disk_fails_until_ms);
            let is_unwell = is_split && host.server == OLD_PRIMARY
                || host.daemon.as_ref().is_none_or(Daemon::fails)
                || is_stores_clock_off
                || is_off(host.clocks.ahead_ms(true_ms))
                || until_ms > true_ms;
            if is_unwell {
                host.is_unwell_until(true_ms);
            }
        }
    }

    /// Notes that a host calls the registry, and checks that it does so rarely enough.
    pub fn check_rate(&mut self, index: usize) -> Result<(), Violation> {
        let calls_ms = &mut self.hosts[index].calls_ms;
        calls_ms.push_back(self.true_ms);
        if calls_ms.len() <= CALLS_MAX {
            return Ok(());
        }
        let oldest_ms = calls_ms.pop_front().unwrap_or_default();
        if oldest_ms + CALLS_WINDOW_MS > self.true_ms {
            return Err(Violation(format!(
                "host {index} called the registry more than {CALLS_MAX} times in {CALLS_WINDOW_MS} ms"
            )));
        }
        Ok(())
    }

    /// Checks that every host has drawn ids of every kind since, and that no store settled without a loss.
    pub fn check_all_draw(&mut self, since_ms: u64) -> Result<(), Violation> {
        for (index, host) in self.hosts.iter().enumerate() {
            let never_ready = |why| Err(Violation(format!("host {index} gets no ids: {why}")));
            let Some(daemon) = &host.daemon else {
                return never_ready("it does not run".to_owned());
            };
            if self.store.one_history && daemon.tags.monitor.failovers != 0 {
                let words = "waited for a store that had lost nothing";
                return Err(Violation(format!("host {index} {words}")));
            }
            let trusted = daemon.tags.monitor.claimable();
            if trusted.is_some_and(|trusted| trusted.history != self.store.data.note.history) {
                return Err(Violation(format!("host {index} trusts a history that is over")));
            }
            if self.sim.has_tags && (0..TAGS).any(|tag| host.drew_at_ms[tag] < since_ms) {
                return never_ready(format!("{:?}", daemon.tags.monitor));
            }
            if host.drew_at_ms[TAGS] < since_ms && !self.must_be_mended(host) {
                let now = host.clocks.read(self.true_ms, None);
                let lease = &daemon.worker.lease;
                return never_ready(format!("{:?}, {:?}", lease.standing(now), lease.trouble));
            }
        }
        Ok(())
    }

    /// A number was assigned for good in a write that a fail-over lost, and its host was off until another host had the
    /// same number. The host is refused with a message, and people decide.
    fn must_be_mended(&self, host: &Host) -> bool {
        let trouble = host.daemon.as_ref().and_then(|one| one.worker.lease.trouble.as_ref());
        self.mode == Mode::Permanent
            && self.totals.has("fail_overs")
            && matches!(trouble, Some(LeaseProblem::Refused(_)))
    }
}

impl Totals {
    /// Counts something.
    pub fn note(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    fn has(&self, name: &str) -> bool {
        self.counts.contains_key(name)
    }

    pub fn add(&mut self, run: &Totals) {
        for (name, count) in &run.counts {
            *self.counts.entry(name).or_default() += count;
        }
        for (all, run) in self.pairs.iter_mut().zip(&run.pairs) {
            all.add(run);
        }
    }

    /// If something never goes wrong in a simulation, the simulation shows nothing about it.
    pub fn assert_all_happened(&self, sim: &Simulation) {
        for (name, simulations, _) in COUNTED {
            let counts = simulations.split(' ').any(|one| one == sim.name);
            let may_be_absent = ["excused", "excused_snowflakes"].contains(&name);
            assert!(self.has(name) == counts || may_be_absent, "in {}: {name}", sim.name);
        }
        // What is excused must not become what is usual.
        let count = |name| self.counts.get(name).copied().unwrap_or_default();
        assert!(count("excused") <= count("ids") / 20, "{} were excused", count("excused"));
        let snowflakes = count("excused_snowflakes");
        assert!(snowflakes <= count("ids") / 200, "{snowflakes} snowflake ids were excused");
        let by_split = count("excused_by_split");
        assert!(by_split <= count("ids") / 50, "{by_split} ids were excused by splits");
        let known = |name: &&str| COUNTED.iter().any(|(known, ..)| known == name);
        assert_eq!(self.counts.keys().find(|name| !known(name)), None);
    }

    pub fn show(&self) -> String {
        let counted = COUNTED.iter().filter_map(|(name, _, words)| {
            self.counts.get(name).map(|count| format!("{count} {words}"))
        });
        counted.collect::<Vec<_>>().join(", ")
    }
}

impl Violation {
    pub fn granted(host: usize, why: &str) -> Violation {
        Violation(format!("host {host} claims although {why}"))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

//! What one user can do to others: each attack, beside a victim that draws 1,000 ids per second as another
//! user.
//!
//! - `attacks`: what the attacker does.
//! - `victim`: what the victim experiences.

mod attacks;
mod victim;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use leafd_tests::cgroup::{Cgroup, bind_subuid, shipped_limit_bytes};
use leafd_tests::host::Host;

use crate::duplicates::{Duplicates, Span, check_ascending, spans_of};
use crate::processes::anonymous_mib;
use crate::report::{Budget, Report, Section};
use crate::{Plan, progress, stop};
use attacks::{ATTACKS, Attack, Course, SUBORDINATE, UID};
use victim::{Seen, Victim};

const NAME: &str = "hostile: one user against another";

/// How long an attack lasts.
const TIME: Duration = Duration::from_secs(5);

/// How long the victim is watched before the attack.
const BEFORE: Duration = Duration::from_secs(2);

/// And after it: by then the daemon must have returned the memory. (Pages of its program that the attack ran stay
/// resident until memory is short.)
const AFTER: Duration = Duration::from_secs(10);

/// How often the memory is read.
const SAMPLE: Duration = Duration::from_millis(100);

const P99_BEFORE: &str = "p99 before, us";
const P99_DURING: &str = "during";
const P99_AFTER: &str = "after";
const GAP: &str = "worst gap, ms";
const ERRORS: &str = "errors";
const MEMORY_BEFORE: &str = "memory before, MiB";
const MEMORY_MOST: &str = "most, with the kernel's";
const MEMORY_AFTER: &str = "10 s after";

/// The names of all attacks.
pub(crate) fn names() -> Vec<String> {
    ATTACKS.iter().map(row).collect()
}

fn row(attack: &Attack) -> String {
    format!("hostile: {}", attack.name)
}

/// Runs every selected attack.
///
/// # Errors
/// The daemon can't be started, or ends; an id is drawn twice; the user stops the run.
pub(crate) fn measure(plan: &Plan, duplicates: &mut Duplicates, report: &mut Report) -> Result<()> {
    let wanted: Vec<_> = ATTACKS.iter().filter(|attack| plan.wants(&row(attack))).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    if !nix::unistd::geteuid().is_root() {
        report.not_measured.push("attacks by another user: they need root".to_owned());
        return Ok(());
    }
    let columns =
        [P99_BEFORE, P99_DURING, P99_AFTER, GAP, ERRORS, MEMORY_BEFORE, MEMORY_MOST, MEMORY_AFTER];
    let about = "the victim draws an id each millisecond, directly, from what is held".to_owned();
    let mut section = Section::new(NAME, about, &columns);
    for attack in wanted {
        let name = row(attack);
        progress(&name);
        let outcome = one(plan, attack).with_context(|| format!("while trying: {name}"))?;
        let Outcome { seen: [before, during, after], memory_mib: [least, most, left], drawn } =
            outcome;
        duplicates.add(&name, drawn)?;
        for (column, value) in [
            (P99_BEFORE, before.p99_us),
            (P99_DURING, during.p99_us),
            (P99_AFTER, after.p99_us),
            (GAP, before.worst_ms.max(during.worst_ms).max(after.worst_ms)),
            (ERRORS, before.errors + during.errors + after.errors),
            (MEMORY_BEFORE, least),
            (MEMORY_MOST, most),
            (MEMORY_AFTER, left),
        ] {
            section.put(&name, column, value);
        }
        let budget = |column: &str| section.median(&name, column);
        report.budgets.extend([
            Budget::at_most(&name, budget(ERRORS), 0.0, " errors"),
            Budget::at_most(&name, budget(GAP), 250.0, " ms"),
            Budget::at_most(&name, budget(MEMORY_MOST), mib(shipped_limit_bytes()), " MiB"),
            Budget::at_most(&name, Some(left - least), 2.0, " MiB more after"),
        ]);
    }
    report.sections.push(section);
    Ok(())
}

struct Outcome {
    /// What the victim experienced before, during and after.
    seen: [Seen; 3],
    /// The daemon's own before, the maximum of its control group, and the daemon's own at the end.
    memory_mib: [f64; 3],
    /// By the victim, and by the attacker as far as it read its answers.
    drawn: Vec<Span>,
}

fn one(plan: &Plan, attack: &Attack) -> Result<Outcome> {
    let mut host = Host::new().worker(17).set("socket_mode", "0666").set("log", "error");
    for (key, value) in attack.settings {
        host.change(key, value);
    }
    // It may use as much memory as the manifests give it, and the attacker has subordinate uids.
    let cgroup = Cgroup::new(shipped_limit_bytes());
    let subuid = host.path("subuid");
    let (first, last) = (SUBORDINATE.start(), SUBORDINATE.end());
    std::fs::write(&subuid, format!("{UID}:{first}:{}\n", last - first + 1))?;
    let (join, bind) = (cgroup.runner(), bind_subuid(&subuid));
    let confine = ["unshare", "--mount", "sh", "-c", &bind, "sh"];
    let runner: Vec<&str> = join.iter().map(String::as_str).chain(confine).collect();
    host = host.runner(&runner);
    let keys = host.path("mask_keys");
    std::fs::write(&keys, "1 000102030405060708090a0b0c0d0e0f\n")?;
    std::fs::set_permissions(&keys, Permissions::from_mode(0o600))?;
    host.change("mask_key_file", &keys.display().to_string());
    host.start();
    host.create("orders");
    let (over, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let phase = |time: Duration| if plan.smoke { time / 50 } else { plan.time(time) };
    let victim = Victim::new(&host, attack.victim_tag);
    let course = Course { host: &host, over: &over, given: Mutex::default() };
    let outcome = std::thread::scope(|scope| -> Result<Outcome> {
        let watching = scope.spawn(|| victim.draw_until(&ended));
        let pause = |time: Duration, most: &mut f64| -> Result<()> {
            let until = stop::End::after(time);
            while !until.reached() {
                std::thread::sleep(SAMPLE.min(time));
                *most = most.max(mib(cgroup.used_bytes()));
            }
            stop::check()
        };
        let mut most = 0.0;
        pause(phase(BEFORE), &mut most)?;
        let before_mib = anonymous_mib(host.pid())?;
        victim.next_phase();
        let attacking = scope.spawn(|| (attack.run)(&course));
        let paused = pause(phase(TIME), &mut most);
        over.store(true, Ordering::Relaxed);
        let done = attacking.join();
        victim.next_phase();
        let paused = paused.and_then(|()| pause(phase(AFTER), &mut most));
        let after_mib = anonymous_mib(host.pid());
        ended.store(true, Ordering::Relaxed);
        let seen = watching.join();
        paused?;
        done.map_err(|_| anyhow::anyhow!("the attacker gave up"))?;
        let (seen, mut ids) = seen.map_err(|_| anyhow::anyhow!("the victim gave up"))?;
        check_ascending(&ids)?;
        let mut drawn = spans_of(&mut ids);
        drawn.append(&mut course.given.lock().expect("the attack is over"));
        Ok(Outcome { seen, memory_mib: [before_mib, most, after_mib?], drawn })
    });
    // An attack must not have killed the daemon.
    host.assert_alive();
    drop(host);
    outcome
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

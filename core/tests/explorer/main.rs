//! Two hosts compete for the only worker of a pool, in every order of their calls and with each single fault at each
//! moment. Whenever a host may issue ids, it issues all that it may, and none may be issued twice.
//!
//! Two worlds are the same state if their `Debug` texts are equal, with times relative to now. So the number of states
//! is finite, and the search has visited all of them when it ends. It is breadth-first, so it prints the shortest
//! sequence of actions that breaks a promise.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "the core is pure, its tests need not be"
)]

mod world;

use std::collections::{HashSet, VecDeque};
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hasher as _};

use world::{Action, BREAKS, Break, Fault, PAST_MS, START_MS, World};

#[test]
fn no_id_comes_twice_whatever_happens_once() {
    match explore(None) {
        Ok(states) => {
            println!("{states} states");
            assert!(states > 100_000, "the search ends early");
        }
        Err(way) => panic!("an id comes twice:\n{way}"),
    }
}

#[test]
fn each_broken_promise_is_noticed() {
    for broken in BREAKS {
        let way = explore(Some(broken)).expect_err("it is noticed");
        println!("{broken:?}:\n{way}");
    }
}

/// Returns the number of states. If an id is issued twice, returns the shortest sequence of actions that leads there.
fn explore(broken: Option<Break>) -> Result<usize, String> {
    let mut seen = HashSet::new();
    let mut ways: Vec<(usize, Action)> = vec![(0, Action::TimePasses)];
    let mut open = VecDeque::from([(0, World::new(broken))]);
    while let Some((from, world)) = open.pop_front() {
        for action in actions() {
            let Some(next) = world.after(action) else { continue };
            if !seen.insert(fingerprint(&next)) {
                continue;
            }
            ways.push((from, action));
            if next.twice {
                return Err(way_to(&ways, broken));
            }
            open.push_back((ways.len() - 1, next));
        }
    }
    Ok(seen.len())
}

/// The actions that lead to the last state, one per line.
fn way_to(ways: &[(usize, Action)], broken: Option<Break>) -> String {
    let mut actions = Vec::new();
    let mut at = ways.len() - 1;
    while at > 0 {
        actions.push(ways[at].1);
        at = ways[at].0;
    }
    let mut world = World::new(broken);
    let mut text = String::new();
    for action in actions.into_iter().rev() {
        let before = world.clone();
        world = before.after(action).unwrap();
        let at_s = (world.now_ms - START_MS) / 1_000;
        writeln!(text, "{at_s:4} s  {}", before.describe(action)).unwrap();
    }
    text
}

/// All actions, possible or not.
fn actions() -> impl Iterator<Item = Action> {
    use Action::*;
    use Fault::*;
    let faults = [
        CallLost,
        AnswerLost,
        CallLate,
        JournalRefuses,
        Crash,
        CrashWithoutJournal,
        Freeze,
        Stop,
        Release,
    ]
    .into_iter()
    .chain([-5_000, 5_000, 60_000].map(ClockSteps));
    let of = move |host| {
        [Executes, Returns, LateCallArrives]
            .into_iter()
            .map(move |what| what(host))
            .chain(faults.clone().map(move |what| Fails(what, host)))
    };
    of(0).chain(of(1)).chain([TimePasses, Fails(FailOver, 0)])
}

/// Identifies a state. One of a million states is missed with a probability of 1 in 30 million.
fn fingerprint(world: &World) -> u64 {
    let mut text = Relative { hasher: DefaultHasher::new(), now_ms: world.now_ms, is_timer: false };
    write!(text, "{world:?}").unwrap();
    text.hasher.finish()
}

/// Hashes a text with times relative to now. It doesn't matter when a timer expired, or which of the long past times
/// an instant is.
struct Relative {
    hasher: DefaultHasher,
    now_ms: u64,
    /// Whether the next number is a boot time.
    is_timer: bool,
}

impl fmt::Write for Relative {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        match text.parse::<u64>() {
            Ok(time) if (START_MS / 2..START_MS * 2).contains(&time) => {
                let past_ms = if self.is_timer { 0 } else { PAST_MS };
                self.hasher.write_i64((time as i64 - self.now_ms as i64).max(-(past_ms as i64)));
            }
            _ => self.hasher.write(text.as_bytes()),
        }
        if text != "(" {
            self.is_timer = text == "BootMs";
        }
        Ok(())
    }
}

//! The result of a course: a line for each of its steps, and the verdict on all ids.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use leafd_tests::order::{Answer, overtaken};

use crate::course::{Kind, Promised, Step};

/// The promised maximum gap for clients that draw plain or snowflake ids, and the asserted one. The latter is longer,
/// because a machine that is busy with other tests can't measure time.
const GAP: Duration = Duration::from_secs(1);
const GAP_ASSERTED: Duration = Duration::from_secs(10);

/// How much longer than promised other ids may take to return.
const GRACE: Duration = Duration::from_secs(30);

/// A cluster of which no server answers for this long counts as not serving.
const SILENCE: Duration = Duration::from_millis(700);

/// What one thread drew.
pub struct Log {
    pub host: usize,
    pub kind: Kind,
    pub answers: Vec<Answer>,
    pub errors: Vec<(Instant, String)>,
}

/// Everything that happened in a course.
pub struct Report {
    pub title: String,
    pub steps: Vec<Step>,
    pub logs: Vec<Log>,
    /// When any server served, in ascending order.
    pub served: Vec<Instant>,
}

/// A step's effect on the clients that draw in some way.
#[derive(Default)]
struct Effect {
    ids: usize,
    errors: BTreeMap<String, usize>,
    gap: Duration,
    /// The part of a gap during which the cluster served.
    late: Duration,
}

impl Report {
    /// Prints the course. Fails if an id was issued twice or out of order, or if a promised id failed or came much too
    /// late. `back_within`: how long ids that aren't promised all the time may take once the cluster serves.
    #[track_caller]
    pub fn judge(&self, back_within: Duration) {
        let mut faults = Vec::new();
        let kinds: BTreeSet<(&str, bool)> =
            self.logs.iter().map(|log| (log.kind.tag(), log.kind.is_strict())).collect();
        let twice = self.twice();
        println!("\n### {}\n", self.title);
        println!("| step | cluster silent | ids | twice | errors | longest gap |");
        println!("|---|---|---|---|---|---|");
        for (step, twice) in self.steps.iter().zip(&twice) {
            let (mut ids, mut errors, mut gaps) = (0, Vec::new(), Vec::new());
            for (tag, is_strict) in &kinds {
                let effect = self.effect(step, tag);
                ids += effect.ids;
                let count: usize = effect.errors.values().sum();
                if count > 0 {
                    errors.push(format!("{tag} {count}"));
                    println!("<!-- {}: {tag}: {:?} -->", step.name, effect.errors);
                }
                // Ids that aren't promised all the time must return.
                let waits = *is_strict || step.promised == Promised::Nothing;
                gaps.push(match waits {
                    true => format!("{tag} {} ({})", seconds(effect.gap), seconds(effect.late)),
                    false => format!("{tag} {}", seconds(effect.gap)),
                });
                if waits && effect.late > back_within + GRACE {
                    faults.push(format!("{}: {tag}: {:?} too late", step.name, effect.late));
                }
                if !waits {
                    if count > 0 {
                        faults.push(format!("{}: {tag}: {:?}", step.name, effect.errors));
                    }
                    if effect.gap > GAP_ASSERTED {
                        faults.push(format!("{}: {tag}: {:?} without", step.name, effect.gap));
                    }
                }
            }
            let errors = if errors.is_empty() { "none".to_owned() } else { errors.join(", ") };
            let (name, silent, gaps) = (&step.name, self.silent(step), gaps.join(", "));
            println!("| {name} | {silent} | {ids} | {twice} | {errors} | {gaps} |");
        }
        println!(
            "\nPromised: no error and no gap above {GAP:?} for plain and snowflake ids; in brackets, none above {back_within:?} \
             once the cluster serves.\n"
        );
        let ids: usize = self.logs.iter().map(|log| log.answers.len()).sum();
        println!("{ids} ids compared.");
        let all_twice: usize = twice.iter().sum();
        if all_twice > 0 {
            faults.push(format!("{all_twice} ids came twice"));
        }
        faults.extend(self.out_of_order());
        assert!(faults.is_empty(), "{}: {faults:#?}", self.title);
    }

    /// For each step, how many of its ids had been issued before, to any thread. Ids after the last step count for the
    /// last step.
    fn twice(&self) -> Vec<usize> {
        let drawn = |log: &Log| {
            let tag = log.kind.tag();
            log.answers.iter().map(move |one| (one.answered, tag, one.first)).collect::<Vec<_>>()
        };
        let mut all: Vec<(Instant, &str, u64)> = self.logs.iter().flat_map(drawn).collect();
        all.sort_unstable();
        let mut known = BTreeSet::new();
        let mut twice = vec![0; self.steps.len()];
        for (at, tag, id) in all {
            if !known.insert((tag, id)) {
                let step = self.steps.iter().position(|step| at < step.ended);
                twice[step.unwrap_or(self.steps.len() - 1)] += 1;
            }
        }
        twice
    }

    /// Ids that went backwards: strict ones on any hosts, and on one host all that were requested from the daemon.
    fn out_of_order(&self) -> Vec<String> {
        let mut series: BTreeMap<(&str, Option<usize>), Vec<Answer>> = BTreeMap::new();
        for log in self.logs.iter().filter(|log| log.kind != Kind::Held) {
            let host = (!log.kind.is_strict()).then_some(log.host);
            series.entry((log.kind.tag(), host)).or_default().extend(&log.answers);
        }
        let found = series.iter().filter_map(|((tag, host), answers)| {
            let (earlier, later) = overtaken(answers)?;
            Some(format!("{tag} of host {host:?}: {earlier:?} and then {later:?}"))
        });
        found.collect()
    }

    /// The longest time in which no server served, if it is worth mentioning.
    fn silent(&self, step: &Step) -> String {
        let ended = |pair: &&[Instant]| step.begun <= pair[1] && pair[1] < step.ended;
        let gaps = self.served.windows(2).filter(ended).map(|pair| pair[1] - pair[0]);
        gaps.filter(|gap| *gap > SILENCE).max().map_or("-".to_owned(), seconds)
    }

    fn effect(&self, step: &Step, tag: &str) -> Effect {
        let mut effect = Effect::default();
        let within = |at: Instant| step.begun <= at && at < step.ended;
        for log in self.logs.iter().filter(|log| log.kind.tag() == tag) {
            effect.ids += log.answers.iter().filter(|one| within(one.answered)).count();
            for (_, text) in log.errors.iter().filter(|(at, _)| within(*at)) {
                *effect.errors.entry(text.clone()).or_default() += 1;
            }
            if log.kind == Kind::Visit {
                continue;
            }
            let times: Vec<Instant> = log.answers.iter().map(|one| one.answered).collect();
            for gap in times.windows(2).filter(|gap| within(gap[1])) {
                effect.gap = effect.gap.max(gap[1] - gap[0]);
                effect.late = effect.late.max(late(&self.served, gap[0], gap[1]));
            }
        }
        effect
    }
}

/// The part of a time without ids during which the cluster served.
fn late(served: &[Instant], last: Instant, next: Instant) -> Duration {
    let silent = served.windows(2).filter(|pair| pair[1] - pair[0] > SILENCE);
    let within = silent.map(|pair| pair[1].min(next).saturating_duration_since(pair[0].max(last)));
    next - last - within.sum::<Duration>()
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

#[test]
fn only_while_the_cluster_serves_ids_are_late() {
    let base = Instant::now();
    let at = |ms| base + Duration::from_millis(ms);
    let served = [0, 100, 200, 5_200, 5_300, 5_400].map(at);
    let late = |last, next| late(&served, at(last), at(next)).as_millis();
    assert_eq!(late(150, 190), 40);
    assert_eq!(late(190, 5_250), 60);
    assert_eq!(late(190, 5_000), 10);
    assert_eq!(late(5_310, 5_390), 80);
    assert_eq!(late(190, 9_000), 3_810);
}

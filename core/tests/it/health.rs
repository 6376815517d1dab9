//! Health: when each cause began, what the log says about it and how often, and what a failed claim is blamed
//! on.

use leafd_core::health::{
    Cause, ClaimOutcomes, Code, Findings, Health, IdKind, Lasts, MESSAGE_CHARS_MAX, Notice,
    Occasion, Severity, duration,
};
use leafd_core::lease::LeaseProblem;
use leafd_core::store::{History, Identity, Role, StoreError, StoreId, Why};
use leafd_core::upstream::Condition;
use leafd_core::{BootMs, Tag};

fn cause(code: Code, subject: &str, lasts: Lasts) -> Cause {
    let message = "the store a can't be used: connection refused (os error 111)";
    Cause {
        remedy: "see that it runs".to_owned(),
        last_success: Some(BootMs(500)),
        ..Cause::new(code, subject, Why::Other, message, lasts)
    }
}

fn away(lasts: Lasts) -> Vec<Cause> {
    vec![cause(Code::StoreAway, "a", lasts)]
}

/// A daemon that looks once a second, and what its log says.
struct Watch {
    health: Health,
    now: u64,
    told: Vec<(u64, Notice)>,
}

impl Watch {
    fn new() -> Watch {
        Watch { health: Health::default(), now: 1_000, told: Vec::new() }
    }

    fn look(&mut self, causes: Vec<Cause>) {
        let over = causes.iter().any(|cause| cause.lasts == Lasts::Over);
        let findings = Findings {
            segments_ready: !over,
            snowflake_ready: true,
            snowflake_meant: true,
            causes,
        };
        self.health.found(BootMs(self.now), findings);
        let notices = self.health.notices(BootMs(self.now));
        self.told.extend(notices.into_iter().map(|notice| (self.now, notice)));
    }

    fn seconds(&mut self, seconds: u64, causes: impl Fn(u64) -> Vec<Cause>) {
        for second in 0..seconds {
            self.look(causes(second));
            self.now += 1_000;
        }
    }

    fn occasions(&self) -> Vec<(u64, Occasion, Severity)> {
        self.told.iter().map(|(at, told)| (*at, told.occasion, told.severity)).collect()
    }
}

#[test]
fn a_cause_is_told_when_it_begins_once_a_minute_when_it_stops_service_and_when_it_is_over() {
    use {Occasion as O, Severity as S};
    let mut watch = Watch::new();
    watch.seconds(100, |second| away(Lasts::of_ms(90_000 - (second * 1_000).min(90_000))));
    watch.seconds(20, |_| Vec::new());
    assert_eq!(
        watch.occasions(),
        [
            (1_000, O::Began, S::Warning),
            (61_000, O::Lasts, S::Warning),
            (91_000, O::Changed, S::Error),
            // 3 s after it was last seen.
            (103_000, O::Over, S::Error),
        ]
    );
    let text = |index: usize| watch.told[index].1.text.as_str();
    assert!(text(0).contains("last another 1 min 30 s"), "{}", text(0));
    assert!(text(0).ends_with("Remedy: see that it runs"), "{}", text(0));
    assert!(text(1).starts_with("for 1 min now: "), "{}", text(1));
    assert!(text(1).contains("last another 30 s"), "{}", text(1));
    assert!(text(2).contains("serving only ids already held by this host"), "{}", text(2));
    assert!(text(3).starts_with("resolved after 1 min 39 s: "), "{}", text(3));
}

#[test]
fn a_fault_that_comes_and_goes_is_one_and_never_told_twice_a_second() {
    let mut watch = Watch::new();
    // Ten looks a second. The cause is there every other time, each time for another reason, and is sometimes
    // over.
    for look in 0..3_000_u64 {
        let mut causes = if look % 2 == 0 { away(Lasts::Over) } else { Vec::new() };
        if look % 4 == 0 {
            causes[0].message = "the store a can't be used: timed out".to_owned();
        }
        if look % 8 == 0 {
            causes[0].lasts = Lasts::NoEnd;
        }
        watch.look(causes);
        watch.now += 100;
    }
    let mut last = 0;
    for (at, notice) in &watch.told {
        assert!(last == 0 || at - last >= 1_000, "{at}: {notice:?} after {last}");
        last = *at;
    }
    assert!(watch.told.iter().all(|(_, notice)| notice.occasion != Occasion::Over));
    let conditions = watch.health.conditions(BootMs(watch.now));
    assert!(conditions.is_empty(), "the last look found nothing");
    watch.look(away(Lasts::Over));
    let conditions = watch.health.conditions(BootMs(watch.now));
    assert_eq!(conditions[0].since_ms_ago, watch.now - 1_000, "it is still the first one");
}

#[test]
fn counts_and_times_in_a_message_make_no_new_line() {
    let mut watch = Watch::new();
    watch.seconds(50, |second| {
        let mut causes = away(Lasts::Over);
        causes[0].message = format!("it wrote {second} ms ago");
        causes
    });
    assert_eq!(watch.told.len(), 1, "{:?}", watch.told);
    watch.seconds(5, |_| away(Lasts::Over));
    assert_eq!(watch.told.len(), 2, "{:?}", watch.told);
    assert_eq!(watch.told[1].1.occasion, Occasion::Changed);
}

#[test]
fn what_stops_service_comes_first_and_what_nobody_uses_is_a_warning() {
    let mut watch = Watch::new();
    let mut unused = cause(Code::WorkersTaken, "b", Lasts::Over);
    (unused.kind, unused.idle) = (IdKind::Snowflake, true);
    let mut known = cause(Code::StoreAway, "a", Lasts::Over);
    known.since = Some(BootMs(200));
    watch.look(vec![unused, cause(Code::TagUsedUp, "orders", Lasts::Over), known]);
    let conditions = watch.health.conditions(BootMs(2_000));
    let shown: Vec<_> = conditions
        .iter()
        .map(|one| (one.cause.code.as_str(), one.cause.severity(), one.since_ms_ago))
        .collect();
    assert_eq!(
        shown,
        [
            ("store_away", Severity::Error, 1_800),
            ("tag_used_up", Severity::Error, 1_000),
            ("workers_taken", Severity::Warning, 1_000),
        ]
    );
    assert_eq!(conditions[0].last_success_ms_ago, Some(1_500));
    assert_eq!(conditions[0].cause.lasts.ms(), Some(0));
    assert_eq!(conditions[2].cause.meaning(), "snowflake ids unavailable; none were requested");
}

#[test]
fn the_line_for_a_service_manager_says_which_ids_are_available_and_for_how_long() {
    let mut watch = Watch::new();
    let line = |watch: &Watch| watch.health.status_line(BootMs(watch.now));
    watch.look(Vec::new());
    assert_eq!(line(&watch), "OK: segment and snowflake ids available");
    watch.look(vec![cause(Code::TagNearCeiling, "orders", Lasts::NoEnd)]);
    let warning =
        "WARNING: tag \"orders\" is near its ceiling; segment and snowflake ids available: ";
    assert!(line(&watch).starts_with(warning), "{}", line(&watch));
    watch.look(away(Lasts::Ms(500_000)));
    let some =
        "DEGRADED: segment and snowflake ids available; some run out in about 8 min: the store a";
    assert!(line(&watch).starts_with(some), "{}", line(&watch));
    watch.look(away(Lasts::Over));
    let degraded = "DEGRADED: segment ids unavailable; snowflake ids available: the store a";
    assert!(line(&watch).starts_with(degraded), "{}", line(&watch));
    let mut broken = away(Lasts::Over);
    (broken[0].kind, broken[0].message) = (IdKind::All, "the disk\nis full".to_owned());
    let findings = Findings { snowflake_meant: true, causes: broken, ..Findings::default() };
    watch.health.found(BootMs(watch.now), findings);
    assert_eq!(line(&watch), "DOWN: segment and snowflake ids unavailable: the disk is full");
    watch.health.found(BootMs(watch.now), Findings { segments_ready: true, ..Findings::default() });
    assert_eq!(line(&watch), "OK: segment ids available");
}

fn tag(name: &str) -> Tag {
    Tag::parse(name.as_bytes()).unwrap()
}

fn identity(store: &str) -> Identity {
    Identity { id: StoreId(store.into()), history: History("1".into()), role: Role::default() }
}

fn refused(words: &str) -> StoreError {
    StoreError::Refused(words.to_owned().into())
}

#[test]
fn a_claim_that_fails_is_the_stores_fault_unless_it_serves_others() {
    let mut outcomes = ClaimOutcomes::new(2);
    let (orders, users) = (tag("orders"), tag("users"));
    let at = BootMs;
    outcomes.succeeded(at(1_000), 0, &orders);
    outcomes.failed(at(2_000), 0, &orders, &refused("permission denied"));
    outcomes.failed(at(3_000), 0, &orders, &refused("permission denied for table"));
    let failure = outcomes.of_store(at(3_000), 0).unwrap();
    assert_eq!(
        (failure.since, failure.error.to_string()),
        (at(2_000), "permission denied for table".to_owned())
    );
    assert_eq!(outcomes.of_tags(at(3_000)).count(), 0);
    assert!(outcomes.of_store(at(3_000), 1).is_none(), "another store");
    // The store serves another tag: this tag's failure is its own, and stays so.
    outcomes.succeeded(at(4_000), 0, &users);
    outcomes.failed(at(5_000), 0, &orders, &refused("a bad row"));
    assert!(outcomes.of_store(at(5_000), 0).is_none());
    let alone: Vec<_> = outcomes
        .of_tags(at(5_000))
        .map(|(tag, store, failure)| (tag.clone(), store, failure.since))
        .collect();
    assert_eq!(alone, [(orders.clone(), 0, at(2_000))]);
    assert_eq!(outcomes.succeeded_at(0), Some(at(4_000)));
    // When another tag fails now, the store is to blame again, until a claim succeeds.
    outcomes.failed(at(6_000), 0, &users, &refused("permission denied"));
    assert_eq!(outcomes.of_store(at(6_000), 0).unwrap().since, at(6_000));
    outcomes.succeeded(at(7_000), 0, &users);
    outcomes.succeeded(at(7_000), 0, &orders);
    assert!(outcomes.of_store(at(7_000), 0).is_none() && outcomes.of_tags(at(7_000)).count() == 0);
}

#[test]
fn a_claim_that_met_another_store_tells_nothing_once_the_trusted_one_is_back() {
    let mut outcomes = ClaimOutcomes::new(2);
    let changed = StoreError::Changed {
        store: "postgres://db/ids".to_owned(),
        expected: identity("production"),
        found: identity("staging"),
    };
    outcomes.failed(BootMs(1_000), 0, &tag("orders"), &changed);
    outcomes.found_trusted(BootMs(900), 0);
    outcomes.found_trusted(BootMs(1_100), 1);
    assert!(outcomes.of_store(BootMs(1_200), 0).is_some(), "seen before, or another store");
    outcomes.found_trusted(BootMs(1_100), 0);
    assert!(outcomes.of_store(BootMs(1_200), 0).is_none());
    assert_eq!(outcomes.of_tags(BootMs(1_200)).count(), 0);
    // A refusal by a trusted store is another matter.
    outcomes.failed(BootMs(2_000), 0, &tag("orders"), &refused("permission denied"));
    outcomes.found_trusted(BootMs(2_100), 0);
    assert!(outcomes.of_store(BootMs(2_200), 0).is_some());
}

#[test]
fn a_failure_that_nobody_has_met_for_a_minute_tells_nothing() {
    let mut outcomes = ClaimOutcomes::new(1);
    outcomes.failed(BootMs(1_000), 0, &tag("orders"), &refused("permission denied"));
    assert!(outcomes.of_store(BootMs(60_999), 0).is_some());
    assert!(outcomes.of_store(BootMs(61_000), 0).is_none());
    outcomes.failed(BootMs(90_000), 0, &tag("orders"), &refused("permission denied"));
    assert_eq!(outcomes.of_store(BootMs(90_000), 0).unwrap().since, BootMs(90_000));
}

#[test]
fn a_tag_at_its_end_tells_nothing_against_its_store() {
    let mut outcomes = ClaimOutcomes::new(1);
    let used_up = StoreError::Exhausted { tag: tag("orders"), ceiling: 10, left: 0 };
    outcomes.failed(BootMs(1_000), 0, &tag("orders"), &used_up);
    let gone = StoreError::UnknownTag { tag: tag("nothing") };
    outcomes.failed(BootMs(1_000), 0, &tag("nothing"), &gone);
    assert!(outcomes.of_store(BootMs(1_000), 0).is_none());
    let alone: Vec<_> = outcomes.of_tags(BootMs(1_000)).map(|(tag, ..)| tag.clone()).collect();
    assert_eq!(alone, [tag("orders")]);
    outcomes.forget(&tag("orders"));
    assert_eq!(outcomes.of_tags(BootMs(1_000)).count(), 0);
}

#[test]
fn a_cause_keeps_a_short_message() {
    let new = |message: &str| Cause::new(Code::StoreAway, "a", Why::Other, message, Lasts::Over);
    let short = "\u{e9}".repeat(MESSAGE_CHARS_MAX);
    assert_eq!(new(&short).message, short);
    for words in ["leaf_alloc; ", "a "] {
        let message = new(&format!("privileges on {}", words.repeat(100))).message;
        assert!(message.chars().count() <= MESSAGE_CHARS_MAX, "{message}");
        assert!(message.starts_with("privileges on") && message.ends_with(" [...]"), "{message}");
    }
}

#[test]
fn a_start_is_logged_only_if_it_lasts() {
    let mut watch = Watch::new();
    let starting = |_| vec![cause(Code::WorkerStarting, "a", Lasts::Over)];
    watch.seconds(5, starting);
    assert!(watch.told.is_empty(), "{:?}", watch.told);
    watch.seconds(2, starting);
    assert_eq!(watch.told.len(), 1, "{:?}", watch.told);
}

#[test]
fn each_condition_of_a_store_and_each_missing_worker_has_its_code() {
    for (condition, expected) in [
        (Condition::Unmet, Some("store_away")),
        (Condition::Away(refused("no")), Some("claims_failing")),
        (Condition::Away(StoreError::UnknownTag { tag: tag("t") }), Some("store_away")),
        (Condition::Settling, Some("store_settling")),
        (Condition::LostCommits, Some("store_settling")),
        (Condition::Refused(refused("no")), Some("store_refused")),
        (Condition::Crowded, None),
    ] {
        assert_eq!(Code::of_store(&condition).map(Code::as_str), expected, "{condition:?}");
    }
    for (problem, expected) in [
        (LeaseProblem::Unused, None),
        (LeaseProblem::Stopping, None),
        (LeaseProblem::Starting, Some("worker_starting")),
        (LeaseProblem::Away("no".into()), Some("registry_away")),
        (LeaseProblem::GivingBack, Some("worker_released")),
    ] {
        let code = Code::of_lease(&problem).map(|code| code.to_string());
        assert_eq!(code.as_deref(), expected, "{problem:?}");
    }
}

#[test]
fn a_duration_is_rounded_the_more_coarsely_the_longer_it_is() {
    for (ms, expected) in [
        (0, "0 s"),
        (1, "less than a second"),
        (1_000, "1 s"),
        (119_000, "1 min 59 s"),
        (120_000, "2 min"),
        (299_000, "4 min 59 s"),
        (301_000, "5 min"),
        (3_600_000, "1 h"),
        (7_380_000, "2 h 3 min"),
        (86_400_000, "1 d"),
        (99_000_000, "1 d 3 h"),
    ] {
        assert_eq!(duration(ms), expected, "{ms}");
    }
    let min = |one: Lasts, other| (one.min(other), other.min(one));
    let [short, long] = [1, 2].map(Lasts::Ms);
    assert_eq!(min(short, long), (short, short));
    assert_eq!(min(Lasts::NoEnd, long), (long, long));
    assert_eq!(min(Lasts::Over, long), (Lasts::Over, Lasts::Over));
}

#[test]
fn a_cause_says_what_it_means_for_ids() {
    use {Code as C, IdKind as K};
    for (kind, code, lasts, idle, expected) in [
        (K::All, C::JournalFailing, Lasts::Over, false, "no ids available"),
        (K::Segments, C::TagUsedUp, Lasts::Over, false, "tag \"a\": no ids available"),
        (K::Snowflake, C::ClockBehind, Lasts::Over, false, "layout \"a\": no ids available"),
        (K::Snowflake, C::ClockOff, Lasts::Over, false, "snowflake ids unavailable"),
        (
            K::Snowflake,
            C::ClockOff,
            Lasts::Over,
            true,
            "snowflake ids unavailable; none were requested",
        ),
        (
            K::Segments,
            C::StoreAway,
            Lasts::Ms(9_000),
            false,
            "held ids last another 9 s at the current rate",
        ),
        (K::All, C::JournalFailing, Lasts::Ms(9_000), false, "ids last another 9 s"),
        (
            K::Segments,
            C::StoreAway,
            Lasts::NoEnd,
            false,
            "ids are available, and held ids do not run out at the current rate",
        ),
        (K::Snowflake, C::RegistryAway, Lasts::NoEnd, true, "ids are still being issued"),
    ] {
        let cause = Cause { kind, idle, ..cause(code, "a", lasts) };
        assert_eq!(cause.meaning(), expected, "{code:?}");
    }
}

#[test]
fn the_headline_names_the_shortest_time_or_the_tags_near_their_ceilings() {
    let near = |tag| cause(Code::TagNearCeiling, tag, Lasts::NoEnd);
    let unused = Cause { idle: true, ..cause(Code::WorkersTaken, "w", Lasts::Over) };
    let lasts = |ms| cause(Code::StoreAway, &format!("{ms}"), Lasts::Ms(ms));
    let away = cause(Code::StoreAway, "a", Lasts::NoEnd);
    for (causes, expected) in [
        (
            vec![unused, lasts(500_000), lasts(900_000)],
            "DEGRADED: segment ids available; some run out in about 8 min",
        ),
        (vec![lasts(60_000)], "DEGRADED: segment ids available; some run out in about 1 min"),
        (
            vec![lasts(59_999)],
            "DEGRADED: segment ids available; some run out in less than a minute",
        ),
        (vec![away, near("t")], "DEGRADED: segment ids available"),
        (
            vec![near("t"), near("u"), near("v")],
            "WARNING: tag \"t\" and 2 more are near their ceilings; segment ids available",
        ),
    ] {
        let mut health = Health::default();
        health.found(BootMs(1), Findings { segments_ready: true, causes, ..Findings::default() });
        assert_eq!(health.headline(&health.conditions(BootMs(1))), expected);
    }
}

#[test]
fn a_tag_near_its_ceiling_is_logged_elsewhere_and_other_causes_come_before_a_tag_s() {
    let mut watch = Watch::new();
    watch.look(vec![cause(Code::TagNearCeiling, "a", Lasts::NoEnd)]);
    assert!(watch.told.is_empty(), "{:?}", watch.told);
    let older = Cause { since: Some(BootMs(1)), ..cause(Code::TagUsedUp, "a", Lasts::Over) };
    watch.look(vec![older, cause(Code::StoreAway, "a", Lasts::Over)]);
    let conditions = watch.health.conditions(BootMs(2_000));
    let codes: Vec<_> = conditions.iter().map(|condition| condition.cause.code).collect();
    assert_eq!(codes, [Code::StoreAway, Code::TagUsedUp]);
}

#[test]
fn an_identity_in_use_is_logged_at_once_by_a_daemon_that_had_a_worker() {
    for (last_success, expected) in [(None, 16_000), (Some(BootMs(500)), 1_000)] {
        let mut watch = Watch::new();
        let remedy = String::new();
        let in_use = cause(Code::IdentityInUse, "a", Lasts::Over);
        let in_use = Cause { last_success, remedy, ..in_use };
        watch.seconds(20, |_| vec![in_use.clone()]);
        assert_eq!(watch.told[0].0, expected);
        assert!(!watch.told[0].1.text.contains("Remedy"), "{:?}", watch.told);
    }
}

#[test]
fn a_change_is_logged_at_once_if_it_is_for_the_worse() {
    let mut watch = Watch::new();
    for lasts in [Lasts::NoEnd, Lasts::Over, Lasts::NoEnd] {
        watch.seconds(if lasts == Lasts::Over { 1 } else { 12 }, |_| away(lasts));
    }
    let times: Vec<u64> = watch.told.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [1_000, 13_000, 23_000]);
    // After less than a second, it waits for the rest.
    let mut watch = Watch::new();
    for (ms, lasts) in [(1_000, Lasts::NoEnd), (1_999, Lasts::Over), (2_000, Lasts::Over)] {
        watch.now = ms;
        watch.look(away(lasts));
    }
    assert_eq!((watch.told.len(), watch.told[1].0), (2, 2_000));
}

#[test]
fn a_cause_that_comes_back_later_is_a_new_one() {
    for (times, since) in [
        (&[1_000, 4_000][..], 1_000),
        (&[1_000, 2_000, 3_999], 1_000),
        (&[1_000, 2_000, 4_000], 4_000),
    ] {
        let mut health = Health::default();
        for (index, ms) in times.iter().enumerate() {
            let causes =
                if index == 1 && times.len() == 3 { Vec::new() } else { away(Lasts::NoEnd) };
            health.found(BootMs(*ms), Findings { causes, ..Findings::default() });
        }
        assert_eq!(health.conditions(BootMs(9_000))[0].since_ms_ago, 9_000 - since, "{times:?}");
    }
}

#[test]
fn a_trusted_store_ends_only_its_own_failures_of_claims_that_met_another() {
    let mut outcomes = ClaimOutcomes::new(2);
    let (expected, found) = (identity("a"), identity("b"));
    let changed = StoreError::Changed { store: "s".into(), expected, found };
    let used_up = StoreError::Exhausted { tag: tag("t"), ceiling: 10, left: 0 };
    for (store, name, error) in [(0, "a", &changed), (0, "b", &used_up), (1, "c", &changed)] {
        outcomes.failed(BootMs(1_000), store, &tag(name), error);
    }
    outcomes.found_trusted(BootMs(1_100), 0);
    outcomes.succeeded(BootMs(1_200), 1, &tag("d"));
    let tags: Vec<&str> = outcomes.of_tags(BootMs(1_200)).map(|(tag, ..)| tag.as_str()).collect();
    assert_eq!(tags, ["b", "c"]);
    // A tag that another host holds shows that its store works.
    outcomes.failed(BootMs(1_300), 0, &tag("e"), &refused("no"));
    outcomes.failed(
        BootMs(1_400),
        0,
        &tag("f"),
        &StoreError::Held { tag: tag("f"), end: 1, ms: 1 },
    );
    assert!(outcomes.of_store(BootMs(1_400), 0).is_none());
}

#[test]
fn failures_of_many_tags_are_forgotten_only_when_they_are_old() {
    let mut outcomes = ClaimOutcomes::new(1);
    let used_up = StoreError::Exhausted { tag: tag("t"), ceiling: 10, left: 0 };
    let mut fail = |ms, number: u32| {
        outcomes.failed(BootMs(ms), 0, &tag(&format!("t{number}")), &used_up);
        outcomes.of_tags(BootMs(ms)).count()
    };
    assert_eq!((0..257).map(|number| fail(1_000, number)).max(), Some(256));
    assert_eq!([(60_999, 300), (61_000, 301)].map(|(ms, number)| fail(ms, number)), [256, 1]);
}

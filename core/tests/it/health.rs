//! Health: when each cause began, what the log says about it and how often, and what a failed claim is blamed
//! on.

use leafd_core::health::{
    Cause, ClaimOutcomes, Code, Findings, Health, IdKind, Lasts, MESSAGE_CHARS_MAX, Notice,
    Occasion, Severity,
};
use leafd_core::store::{History, Identity, Role, StoreError, StoreId, Why};
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
    let long = "rights on leaf_alloc; ".repeat(20);
    let message = new(&long).message;
    assert!(message.chars().count() <= MESSAGE_CHARS_MAX, "{message}");
    assert!(message.starts_with("rights on") && message.ends_with(" [...]"), "{message}");
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

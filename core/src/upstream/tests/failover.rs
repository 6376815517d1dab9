//! From a changed history to new claims.

use super::*;

impl Watched {
    #[track_caller]
    fn pushes(&mut self, history: &str) {
        assert_eq!(self.asks(), Request::PushHighWater(identity(history)));
        self.answer(Response::PushHighWater(Ok(3)));
    }

    #[track_caller]
    fn notes(&mut self, history: &str, noted_ms: Option<u64>) {
        assert_eq!(self.asks(), Request::NoteHistory(identity(history)));
        self.answer(Response::NoteHistory(Ok(noted_ms)));
    }

    #[track_caller]
    fn goes_on(&mut self, history: &str) {
        let record = Record::History(StoreId("postgres:1".into()), History(history.into()));
        assert_eq!(self.step(), Step::Record(record));
        assert_eq!(self.monitor.claimable(), None, "not before the journal has it");
        self.monitor.recorded(self.now, Ok(()), 0);
        self.look();
        assert_eq!(self.monitor.claimable(), Some(&identity(history)));
    }

    fn distrusted(&mut self) -> bool {
        self.look();
        self.events.contains(&Event::Distrusted)
    }
}

#[test]
fn whoever_pushes_in_time_keeps_what_it_holds_and_claims_when_the_store_says_so() {
    let mut one = Watched::trusting();
    one.probe_shows("h2");
    assert_eq!(one.monitor.claimable(), None);
    one.pushes("h2");
    one.notes("h2", Some(4_000));
    // Another host may still have to report a name that the store has lost.
    assert!(matches!(one.monitor.complete(), Err(Condition::Settling)));
    assert!(!one.distrusted() && one.monitor.own_until().is_none());
    assert_eq!((one.monitor.failovers(), one.monitor.settling_ms(one.now)), (1, 6_000));
    for _ in 0..3 {
        one.probe_shows("h2");
    }
    one.pass(6_000);
    one.probe_shows("h2");
    one.notes("h2", Some(9_999));
    assert_eq!(one.monitor.claimable(), None, "the store's clock counts, not the host's");
    one.pass(1);
    one.notes("h2", Some(10_000));
    one.goes_on("h2");
    assert_eq!(one.monitor.complete().ok(), Some(&identity("h2")));
    assert_eq!(one.monitor.failovers(), 1);
}

#[test]
fn whoever_is_late_drops_what_it_holds_before_it_claims() {
    let mut one = Watched::trusting();
    one.probe_shows("h2");
    one.pushes("h2");
    one.notes("h2", Some(SETTLE_MS));
    assert!(one.distrusted());
    one.goes_on("h2");
}

#[test]
fn nothing_is_issued_while_others_may_claim_and_the_answer_is_late() {
    let mut one = Watched::trusting();
    let proven_at = one.now;
    one.probe_shows("h2");
    assert_eq!(one.monitor.own_until(), Some(BootMs(proven_at.0 + SETTLE_MS)));
    assert_eq!(one.asks(), Request::PushHighWater(identity("h2")));
    one.pass(SETTLE_MS);
    assert!(!one.monitor.may_issue(one.now));
    one.answer(Response::PushHighWater(Ok(1)));
    one.notes("h2", Some(SETTLE_MS - 1));
    assert!(one.monitor.may_issue(one.now), "it was in time, whatever the answers took");
}

#[test]
fn where_the_store_keeps_no_note_the_time_of_an_answer_counts_against_this_host_alone() {
    let mut one = Watched::trusting();
    one.probe_shows("h2");
    one.pushes("h2");
    assert_eq!(one.asks(), Request::NoteHistory(identity("h2")));
    one.pass(SETTLE_MS);
    one.answer(Response::NoteHistory(Ok(None)));
    assert!(one.distrusted(), "others may have claimed while the answer was under way");
    // Others may have begun to settle when the answer came, not before.
    one.notes("h2", None);
    one.goes_on("h2");
}

#[test]
fn an_answer_proves_what_was_so_when_it_was_asked() {
    let mut one = Watched::trusting();
    if let Step::Wait(Some(until)) = one.look() {
        one.now = until;
    }
    assert_eq!(one.asks(), Request::Identity);
    let asked = one.now;
    one.pass(5_000);
    one.answer(Response::Identity(Ok(identity("h1"))));
    one.probe_shows("h2");
    assert_eq!(one.monitor.own_until(), Some(BootMs(asked.0 + SETTLE_MS)));
}

#[test]
fn a_call_that_fails_meanwhile_does_not_start_the_time_again() {
    for counts in [true, false] {
        let mut one = Watched::trusting();
        one.probe_shows("h2");
        let begun = one.now;
        let age = |one: &Watched| counts.then_some(one.now.0 - begun.0);
        one.pushes("h2");
        let noted_ms = age(&one);
        one.notes("h2", noted_ms);
        one.pass(3_000);
        assert_eq!(one.asks(), Request::Identity);
        one.answer(Response::Identity(Err(away())));
        one.pass(1_000);
        one.monitor.call_failed(one.now, &away());
        one.probe_shows("h2");
        one.now = BootMs(begun.0 + SETTLE_MS);
        one.probe_shows("h2");
        let noted_ms = age(&one);
        one.notes("h2", noted_ms);
        one.goes_on("h2");
        assert_eq!(one.monitor.failovers(), 1);
        assert!(!one.events.contains(&Event::Distrusted));
    }
}

#[test]
fn a_store_that_is_back_at_a_former_history_is_told_that_it_lost_commits() {
    let mut one = Watched::trusting();
    one.probe_shows("h2");
    one.pushes("h2");
    one.notes("h2", Some(SETTLE_MS));
    one.goes_on("h2");
    one.events.clear();
    one.probe_shows("h1");
    one.pushes("h1");
    one.notes("h1", Some(2_000_000));
    assert_eq!(one.asks(), Request::DeclareLoss(identity("h1")));
    assert!(one.events.contains(&Event::WentBack(History("h1".into()))));
    one.answer(Response::DeclareLoss(Ok(true)));
    one.probe_shows("h1 losses 1");
    assert!(one.distrusted());
    // A switch back that lost nothing comes with a fresh note.
    let mut one = Watched::trusting();
    one.probe_shows("h2");
    one.pushes("h2");
    one.notes("h2", Some(SETTLE_MS));
    one.goes_on("h2");
    one.events.clear();
    one.pass(20_000);
    one.probe_shows("h1");
    one.pushes("h1");
    one.notes("h1", Some(0));
    assert!(!one.distrusted());
    assert!(matches!(one.step(), Step::Wait(_)));
}

#[test]
fn a_history_that_was_missed_between_two_costs_what_is_held() {
    let mut one = Watched::trusting();
    one.probe_shows("h2");
    assert_eq!(one.asks(), Request::PushHighWater(identity("h2")));
    one.answer(Response::PushHighWater(Err(away())));
    one.pass(2 * SETTLE_MS);
    one.probe_shows("h3");
    one.pushes("h3");
    one.notes("h3", Some(100));
    assert!(one.distrusted(), "others may have claimed under h2");
}

#[test]
fn a_loss_without_another_history_is_declared_once() {
    let mut one = Watched::trusting();
    assert!(one.monitor.lost_commits(&identity("h1")));
    assert!(!one.monitor.lost_commits(&identity("h1")));
    assert_eq!(one.monitor.claimable(), None);
    assert!(matches!(one.monitor.complete(), Err(Condition::LostCommits)));
    assert_eq!(one.asks(), Request::DeclareLoss(identity("h1")));
    assert!(one.events.contains(&Event::Distrusted));
    // With Leaf's table only, no other host can be told: this host's own marks are all there is.
    one.answer(Response::DeclareLoss(Ok(false)));
    one.pushes("h1");
    one.look();
    assert_eq!(one.monitor.claimable(), Some(&identity("h1")));
}

#[test]
fn a_restart_over_a_fail_over_issues_nothing_before_it_knows() {
    let remembered = Some((StoreId("postgres:1".into()), History("h1".into())));
    let mut one = Watched::new(Settings { remembered, ..settings() });
    assert!(one.monitor.may_issue(one.now), "nobody has said anything yet");
    assert_eq!(one.asks(), Request::Identity);
    one.answer(Response::Identity(Ok(identity("h2"))));
    assert!(!one.monitor.may_issue(one.now), "it is another history already");
    let remembered = Some((StoreId("postgres:1".into()), History("h1".into())));
    let mut one = Watched::new(Settings { remembered, ..settings() });
    one.meet("h2", Some("h1"));
    assert!(!one.monitor.may_issue(one.now));
    one.pushes("h2");
    one.notes("h2", Some(50));
    assert!(one.monitor.may_issue(one.now));
}

#[test]
fn an_embedded_store_has_no_others_to_wait_for() {
    let mut one = Watched::new(Settings { embedded: true, settle_ms: 0, ..settings() });
    one.meet("h2", Some("h1"));
    one.pushes("h2");
    one.notes("h2", None);
    one.goes_on("h2");
    assert!(!one.events.contains(&Event::Distrusted));
}

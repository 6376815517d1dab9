//! From a changed history to new claims.

use super::*;

impl Watched {
    #[track_caller]
    fn pushes(&mut self, lives: &str) {
        assert_eq!(self.asks(), Request::PushHighWater(identity(lives)));
        self.answer(Response::PushHighWater(Ok(3)));
    }

    #[track_caller]
    fn hears(&mut self, lives: &str, settled: Option<bool>) {
        assert_eq!(self.asks(), Request::IsSettled(identity(lives)));
        self.answer(Response::IsSettled(Ok(settled)));
    }

    #[track_caller]
    fn goes_on(&mut self, lives: &str) {
        let record = Record::History(StoreId("postgres:1".into()), history(lives));
        assert_eq!(self.asks(), Request::Record(record));
        assert_eq!(self.monitor.claimable(), None, "not before the journal has it");
        self.answer(Response::Record(Ok(())));
        self.look();
        assert_eq!(self.monitor.claimable(), Some(&identity(lives)));
    }

    fn distrusted(&mut self) -> bool {
        self.look();
        self.events.contains(&Event::Distrusted)
    }
}

#[test]
fn whoever_pushes_in_time_keeps_what_it_holds_and_claims_after_the_settling_time() {
    let mut one = Watched::trusting();
    one.probe_shows("2 1*");
    assert_eq!((one.monitor.claimable(), one.monitor.present()), (None, None));
    assert_eq!(one.monitor.settling_ms(one.now), SETTLE_MS);
    one.pushes("2 1*");
    assert_eq!(one.monitor.present(), Some(&identity("2 1*")));
    one.hears("2 1*", Some(false));
    // Another host may still have to report a tag that the store has lost, so none can be created.
    assert!(matches!(one.monitor.complete(), Err(Condition::Settling)));
    assert!(!one.distrusted() && one.monitor.own_until().is_none());
    assert_eq!(one.monitor.failovers, 1);
    let over_at = one.now.0 + one.monitor.settling_ms(one.now);
    assert!(over_at > one.now.0 + SETTLE_MS, "clocks differ a little in speed");
    while let Step::Wait(Some(until)) = one.look()
        && until.0 < over_at
    {
        one.probe_shows("2 1*");
        one.hears("2 1*", Some(false));
    }
    assert_eq!(one.look(), Step::Wait(Some(BootMs(over_at))));
    assert_eq!(one.monitor.claimable(), None);
    one.now = BootMs(over_at);
    one.goes_on("2 1*");
    let failed_over = Event::FailedOver(history("2 1*"));
    let (pushed, in_time, settled) = (Event::Resumed, Event::Resumed, Event::Settled(3));
    assert_eq!(one.events, [failed_over, pushed, in_time, settled, Event::Resumed]);
    assert_eq!(one.monitor.complete().ok(), Some(&identity("2 1*")));
    assert_eq!(one.monitor.failovers, 1);
}

#[test]
fn whoever_is_late_drops_what_it_holds_before_it_claims() {
    let mut one = Watched::trusting();
    one.probe_shows("2 1*");
    one.pushes("2 1*");
    one.hears("2 1*", Some(true));
    assert!(one.distrusted());
    // Held ids are dropped only once, whatever else the store loses.
    assert!(matches!(one.asks(), Request::Record(_)));
    one.now.0 += 2 * SETTLE_MS;
    one.answer(Response::Record(Err(away())));
    one.probe_shows("4 3 2* 1*");
    assert_eq!(one.monitor.own_until(), None);
    one.pushes("4 3 2* 1*");
    one.hears("4 3 2* 1*", Some(true));
    one.look();
    let drops = one.events.iter().filter(|event| **event == Event::Distrusted);
    assert_eq!(drops.count(), 1);
    one.goes_on("4 3 2* 1*");
}

#[test]
fn the_first_claim_of_another_host_ends_the_wait() {
    let mut one = Watched::trusting();
    one.probe_shows("2 1*");
    one.pushes("2 1*");
    one.hears("2 1*", Some(false));
    one.probe_shows("2 1*");
    one.hears("2 1*", Some(true));
    assert!(!one.distrusted());
    one.goes_on("2 1*");
}

#[test]
fn nothing_is_issued_while_others_may_claim_and_the_answer_is_late() {
    let mut one = Watched::trusting();
    let proven_at = one.now;
    one.probe_shows("2 1*");
    assert_eq!(one.monitor.own_until(), Some(BootMs(proven_at.0 + SETTLE_MS)));
    assert_eq!(one.asks(), Request::PushHighWater(identity("2 1*")));
    one.pass(proven_at.0 + SETTLE_MS - one.now.0);
    assert_eq!(one.monitor.issues_until(), one.now);
    one.answer(Response::PushHighWater(Ok(1)));
    one.hears("2 1*", Some(false));
    assert!(one.may_issue(), "it was in time, whatever the answers took");
}

#[test]
fn where_the_store_keeps_no_note_the_time_of_an_answer_counts_against_this_host_alone() {
    let mut one = Watched::trusting();
    one.probe_shows("2 1*");
    one.pushes("2 1*");
    let since = one.now;
    assert_eq!(one.asks(), Request::IsSettled(identity("2 1*")));
    one.pass(SETTLE_MS);
    one.answer(Response::IsSettled(Ok(None)));
    assert!(one.distrusted(), "others may have claimed while the answer was under way");
    assert_eq!(one.now.0, since.0 + SETTLE_MS);
    one.goes_on("2 1*");
    // The report was in time, so only the rest of the settling time is left.
    let mut one = Watched::trusting();
    one.probe_shows("2 1*");
    one.pushes("2 1*");
    assert_eq!(one.asks(), Request::IsSettled(identity("2 1*")));
    one.pass(SETTLE_MS - 1);
    one.answer(Response::IsSettled(Ok(None)));
    assert!(!one.distrusted());
    assert_eq!(one.monitor.settling_ms(one.now), 1);
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
    one.answer(Response::Identity(Ok(identity("1"))));
    one.probe_shows("2 1*");
    assert_eq!(one.monitor.own_until(), Some(BootMs(asked.0 + SETTLE_MS)));
    one.pushes("2 1*");
    let asked = one.now;
    one.hears("2 1*", Some(false));
    one.probe_shows("3 2 1*");
    assert_eq!(one.monitor.own_until(), Some(BootMs(asked.0 + SETTLE_MS)));
}

#[test]
fn a_call_that_fails_meanwhile_does_not_start_the_time_again() {
    let mut one = Watched::trusting();
    one.probe_shows("2 1*");
    one.pushes("2 1*");
    one.hears("2 1*", Some(false));
    let over_at = one.now.0 + one.monitor.settling_ms(one.now);
    one.pass(3_000);
    assert_eq!(one.asks(), Request::Identity);
    one.answer(Response::Identity(Err(away())));
    one.pass(1_000);
    one.monitor.call_failed(one.now, &away());
    one.probe_shows("2 1*");
    one.hears("2 1*", Some(false));
    one.now = BootMs(over_at);
    one.probe_shows("2 1*");
    one.hears("2 1*", Some(false));
    one.goes_on("2 1*");
    assert_eq!(one.monitor.failovers, 1);
    assert!(!one.events.contains(&Event::Distrusted));
}

#[test]
fn a_note_in_doubt_is_renewed_before_anything_else() {
    let mut one = Watched::trusting();
    let proven_at = one.now;
    one.probe_shows("in doubt: 1");
    assert_eq!(one.monitor.claimable(), None);
    assert_eq!(one.monitor.own_until(), Some(BootMs(proven_at.0 + SETTLE_MS)));
    assert_eq!(one.asks(), Request::Renew(identity("in doubt: 1"), Some(history("1"))));
    one.answer(Response::Renew(Err(away())));
    one.probe_shows("in doubt: 1");
    assert_eq!(one.asks(), Request::Renew(identity("in doubt: 1"), Some(history("1"))));
    one.answer(Response::Renew(Ok(true)));
    one.probe_shows("2 1*");
    assert_eq!(one.monitor.failovers, 1);
    one.pushes("2 1*");
    one.hears("2 1*", Some(false));
    assert!(!one.distrusted());
    assert!(!one.events.iter().any(|event| matches!(event, Event::WentBack(_))));
}

/// A server took over that had not followed: it lacks the life that this host trusts, and hosts that know only the life
/// before must learn of it.
#[test]
fn a_store_that_lost_a_whole_life_is_told_of_it() {
    let mut one = Watched::trusting();
    one.probe_shows("2 1*");
    one.pushes("2 1*");
    one.hears("2 1*", Some(true));
    one.goes_on("2 1*");
    one.events.clear();
    one.probe_shows("3 1*");
    assert_eq!(one.asks(), Request::Renew(identity("3 1*"), Some(history("2 1*"))));
    assert!(one.events.contains(&Event::WentBack(history("3 1*"))));
    one.answer(Response::Renew(Ok(true)));
    one.probe_shows("4 3 2* 1*");
    one.pushes("4 3 2* 1*");
    one.hears("4 3 2* 1*", Some(false));
    assert!(!one.distrusted());
}

#[test]
fn a_history_that_was_missed_between_two_costs_what_is_held() {
    for next in ["3 2* 1*", "3 1*"] {
        let mut one = Watched::trusting();
        one.probe_shows("2 1*");
        assert_eq!(one.asks(), Request::PushHighWater(identity("2 1*")));
        one.answer(Response::PushHighWater(Err(away())));
        one.pass(2 * SETTLE_MS);
        one.probe_shows(next);
        assert!(one.distrusted(), "others may have claimed under life 2");
    }
    // The store may have lost the claims under life 2.
    let mut one = Watched::trusting();
    one.pass(2 * SETTLE_MS);
    one.probe_shows("3 2 1*");
    assert!(one.distrusted());
    // The same applies while a question is pending.
    let mut one = Watched::trusting();
    if let Step::Wait(Some(until)) = one.look() {
        one.now = until;
    }
    assert_eq!(one.asks(), Request::Identity);
    one.pass(2 * SETTLE_MS);
    one.answer(Response::Identity(Ok(identity("3 2 1*"))));
    assert!(one.distrusted());
    // Life 2 ended before any host could claim under it.
    let mut one = Watched::trusting();
    one.probe_shows("3 2 1*");
    assert!(!one.distrusted());
    // Others claimed under life 2, but the store had this host's report by then.
    let mut one = Watched::trusting();
    one.probe_shows("2 1*");
    one.pushes("2 1*");
    one.hears("2 1*", Some(false));
    one.probe_shows("3 2* 1*");
    assert!(!one.distrusted());
    // Life 1 lost commits while claims continued.
    let mut one = Watched::trusting();
    one.probe_shows("2 1!");
    assert!(one.distrusted());
}

#[test]
fn an_old_primary_that_answers_while_the_store_settles_changes_nothing() {
    let mut one = Watched::trusting();
    one.probe_shows("2 1*");
    one.pushes("2 1*");
    one.hears("2 1*", Some(false));
    one.probe_shows("1");
    one.look();
    assert!(one.monitor.claimable().is_none() && one.monitor.away.is_some());
    one.probe_shows("2 1*");
    one.hears("2 1*", Some(true));
    one.goes_on("2 1*");
}

/// The host that records the new life has not missed any, however long the fail-over takes.
#[test]
fn a_long_doubt_costs_nothing_if_no_host_has_claimed_since() {
    let mut one = Watched::trusting();
    one.pass(2 * SETTLE_MS);
    one.probe_shows("in doubt: 1");
    assert_eq!(one.asks(), Request::Renew(identity("in doubt: 1"), Some(history("1"))));
    one.answer(Response::Renew(Ok(true)));
    one.probe_shows("2 1*");
    one.pushes("2 1*");
    one.hears("2 1*", Some(false));
    assert!(!one.distrusted() && one.monitor.own_until().is_none());
}

/// A server that lost life 3 is first in doubt, and then looks as in life 2.
#[test]
fn doubt_while_the_store_settles_forgets_no_history() {
    let mut one = Watched::trusting();
    one.probe_shows("3 2 1*");
    one.pushes("3 2 1*");
    one.hears("3 2 1*", Some(false));
    one.probe_shows("in doubt: 2 1*");
    assert_eq!(one.asks(), Request::Renew(identity("in doubt: 2 1*"), Some(history("1"))));
    one.answer(Response::Renew(Err(away())));
    one.probe_shows("2 1*");
    one.look();
    assert!(one.monitor.claimable().is_none() && one.monitor.away.is_some(), "it has seen 2 end");
    one.probe_shows("3 2 1*");
    one.pushes("3 2 1*");
    one.hears("3 2 1*", Some(true));
    one.goes_on("3 2 1*");
    assert_eq!(one.monitor.failovers, 1);
}

/// The store is refused for its role while it settles. The history that had ended before must stay ended.
#[test]
fn a_refusal_while_the_store_settles_forgets_no_history() {
    let mut one = Watched::trusting();
    one.probe_shows("2 1*");
    one.pushes("2 1*");
    one.hears("2 1*", Some(false));
    one.look();
    if let Step::Wait(Some(until)) = one.look() {
        one.now = until;
    }
    assert_eq!(one.asks(), Request::Identity);
    let elsewhere = Identity { role: Role("another".into()), ..identity("2 1*") };
    one.answer(Response::Identity(Ok(elsewhere)));
    assert!(matches!(one.monitor.condition(), Some(Condition::Refused(_))));
    one.probe_shows("1");
    assert_eq!(one.monitor.claimable(), None, "it is an old primary");
    one.probe_shows("2 1*");
    one.hears("2 1*", Some(false));
    assert!(!one.distrusted() && one.monitor.own_until().is_none(), "it was told in time");
    one.now.0 += 2 * SETTLE_MS;
    one.probe_shows("2 1*");
    one.hears("2 1*", Some(false));
    one.goes_on("2 1*");
}

#[test]
fn a_loss_without_another_history_is_declared_once() {
    let mut one = Watched::trusting();
    assert!(!one.monitor.lost_commits(&identity("0")), "that is not the store in use");
    assert!(one.monitor.lost_commits(&identity("1")));
    assert!(!one.monitor.lost_commits(&identity("1")));
    assert!(!one.monitor.counts(&identity("1")), "a claim under way may repeat one that is lost");
    assert_eq!(one.monitor.claimable(), None);
    assert!(matches!(one.monitor.complete(), Err(Condition::LostCommits)));
    assert!(matches!(one.monitor.condition(), Some(Condition::LostCommits)));
    assert_eq!(one.asks(), Request::Renew(identity("1"), Some(history("1"))));
    assert!(one.events.contains(&Event::Distrusted));
    one.answer(Response::Renew(Err(away())));
    let Step::Wait(Some(until)) = one.look() else { panic!("a pause") };
    one.now = until;
    assert_eq!(one.asks(), Request::Renew(identity("1"), Some(history("1"))));
    one.events.clear();
    // With Leaf's table only, other hosts can't be notified, so this host's own marks are all there is.
    one.answer(Response::Renew(Ok(false)));
    one.pushes("1");
    one.look();
    assert_eq!(one.events, [Event::Settled(3), Event::Resumed, Event::Back, Event::Resumed]);
    assert_eq!(one.monitor.claimable(), Some(&identity("1")));
}

#[test]
fn a_loss_ends_with_the_life_that_begins_because_of_it() {
    let mut one = Watched::trusting();
    assert!(one.monitor.lost_commits(&identity("1")));
    assert_eq!(one.asks(), Request::Renew(identity("1"), Some(history("1"))));
    one.answer(Response::Renew(Ok(true)));
    one.probe_shows("2 1!");
    // Another host may be faster to begin a new life.
    let mut one = Watched::trusting();
    one.pass(PROBE_MS);
    assert_eq!(one.asks(), Request::Identity);
    assert!(one.monitor.lost_commits(&identity("1")));
    one.answer(Response::Identity(Ok(identity("2 1*"))));
    one.pushes("2 1*");
    one.hears("2 1*", Some(true));
    one.goes_on("2 1*");
}

#[test]
fn a_restart_over_a_fail_over_issues_nothing_before_it_knows() {
    let remembered = Some((StoreId("postgres:1".into()), history("1")));
    let mut one = Watched::new(Settings { remembered, ..settings() });
    assert!(one.may_issue(), "nobody has said anything yet");
    assert_eq!(one.asks(), Request::Identity);
    one.answer(Response::Identity(Ok(identity("2 1*"))));
    assert!(!one.may_issue(), "it is another history already");
    let remembered = Some((StoreId("postgres:1".into()), history("1")));
    let mut one = Watched::new(Settings { remembered: remembered.clone(), ..settings() });
    assert_eq!(one.asks(), Request::Identity);
    one.answer(Response::Identity(Ok(identity("1"))));
    assert!(one.may_issue(), "nothing has changed");
    let mut one = Watched::new(Settings { remembered, ..settings() });
    one.meet("2 1*", Some("1"));
    assert!(!one.may_issue());
    one.pushes("2 1*");
    one.hears("2 1*", Some(false));
    assert!(one.may_issue());
    one.probe_shows("2 1*");
    one.hears("2 1*", Some(false));
}

#[test]
fn an_embedded_store_has_no_others_to_wait_for() {
    let mut one = Watched::new(Settings { embedded: true, settle_ms: 0, ..settings() });
    one.meet("3 2* 1*", Some("1"));
    assert!(one.may_issue());
    one.pushes("3 2* 1*");
    one.hears("3 2* 1*", None);
    one.goes_on("3 2* 1*");
    assert!(one.monitor.lost_commits(&identity("3 2* 1*")));
    one.look();
    assert!(!one.events.contains(&Event::Distrusted));
    one.is_stopped(3_600_000);
    assert!(one.may_issue() && !one.monitor.runs(one.now));
}

#[test]
fn a_daemon_that_was_stopped_asks_before_it_issues() {
    let mut one = Watched::trusting();
    one.is_stopped(SETTLE_MS - 1);
    assert!(one.may_issue(), "the others would have waited for it");
    one.runs();
    one.is_stopped(SETTLE_MS);
    // The check must fail before anything else in the daemon has run.
    assert!(!one.may_issue());
    assert!(one.monitor.runs(one.now));
    assert!(!one.may_issue());
    one.events.clear();
    one.probe_shows("1");
    assert!(one.may_issue());
    one.look();
    assert_eq!(one.events, [Event::Resumed], "what waits goes on");
}

#[test]
fn an_answer_to_an_earlier_question_is_none() {
    let mut one = Watched::trusting();
    one.pass(SETTLE_MS);
    assert_eq!(one.asks(), Request::Identity);
    one.is_stopped(SETTLE_MS);
    assert!(one.monitor.runs(one.now));
    one.answer(Response::Identity(Ok(identity("1"))));
    assert!(!one.may_issue());
    assert_eq!(one.asks(), Request::Identity);
    one.answer(Response::Identity(Ok(identity("1"))));
    assert!(one.may_issue());
}

#[test]
fn a_daemon_that_was_stopped_goes_on_when_the_store_does_not_answer() {
    let mut one = Watched::trusting();
    one.is_stopped(SETTLE_MS);
    assert!(one.monitor.runs(one.now));
    assert_eq!(one.asks(), Request::Identity);
    one.answer(Response::Identity(Err(away())));
    assert!(one.may_issue(), "it is an outage");
}

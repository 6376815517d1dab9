//! The first meeting, and a store that turns out not to be the expected one.

use super::*;
use crate::store::Why;

#[test]
fn a_store_is_claimed_from_once_this_start_is_entered_on_both_sides() {
    let mut one = Watched::new(settings());
    assert!(!one.monitor.tried());
    one.meet("1", None);
    assert!(one.monitor.tried());
    let mut failed = Watched::new(settings());
    failed.asks();
    failed.answer(Response::Identity(Err(away())));
    assert!(failed.monitor.tried());
    let id = StoreId("postgres:1".into());
    assert_eq!(one.events, [Event::CheckedIn(id), Event::Resumed]);
    assert!(one.monitor.condition().is_none());
}

#[test]
fn another_place_is_refused_and_taken_back_when_it_is_right_again() {
    let mut one = Watched::trusting();
    let moved = Identity { role: Role("primary 0 of 2 era 1".into()), ..identity("1") };
    one.probe_shows("1");
    one.pass(PROBE_MS);
    assert_eq!(one.asks(), Request::Identity);
    one.answer(Response::Identity(Ok(moved.clone())));
    assert!(one.monitor.refusal().is_some() && one.monitor.claimable().is_none());
    one.look();
    let stranger = Identity { id: StoreId("postgres:9".into()), ..identity("1") };
    for (found, told) in [(moved, 1), (stranger, 2)] {
        assert!(matches!(one.events.last(), Some(Event::Refused(_))));
        one.pass(PROBE_MS);
        assert_eq!(one.asks(), Request::Identity);
        one.answer(Response::Identity(Ok(found)));
        one.look();
        assert_eq!(one.events.len(), told, "each reason is told once");
    }
    assert!(matches!(one.monitor.admin_refusal(), Some(Condition::Refused(_))));
    one.events.clear();
    one.probe_shows("1");
    one.look();
    assert!(one.monitor.admin_refusal().is_none());
    assert_eq!(one.monitor.claimable(), Some(&identity("1")));
    // Waiting tags are looked up now.
    assert!(one.events.contains(&Event::Resumed));
}

#[test]
fn a_store_in_another_role_is_asked_about_what_is_held_of_it() {
    let moved = Identity { role: Role("primary 0 of 2 era 1".into()), ..identity("1") };
    let stranger = Identity { id: StoreId("postgres:9".into()), ..moved.clone() };
    let set_back = Identity { history: history("0"), ..moved.clone() };
    // The store changes while it is in use.
    let mut one = Watched::trusting();
    for (found, is_asked) in [(&moved, true), (&stranger, false), (&set_back, false)] {
        one.pass(PROBE_MS);
        assert_eq!(one.asks(), Request::Identity);
        one.answer(Response::Identity(Ok(found.clone())));
        one.look();
        assert!(one.monitor.refusal().is_some() && one.monitor.claimable().is_none());
        assert_eq!(one.monitor.present(), Some(found).filter(|_| is_asked));
        assert_eq!(one.monitor.history(), Some(&history("1")));
    }
    // The store has changed before the start, according to the journal's entry.
    for (found, is_asked) in [(moved, true), (set_back, false), (stranger, false)] {
        let remembered = Some((identity("1").id, identity("1").history));
        let mut one = Watched::new(Settings { remembered, ..settings() });
        assert_eq!(one.asks(), Request::Identity);
        one.answer(Response::Identity(Ok(found.clone())));
        one.look();
        assert!(one.monitor.refusal().is_some() && one.monitor.claimable().is_none());
        assert_eq!(one.monitor.present(), Some(&found).filter(|_| is_asked));
        assert_eq!(one.monitor.history(), Some(&found.history).filter(|_| is_asked));
        assert_eq!(one.monitor.known_history(), Some(&history("1")));
    }
}

#[test]
fn a_store_without_a_place_that_has_tags_is_refused_until_the_place_is_recorded() {
    let role = Role("primary 0 of 2 era 1".into());
    let mut one = Watched::new(Settings { role: role.clone(), ..settings() });
    assert_eq!(one.asks(), Request::Identity);
    one.answer(Response::Identity(Ok(identity("1"))));
    assert_eq!(one.asks(), Request::HasTags);
    one.answer(Response::HasTags(Ok(true)));
    assert!(one.monitor.refusal().unwrap().to_string().contains("routes apply"));
    assert!(matches!(one.step(), Step::Wait(Some(_))));
    one.pass(PROBE_MS);
    assert_eq!(one.asks(), Request::Identity);
    let placed = Identity { role, ..identity("1") };
    one.answer(Response::Identity(Ok(placed.clone())));
    assert_eq!(one.asks(), Request::CheckIn(placed));
}

#[test]
fn a_store_without_tags_is_given_its_place() {
    let role = Role("primary 0 of 2 era 1".into());
    let mut one = Watched::new(Settings { role: role.clone(), ..settings() });
    for taken in [Err(away()), Err(StoreError::refused("no privileges")), Ok(())] {
        one.pass(PROBE_MS);
        assert_eq!(one.asks(), Request::Identity);
        one.answer(Response::Identity(Ok(identity("1"))));
        assert_eq!(one.asks(), Request::HasTags);
        one.answer(Response::HasTags(Ok(false)));
        assert_eq!(one.asks(), Request::TakeRole(identity("1"), role.clone()));
        one.answer(Response::TakeRole(taken.clone()));
        if taken.is_err() {
            one.look();
            assert!(matches!(
                (taken, one.monitor.condition()),
                (Err(StoreError::Unavailable { .. }), Some(Condition::Away(_)))
                    | (Err(StoreError::Refused(_)), Some(Condition::Refused(_)))
            ));
        }
    }
    assert_eq!(one.asks(), Request::CheckIn(Identity { role, ..identity("1") }));
}

#[test]
fn another_database_is_refused_and_what_is_held_is_set_aside() {
    let remembered = Some((StoreId("postgres:0".into()), history("2 1*")));
    let own_file = Some((StoreId("postgres:0".into()), history("1")));
    let mut own = Watched::new(Settings { embedded: true, remembered: own_file, ..settings() });
    own.meet("1", None);
    assert_eq!(own.monitor.claimable(), Some(&identity("1")), "a lost file of this host alone");
    let mut one = Watched::new(Settings { remembered, ..settings() });
    assert_eq!(one.asks(), Request::Identity);
    one.answer(Response::Identity(Ok(identity("1"))));
    one.look();
    assert!(one.events.contains(&Event::SetAside));
    assert!(one.monitor.refusal().unwrap().to_string().contains("adopt-store"));
    assert_eq!(one.monitor.condition().unwrap().why(), Why::AnotherDatabase);
    let stranger = identity("1").into();
    assert!(matches!(one.monitor.verify(one.now, &stranger), Err(StoreError::Refused(_))));
}

#[test]
fn a_store_that_is_away_is_tried_again_soon_and_told_of_once() {
    let mut one = Watched::trusting();
    let since = one.now;
    one.monitor.call_failed(one.now, &away());
    assert!(one.monitor.away.is_some());
    let mut pauses = Vec::new();
    for _ in 0..5 {
        assert_eq!(one.asks(), Request::Identity);
        one.answer(Response::Identity(Err(away())));
        let Step::Wait(Some(until)) = one.look() else { panic!("a pause") };
        pauses.push(until.0 - one.now.0);
        one.now = until;
    }
    assert!(pauses.is_sorted() && pauses[0] < pauses[4] && pauses[4] <= 1_000, "{pauses:?}");
    assert_eq!(one.events, [Event::Away(away())]);
    assert_eq!(one.monitor.away.as_ref().unwrap().since, since);
    one.probe_shows("1");
    one.look();
    assert_eq!(one.events[1..], [Event::Back, Event::Resumed]);
    assert_eq!(one.monitor.answered_at, Some(one.now));
    one.pass(PROBE_MS);
    assert_eq!(one.asks(), Request::Identity);
    one.answer(Response::Identity(Err(away())));
    assert_eq!(one.look(), Step::Wait(Some(BootMs(one.now.0 + pauses[0]))), "it begins again");
    assert_eq!(one.monitor.condition().unwrap().why(), away().why());
}

#[test]
fn probes_of_many_daemons_spread_over_half_of_the_time_between_them() {
    for (random, pause_ms) in [(0, 1_250), (1_250, 2_500), (1_251, 1_250)] {
        let mut one = Watched::trusting();
        one.pass(PROBE_MS);
        assert_eq!(one.asks(), Request::Identity);
        one.monitor.answered(one.now, Response::Identity(Ok(identity("1"))), random);
        assert_eq!(one.look(), Step::Wait(Some(BootMs(one.now.0 + pause_ms))));
    }
}

#[test]
fn many_daemons_that_start_at_once_take_turns() {
    for (took_ms, random) in [(300, 700), (1_000, 2_700)] {
        takes_its_turn(took_ms, random);
    }
}

fn takes_its_turn(took_ms: u64, random: u64) {
    let mut one = Watched::new(settings());
    assert_eq!(one.asks(), Request::Identity);
    one.answer(Response::Identity(Ok(identity("1"))));
    one.asks();
    one.answer(Response::CheckIn(Ok(None)));
    one.step();
    one.answer(Response::Record(Ok(())));
    one.asks();
    one.pass(took_ms);
    one.monitor.answered(one.now, Response::IsSettled(Ok(Some(true))), random);
    let Step::Wait(Some(until)) = one.look() else { panic!("its turn") };
    let words = one.monitor.condition().unwrap().describe("it");
    assert!(words.ends_with("delayed by up to 2 s to spread start-up load"), "{words}");
    assert_eq!((until.0 - one.now.0, one.monitor.claimable()), (700, None));
    one.now = until;
    one.events.clear();
    one.look();
    assert_eq!(one.events, [Event::Resumed]);
    assert!(one.monitor.claimable().is_some());
}

#[test]
fn a_store_that_leaves_a_call_without_an_answer_is_away_until_it_answers() {
    let mut one = Watched::trusting();
    let under = identity("1");
    one.pass(PROBE_MS);
    assert_eq!(one.asks(), Request::Identity);
    one.pass(ANSWER_MS - 1);
    assert!(!one.monitor.under_way(one.now, ANSWER_MS - 1));
    assert_eq!(one.monitor.claimable(), Some(&under));
    one.pass(1);
    assert!(one.monitor.under_way(one.now, ANSWER_MS));
    assert!(!one.monitor.under_way(one.now, ANSWER_MS + 1), "that is no news");
    let away = one.monitor.away.as_ref().unwrap().clone();
    assert_eq!(away.since, BootMs(one.now.0 - ANSWER_MS));
    assert_eq!(
        away.error.to_string(),
        "the store postgres://db can't be used: it has not answered for more than 5 s"
    );
    assert_eq!(one.monitor.condition().unwrap().describe("it"), away.error.to_string());
    assert!(one.monitor.claimable().is_none() && one.monitor.present().is_none());
    assert!(matches!(one.monitor.condition(), Some(Condition::Away(_))));
    assert!(one.monitor.counts(&under), "what was asked of it may still be granted");
    assert_eq!(one.look(), Step::Wait(None));
    assert_eq!(one.events, [Event::Away(away.error)]);
    one.events.clear();
    one.answer(Response::Identity(Ok(under.clone())));
    one.look();
    assert_eq!(one.events, [Event::Back, Event::Resumed]);
    assert_eq!(one.monitor.claimable(), Some(&under));
}

#[test]
fn a_call_of_another_caller_that_is_not_answered_brings_a_probe() {
    let mut one = Watched::trusting();
    let under = identity("1");
    let Step::Wait(Some(probe_at)) = one.look() else { panic!("nothing is to be done") };
    assert!(one.now < probe_at);
    assert!(one.monitor.under_way(one.now, ANSWER_MS));
    one.seen = None;
    assert_eq!(one.asks(), Request::Identity);
    // A failure says more than silence. The answer to the earlier call proves nothing.
    one.answer(Response::Identity(Err(away())));
    one.look();
    assert!(!one.monitor.counts(&under));
    assert_eq!(one.monitor.away.as_ref().unwrap().error, away());
    assert!(one.monitor.under_way(one.now, ANSWER_MS));
    assert!(!one.monitor.counts(&under));
    one.probe_shows("2 1*");
    assert!(!one.monitor.counts(&under) && !one.monitor.counts(&identity("2 1*")));
}

#[test]
fn a_newcomer_waits_like_every_other_host() {
    let mut one = Watched::new(settings());
    assert_eq!(one.asks(), Request::Identity);
    one.answer(Response::Identity(Ok(identity("2 1*"))));
    one.asks();
    one.answer(Response::CheckIn(Ok(None)));
    one.step();
    one.answer(Response::Record(Ok(())));
    assert_eq!(one.asks(), Request::IsSettled(identity("2 1*")));
    one.answer(Response::IsSettled(Ok(Some(false))));
    one.look();
    assert!(one.monitor.claimable().is_none());
    assert!(matches!(one.monitor.complete(), Err(Condition::Settling)));
    // It claims after the settling time by its own clock, or as soon as another host has claimed.
    one.probe_shows("2 1*");
    assert_eq!(one.asks(), Request::IsSettled(identity("2 1*")));
    one.answer(Response::IsSettled(Ok(Some(true))));
    let settled = Record::History(identity("1").id, history("2 1*"));
    assert_eq!(one.asks(), Request::Record(settled));
    one.answer(Response::Record(Ok(())));
    one.look();
    assert_eq!(one.monitor.claimable(), Some(&identity("2 1*")));
}

#[test]
fn an_old_primary_is_refused_by_name_also_after_a_restart() {
    let remembered = Some((identity("1").id, history("2 1*")));
    let mut one = Watched::new(Settings { remembered, ..settings() });
    assert_eq!(one.asks(), Request::Identity);
    one.answer(Response::Identity(Ok(identity("1"))));
    one.look();
    let words = one.monitor.refusal().unwrap().to_string();
    assert!(words.contains("an old primary") && words.contains("declare-loss"), "{words}");
    // The current primary answers, so everything works.
    one.pass(PROBE_MS);
    one.meet("2 1*", Some("2 1*"));
    assert_eq!(one.monitor.claimable(), Some(&identity("2 1*")));
    one.probe_shows("1");
    one.look();
    assert!(one.monitor.refusal().is_some() && one.may_issue());
    one.probe_shows("2 1*");
    one.look();
    assert_eq!(one.monitor.claimable(), Some(&identity("2 1*")));
}

/// Both servers take writes. The daemon reaches one of them just long enough to see that the other one is old.
#[test]
fn an_old_primary_is_refused_although_the_first_contact_with_the_new_one_failed() {
    let remembered = Some((identity("1").id, history("1")));
    let mut one = Watched::new(Settings { remembered, ..settings() });
    assert_eq!(one.asks(), Request::Identity);
    one.answer(Response::Identity(Ok(identity("2 1*"))));
    assert_eq!(one.asks(), Request::CheckIn(identity("2 1*")));
    one.answer(Response::CheckIn(Err(away())));
    // Another database doesn't make it forget what it has met here.
    let stranger = Identity { id: StoreId("postgres:9".into()), ..identity("7") };
    let is_refused = |one: &mut Watched, found, why| {
        one.pass(PROBE_MS);
        assert_eq!(one.asks(), Request::Identity);
        one.answer(Response::Identity(Ok(found)));
        one.look();
        assert!(one.monitor.refusal().unwrap().to_string().contains(why));
    };
    is_refused(&mut one, identity("1"), "an old primary");
    is_refused(&mut one, stranger, "is not the database");
    is_refused(&mut one, identity("1"), "an old primary");
    // Nor does the old one, if its engine says meanwhile that it is another.
    one.pass(PROBE_MS);
    assert_eq!(one.asks(), Request::Identity);
    one.answer(Response::Identity(Ok(identity("in doubt: 1"))));
    assert_eq!(one.asks(), Request::Renew(identity("in doubt: 1"), Some(history("1"))));
    one.answer(Response::Renew(Err(away())));
    is_refused(&mut one, identity("1"), "an old primary");
    one.pass(PROBE_MS);
    one.meet("2 1*", Some("1"));
    assert_eq!(one.asks(), Request::PushHighWater(identity("2 1*")));
}

#[test]
fn a_store_that_lacks_what_the_journal_knows_begins_a_new_life() {
    for found in ["3 1*", "in doubt: 1"] {
        let remembered = Some((identity("1").id, history("2 1*")));
        let mut one = Watched::new(Settings { remembered, ..settings() });
        assert_eq!(one.asks(), Request::Identity);
        one.answer(Response::Identity(Ok(identity(found))));
        assert_eq!(one.asks(), Request::Renew(identity(found), Some(history("2 1*"))));
        assert!(!one.may_issue());
        one.answer(Response::Renew(Ok(true)));
        one.meet("4 3! 2* 1*", Some("2 1*"));
        assert_eq!(one.asks(), Request::PushHighWater(identity("4 3! 2* 1*")));
    }
}

#[test]
fn a_start_that_the_store_has_lost_begins_a_new_life() {
    let remembered = Some((identity("1").id, history("1")));
    let mut one = Watched::new(Settings { remembered, ..settings() });
    assert_eq!(one.asks(), Request::Identity);
    one.answer(Response::Identity(Ok(identity("1"))));
    assert_eq!(one.asks(), Request::CheckIn(identity("1")));
    let (expected, found, store) = (identity("1"), identity("2 1!"), String::new());
    one.answer(Response::CheckIn(Err(StoreError::Changed { store, expected, found })));
    one.meet("2 1!", Some("1"));
    assert_eq!(one.asks(), Request::PushHighWater(identity("2 1!")));
    assert!(one.events.contains(&Event::Distrusted));
}

/// It failed over, other hosts settled and claimed there, and its routes were changed, all unseen by this host.
#[test]
fn a_store_in_another_role_shows_whether_others_may_have_claimed_what_is_held() {
    let role = Role("primary 0 of 2 era 1".into());
    for (found, may_issue) in
        [("2 1*", true), ("3 2* 1*", false), ("in doubt: 2 1*", false), ("1", true)]
    {
        let mut running = Watched::new(settings());
        running.meet("2 1*", None);
        running.pass(PROBE_MS);
        let remembered = Some((identity("1").id, history("2 1*")));
        let started = Watched::new(Settings { remembered, ..settings() });
        for mut one in [running, started] {
            assert_eq!(one.asks(), Request::Identity);
            let moved = Identity { role: role.clone(), ..identity(found) };
            one.answer(Response::Identity(Ok(moved)));
            one.look();
            assert!(one.monitor.refusal().is_some());
            assert_eq!(one.may_issue(), may_issue, "{found}");
            if found.starts_with("in doubt") && one.monitor.trusted.is_some() {
                one.probe_shows("2 1*");
                assert!(one.may_issue(), "it has lost nothing");
            }
        }
    }
}

#[test]
fn a_fail_over_is_not_forgotten_when_another_database_answers() {
    let mut one = Watched::trusting();
    one.probe_shows("2 1*");
    assert_eq!(one.asks(), Request::PushHighWater(identity("2 1*")));
    one.answer(Response::PushHighWater(Err(away())));
    one.pass(SETTLE_MS);
    assert_eq!(one.asks(), Request::Identity);
    let stranger = Identity { id: StoreId("postgres:9".into()), ..identity("1") };
    one.answer(Response::Identity(Ok(stranger)));
    one.look();
    assert!(one.monitor.refusal().is_some());
    assert!(!one.may_issue(), "others may have settled and claimed");
}

/// With Leaf's table only, a store can't begin a new life.
#[test]
fn a_meeting_goes_on_in_a_store_without_lives() {
    let remembered = Some((identity("1").id, history("1")));
    let mut one = Watched::new(Settings { remembered, ..settings() });
    assert_eq!(one.asks(), Request::Identity);
    one.answer(Response::Identity(Ok(identity("2"))));
    assert_eq!(one.asks(), Request::Renew(identity("2"), Some(history("1"))));
    one.answer(Response::Renew(Ok(false)));
    assert_eq!(one.asks(), Request::CheckIn(identity("2")));
}

#[test]
fn the_registry_must_be_in_the_store_that_is_claimed_from() {
    let remembered = Some((identity("1").id, history("1")));
    let mut one = Watched::new(Settings { remembered, ..settings() });
    let verify = |one: &mut Watched, lives| one.monitor.verify(one.now, &identity(lives).into());
    assert!(verify(&mut one, "1").is_ok(), "the journal knows it");
    assert!(verify(&mut one, "2 1*").is_err());
    one.meet("1", Some("1"));
    assert!(verify(&mut one, "1").is_ok());
    assert!(matches!(verify(&mut one, "2 1*"), Err(StoreError::Unavailable { .. })));
    let now = one.now;
    one.probe_shows("in doubt: 1");
    assert_eq!(one.now, now, "it is asked at once");
    assert!(verify(&mut one, "in doubt: 1").is_err());
}

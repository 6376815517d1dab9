//! Single calls that fail: the registry refuses or does not answer, the journal can't record.

use super::*;
use crate::store::{Reason, Why};

/// A registry that does not answer a write.
pub(super) fn unavailable() -> Response {
    let error = RegistryError::Unavailable { registry: "here".into(), cause: "away".into() };
    Response::CompareAndSet(Err(error))
}

pub(super) fn full_journal(_: &mut World, ask: &Request) -> Option<Response> {
    matches!(ask, Request::Record(_)).then(|| Response::Record(Err("the disk is full".to_owned())))
}

/// Checks that the step waits for the first retry after a failure.
pub(super) fn is_soon(host: &Host, world: &World, step: &Step) {
    let Step::Wait(Some(at)) = step else { panic!("{step:?}") };
    let wait_ms = at.0 - host.now(world).boot.0;
    assert!((25..50).contains(&wait_ms), "{wait_ms}");
}

fn is_full(problem: Option<&LeaseProblem>) -> bool {
    problem.is_some_and(|problem| problem.to_string() == "the disk is full")
}

#[test]
fn a_claim_that_the_journal_refuses_is_recorded_later_and_no_other_is_made() {
    let mut world = World::new();
    let mut host = world.host("a", 0..4);
    host.lease.want();
    for _ in 0..5 {
        let step = host.settle_with(&mut world, full_journal);
        assert_eq!(step, host.wait(&world, 2_000));
        assert!(is_full(host.worker(&world).as_ref().err()), "{:?}", host.lease);
        assert_eq!(world.entries.len(), 1, "one claim, however often the journal refuses it");
        world.time_ms += 2_000;
    }
    host.settle(&mut world);
    host.draw(&mut world).unwrap();
}

#[test]
fn a_journal_that_cannot_forget_a_lost_worker_is_reported() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..2);
    let worker = host.worker(&world).unwrap();
    let taken = LeaseRecord { holder: None, ..world.entries[&worker].holding.clone() };
    world.enter(WorkerId(worker), taken, UnixMs(0));
    world.time_ms += 4_000;
    let step = host.settle_with(&mut world, full_journal);
    assert_eq!(step, host.wait(&world, 2_000));
    assert!(is_full(host.worker(&world).as_ref().err()), "{:?}", host.lease);
    assert!(host.lease.released().is_none(), "nothing was released");
}

#[test]
fn a_record_of_another_place_holder_or_pool_is_forgotten() {
    let mut world = World::new();
    let host = drawing(&mut world, "a", 0..1);
    for change in [
        |recorded: &mut Recorded| recorded.place = "there".into(),
        |recorded: &mut Recorded| recorded.worker = WorkerId(1),
        |recorded: &mut Recorded| recorded.holding.holder.as_mut().unwrap().id = "b".into(),
    ] {
        let mut journal = host.journal.clone().unwrap();
        change(&mut journal);
        let settings = host.settings.clone();
        let mut host = Host::start(&mut world, settings, Some(journal), UnixMs(0), 0);
        assert_eq!(host.lease.held(), None);
        host.settle(&mut world);
        assert_eq!(host.journal, None);
    }
}

#[test]
fn a_host_waits_for_the_next_renewal_and_no_longer() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..1);
    let step = host.settle(&mut world);
    assert_eq!(step, host.wait(&world, host.settings.renew_every_ms()));
}

#[test]
fn a_registry_that_refuses_a_restart_keeps_the_worker_unused() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..1).restart(&mut world);
    let refuse = |_: &mut World, ask: &Request| {
        let reason = Reason::new(Why::RegistryClock, "no privileges");
        matches!(ask, Request::Snapshot(_))
            .then(|| Response::Snapshot(Err(RegistryError::Refused(reason))))
    };
    // The host reads again after 2 s. The second that it gives the registry to answer ends before that.
    assert_eq!(host.settle_with(&mut world, refuse), host.wait(&world, 1_000));
    let Err(problem) = host.worker(&world) else { panic!("{:?}", host.lease) };
    assert_eq!(
        (problem.to_string().as_str(), problem.why()),
        ("no privileges", Why::RegistryClock)
    );
    world.time_ms += 1_500;
    assert_eq!(host.settle_with(&mut world, refuse), host.wait(&world, 500));
    assert_eq!(host.draw(&mut world), Err(Refusal::NoWorker));
}

#[test]
fn a_refused_renewal_is_tried_again_before_others_may_lease_after_a_fail_over() {
    let mut world = World::new();
    let settings = LeaseSettings { settle_ms: Some(2_000), ..world.settings("a", 0..1) };
    let renew_every_ms = settings.renew_every_ms();
    let mut host = Host::start(&mut world, settings, None, UnixMs(0), 0);
    host.lease.want();
    host.settle(&mut world);
    host.draw(&mut world).unwrap();
    world.time_ms += renew_every_ms;
    // The store fails over right after a former primary has answered.
    let step = host.settle_with(&mut world, |_, ask| {
        let refused = || Err(RegistryError::Refused("an old primary".into()));
        matches!(ask, Request::CompareAndSet(..)).then(|| Response::CompareAndSet(refused()))
    });
    assert_eq!(step, host.wait(&world, renew_every_ms));
}

#[test]
fn a_renewal_too_far_ahead_of_the_registry_shows_that_the_clocks_differ() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..1);
    world.offset_ms = -3_600_000;
    host.pass(&mut world, 4);
    let Some(LeaseProblem::Clock(skew)) = host.lease.trouble else { panic!("{:?}", host.lease) };
    assert!(skew.ahead && skew.by_ms >= 3_600_000, "{skew}");
    host.draw(&mut world).unwrap();
}

#[test]
fn hosts_that_choose_the_same_worker_try_again_at_different_instants() {
    let mut world = World::new();
    let mut host = world.host("a", 0..64);
    host.lease.want();
    let step = host.settle_with(&mut world, |world, ask| {
        if let Request::CompareAndSet(_, swap) = ask {
            let mut faster = swap.next.clone();
            faster.holder.as_mut().unwrap().id = "b".into();
            world.enter(swap.worker, faster, swap.seen);
        }
        None
    });
    is_soon(&host, &world, &step);
    host.pass(&mut world, 1);
    host.draw(&mut world).unwrap();
}

#[test]
fn a_renewal_that_the_registry_lost_is_written_again_without_a_pause() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..1);
    let old = world.entries.clone();
    host.pass(&mut world, 4);
    world.entries = old;
    world.time_ms += 4_000;
    host.settle(&mut world);
    assert_eq!(world.entries[&0].holding.expires.0, world.time_ms + LEASE_MS);
}

#[test]
fn a_registry_that_keeps_changing_is_asked_again_once_at_once_and_then_more_slowly() {
    let mut world = World::new();
    let mut host = world.host("a", 0..1);
    host.lease.want();
    let mut writes = 0;
    let step = host.settle_with(&mut world, |world, ask| {
        let Request::CompareAndSet(expected, _) = ask else { return None };
        writes += 1;
        let (expected, found) = (expected.clone(), world.registry.clone());
        Some(Response::CompareAndSet(Err(RegistryError::Changed { expected, found })))
    });
    let Step::Wait(Some(at)) = step else { panic!("{step:?}") };
    let wait_ms = at.0 - host.now(&world).boot.0;
    assert_eq!((writes, (50..=100).contains(&wait_ms)), (2, true), "{wait_ms}");
    host.pass(&mut world, 1);
    host.draw(&mut world).unwrap();
}

#[test]
fn a_claim_of_unknown_outcome_does_not_count_after_a_fail_over() {
    let mut world = World::new();
    world.deaf = true;
    let mut host = world.host("a", 0..64);
    host.lease.want();
    host.settle(&mut world);
    world.deaf = false;
    world.registry.history = History("2".into());
    world.history_age = Some(Duration::ZERO);
    host.pass(&mut world, 1);
    assert!(matches!(host.worker(&world), Err(LeaseProblem::Settling(_))), "{:?}", host.lease);
}

#[test]
fn a_release_forgets_a_claim_of_unknown_outcome() {
    let mut world = World::new();
    world.deaf = true;
    let mut host = world.host("a", 0..64);
    host.lease.want();
    host.settle(&mut world);
    world.deaf = false;
    host.lease.release(UnixMs(0));
    host.settle(&mut world);
    assert_eq!(host.worker(&world), Err(LeaseProblem::Unused));
    host.pass(&mut world, 61);
    assert_eq!((host.lease.held(), host.journal.as_ref()), (None, None));
}

#[test]
fn a_second_release_has_an_outcome_of_its_own() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..1);
    host.lease.release(host.generator.issued_below());
    host.settle_with(&mut world, full_journal);
    host.lease.release(host.generator.issued_below());
    assert!(host.lease.released().is_none());
    host.settle(&mut world);
    assert!(matches!(host.lease.released(), Some(Ok(()))));
}

#[test]
fn a_stop_between_a_look_and_the_claim_after_it_claims_nothing() {
    let mut world = World::new();
    let mut host = world.host("a", 0..1);
    host.lease.want();
    let now = host.now(&world);
    let Step::Request(ask) = host.lease.next(now, 0) else { panic!("{:?}", host.lease) };
    host.lease.answered(now, world.answer(ask), 0);
    host.stop(&mut world);
    assert!(world.entries.is_empty());
}

#[test]
fn a_write_that_lands_after_the_next_look_is_adopted() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..1);
    host.lease.stop(host.generator.issued_below());
    world.away = true;
    host.settle(&mut world);
    world.away = false;
    let mut host = host.restart(&mut world);
    assert!(host.journal.as_ref().unwrap().earlier.is_some(), "the outcome of the stop is unknown");
    let (mut late, mut writes) = (None, 0);
    for _ in 0..4 {
        host.settle_with(&mut world, |world, ask| {
            if let Request::Record(Some(claim)) = ask {
                assert_eq!(claim.earlier, None, "the outcome is known");
            }
            if !matches!(ask, Request::CompareAndSet(..)) {
                return None;
            }
            writes += 1;
            if writes <= 2 {
                late = Some(ask.clone());
                return Some(unavailable());
            }
            late.take().map(|late| world.answer(late));
            None
        });
        world.time_ms += 100;
    }
    let recorded = host.journal.clone().unwrap();
    assert_eq!((&recorded.holding, recorded.earlier), (&world.entries[&0].holding, None));
    assert_eq!(host.lease.trouble, None);
    host.draw(&mut world).unwrap();
}

#[test]
fn a_look_that_finds_the_claim_ends_the_trouble() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..1);
    // The read after a refused release fails twice.
    host.lease.release(host.generator.issued_below());
    world.away = true;
    host.settle_with(&mut world, full_journal);
    world.time_ms += 100;
    host.settle(&mut world);
    assert!(matches!(host.lease.trouble, Some(LeaseProblem::Away(_))), "{:?}", host.lease);
    world.away = false;
    world.time_ms += 200;
    host.settle(&mut world);
    assert_eq!(host.lease.trouble, None);
    // The count of failures starts over.
    world.away = true;
    world.time_ms += 4_000;
    let step = host.settle(&mut world);
    is_soon(&host, &world, &step);
}

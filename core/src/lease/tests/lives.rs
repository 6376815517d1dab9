//! First use, renewal, stops, crashes and restarts.

use super::*;

#[test]
fn a_host_that_draws_nothing_claims_nothing() {
    let mut world = World::new();
    let mut host = world.host("a", 0..4);
    assert_eq!(host.worker(&world), Err(LeaseProblem::Starting), "it has not looked yet");
    host.settle(&mut world);
    assert_eq!(host.worker(&world), Err(LeaseProblem::Unused));
    host.pass(&mut world, 200);
    assert_eq!(host.worker(&world), Err(LeaseProblem::Unused));
    assert!(world.entries.is_empty() && !host.lease.is_used());
    host.lease.want();
    host.settle(&mut world);
    host.draw(&mut world).unwrap();
    assert_eq!(world.entries.len(), 1);
}

#[test]
fn whether_a_worker_could_be_had_is_known_before_one_is_asked_for() {
    let mut world = World::new();
    let mut one = drawing(&mut world, "one", 0..1);
    let mut other = world.host("other", 0..1);
    other.settle(&mut world);
    assert!(matches!(other.worker(&world), Err(LeaseProblem::Taken(_))), "{:?}", other.lease);
    assert_eq!(other.settle(&mut world), other.wait(&world, 2_000));
    one.stop(&mut world);
    // The first host's lease ends with its grace period. The next read soon detects that.
    world.time_ms += one.settings.restart_grace_ms - 4_000;
    other.settle(&mut world);
    other.pass(&mut world, 12);
    assert_eq!(other.worker(&world), Err(LeaseProblem::Unused));
    world.away = true;
    other.pass(&mut world, 61);
    assert!(matches!(other.worker(&world), Err(LeaseProblem::Away(_))), "{:?}", other.lease);
    // The first request for an id triggers a try immediately, whatever the last read showed. Later requests trigger
    // none.
    world.time_ms += 2_000;
    other.settle(&mut world);
    other.lease.want();
    assert_eq!(other.worker(&world), Err(LeaseProblem::Starting));
    other.settle(&mut world);
    other.lease.want();
    assert!(matches!(other.worker(&world), Err(LeaseProblem::Away(_))), "{:?}", other.lease);
    let mut third = world.host("third", 0..1);
    third.settle(&mut world);
    world.away = false;
    third.lease.want();
    third.settle(&mut world);
    third.draw(&mut world).unwrap();
}

#[test]
fn a_claim_is_usable_only_once_the_journal_has_it() {
    let mut world = World::new();
    let mut host = world.host("a", 0..4);
    host.lease.want();
    loop {
        let now = host.now(&world);
        match host.lease.next(now, 0) {
            Step::Request(Request::Record(Some(claim))) => {
                assert_eq!(host.worker(&world), Err(LeaseProblem::Starting));
                assert_eq!(world.entries[&claim.worker.0].holding, claim.holding);
                host.lease.answered(now, Response::Record(Ok(())), 0);
                break;
            }
            Step::Request(ask) => {
                let answer = world.answer(ask);
                host.lease.answered(now, answer, 0);
            }
            step => panic!("{step:?}"),
        }
    }
    assert!(host.worker(&world).is_ok());
}

#[test]
fn a_claim_is_renewed_ahead_and_outlives_an_outage_of_the_lease_and_no_more() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..4);
    host.pass(&mut world, 1_000);
    host.draw(&mut world).unwrap();
    world.away = true;
    host.pass(&mut world, 590);
    host.draw(&mut world).unwrap();
    assert!(matches!(host.lease.trouble, Some(LeaseProblem::Away(_))));
    host.pass(&mut world, 20);
    assert_eq!(host.draw(&mut world), Err(Refusal::LeaseEnds));
    world.away = false;
    host.pass(&mut world, 2);
    host.draw(&mut world).unwrap();
}

#[test]
fn a_clean_stop_keeps_the_worker_for_a_minute() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..1);
    let worker = host.worker(&world);
    host.stop(&mut world);
    assert_eq!(host.worker(&world), Err(LeaseProblem::Stopping));
    assert!(host.lease.released().is_none(), "nothing was released");
    let bound = world.entries[&0].holding.expires;
    assert_eq!(bound.0, world.time_ms + 60_000);
    world.time_ms += 5_000;
    let mut host = host.restart(&mut world);
    host.settle(&mut world);
    assert_eq!(host.worker(&world), worker);
    host.draw(&mut world).unwrap();
    host.stop(&mut world);
    world.time_ms += 61_000;
    drawing(&mut world, "b", 0..1);
    let mut host = host.restart(&mut world);
    host.settle(&mut world);
    assert_eq!(host.worker(&world), Err(LeaseProblem::Lost(WorkerId(0))));
}

#[test]
fn a_crash_and_a_restart_give_the_same_worker_from_the_journals_bound() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..4);
    host.pass(&mut world, 30);
    host.draw(&mut world).unwrap();
    let worker = host.worker(&world);
    let mut host = host.restart(&mut world);
    host.settle(&mut world);
    assert_eq!(host.worker(&world), worker);
    host.draw(&mut world).unwrap();
}

#[test]
fn a_restart_without_the_registry_goes_on_up_to_the_recorded_bound() {
    for clean in [true, false] {
        let mut world = World::new();
        let mut host = drawing(&mut world, "a", 0..4);
        if clean {
            host.stop(&mut world);
        }
        world.away = true;
        world.time_ms += 5;
        let mut host = host.restart(&mut world);
        host.settle(&mut world);
        host.draw(&mut world).unwrap();
        host.pass(&mut world, if clean { 62 } else { 602 });
        assert_eq!(host.draw(&mut world), Err(Refusal::LeaseEnds));
    }
}

#[test]
fn a_restart_that_gets_no_answer_at_all_waits_a_second_for_it() {
    let mut world = World::new();
    let host = drawing(&mut world, "a", 0..4);
    let mut host = host.restart(&mut world);
    let now = host.now(&world);
    assert!(matches!(host.lease.next(now, 0), Step::Request(Request::Snapshot(_))));
    assert_eq!(host.worker(&world), Err(LeaseProblem::Starting));
    let Step::Wait(Some(at)) = host.lease.next(now, 0) else { panic!("nothing else to do") };
    assert_eq!(at.0, now.boot.0 + 1_000);
    world.time_ms += 1_000;
    host.worker(&world).unwrap();
}

#[test]
fn a_host_that_lost_its_journal_is_a_new_one() {
    let mut world = World::new();
    let host = drawing(&mut world, "a", 0..8);
    let worker = host.worker(&world).unwrap();
    let other = drawing(&mut world, "b", 0..8);
    assert_ne!(other.worker(&world).unwrap(), worker);
}

#[test]
fn a_worker_that_is_given_back_is_free_at_once() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..1);
    let used_end = host.generator.issued_below();
    host.lease.release(used_end);
    assert_eq!(host.settle(&mut world), Step::Wait(None));
    assert!(matches!(host.lease.released(), Some(Ok(()))));
    assert_eq!((host.journal.as_ref(), host.worker(&world)), (None, Err(LeaseProblem::Unused)));
    assert_eq!((host.lease.held(), host.lease.renewed, &host.lease.trouble), (None, None, &None));
    assert_eq!(world.entries[&0].holding, LeaseRecord { holder: None, expires: used_end });
    world.time_ms += 1;
    drawing(&mut world, "b", 0..1);
}

#[test]
fn a_worker_that_the_registry_does_not_take_back_is_kept() {
    for was_away in [false, true] {
        let mut world = World::new();
        let mut host = drawing(&mut world, "a", 0..1);
        // Failed renewals back off. The release doesn't wait for that.
        world.away = was_away;
        host.pass(&mut world, 4);
        world.away = false;
        host.lease.release(host.generator.issued_below());
        assert_eq!(host.worker(&world), Err(LeaseProblem::GivingBack));
        // The registry may have lost the entry, so this host must write it again.
        world.registry.history = History("2".into());
        host.settle(&mut world);
        assert!(matches!(host.lease.released(), Some(Err(RegistryError::Changed { .. }))));
        assert_eq!(host.worker(&world), Ok(0));
        host.draw(&mut world).unwrap();
        let recorded = host.journal.clone().unwrap();
        assert_eq!(recorded.registry, world.registry);
        assert_eq!(recorded.holding, world.entries[&0].holding);
    }
}

#[test]
fn a_worker_that_is_another_s_is_not_kept_when_it_is_given_back() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..1);
    host.lease.release(host.generator.issued_below());
    let mut other = world.entries[&0].holding.clone();
    other.holder.as_mut().unwrap().id = "b".into();
    world.enter(WorkerId(0), other, UnixMs(START_MS));
    host.settle(&mut world);
    assert!(matches!(host.lease.released(), Some(Err(RegistryError::Conflict { .. }))));
    assert_eq!((host.journal.as_ref(), host.lease.held()), (None, None));
}

#[test]
fn a_worker_that_may_have_been_given_back_is_not_used_again() {
    for carried_out in [false, true] {
        let mut world = World::new();
        let mut host = drawing(&mut world, "a", 0..1);
        host.lease.release(host.generator.issued_below());
        (world.away, world.deaf) = (!carried_out, carried_out);
        host.settle(&mut world);
        assert!(matches!(host.lease.released(), Some(Err(RegistryError::Unavailable { .. }))));
        assert_eq!((host.journal.as_ref(), host.lease.held()), (None, None));
        (world.away, world.deaf) = (false, false);
        world.time_ms += 1;
        let mut other = world.host("b", 0..1);
        other.lease.want();
        other.settle(&mut world);
        assert_eq!(other.worker(&world).is_ok(), carried_out);
        host = host.restart(&mut world);
        host.lease.want();
        host.settle(&mut world);
        assert!(matches!(host.worker(&world), Err(LeaseProblem::Taken(_))), "{:?}", host.lease);
    }
}

#[test]
fn a_full_pool_is_told_with_its_holders_and_taken_from_when_a_claim_runs_out() {
    let mut world = World::new();
    let mut first = drawing(&mut world, "first", 0..4);
    let mut second = drawing(&mut world, "second", 0..4);
    // Its lease ends later than the first one's.
    world.time_ms += 5_000;
    drawing(&mut world, "crashed", 0..4);
    let free = (0..4).find(|worker| !world.entries.contains_key(worker)).unwrap();
    let permanent = LeaseRecord { holder: None, expires: UnixMs(u64::MAX) };
    world.enter(WorkerId(free), permanent, UnixMs(0));
    let mut third = world.host("third", 0..4);
    third.lease.want();
    for _ in 0..15 {
        world.time_ms += 1_000;
        second.settle(&mut world);
    }
    third.settle(&mut world);
    let Err(LeaseProblem::Taken(taken)) = third.worker(&world) else { panic!("{:?}", third.lease) };
    assert_eq!((taken.live, taken.left, taken.permanent), (1, 2, 1));
    let said = taken.to_string();
    let wanted = ["all 4 workers", "first (worker ", "20 s ago", "580 s", "x lease of 600 s"];
    assert!(wanted.iter().all(|wanted| said.contains(wanted)), "{said}");
    for _ in 0..583 {
        world.time_ms += 1_000;
        second.settle(&mut world);
        third.settle(&mut world);
    }
    third.draw(&mut world).unwrap();
    first.settle(&mut world);
    assert_eq!(first.draw(&mut world), Err(Refusal::NoWorker));
}

#[test]
fn a_renewal_under_a_clock_that_fell_behind_does_not_move_the_expiry_back() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..8);
    let worker = host.worker(&world).unwrap();
    let (before, renewed) = (world.entries[&worker].holding.expires, host.lease.renewed);
    host.offset_ms = -4_900;
    host.pass(&mut world, 4);
    assert_ne!(host.lease.renewed, renewed, "it was renewed");
    assert_eq!(world.entries[&worker].holding.expires, before);
}

#[test]
fn renewals_come_well_within_the_lease_and_the_settling_time() {
    for (lease_ms, settle_ms, renewed_ms, alive_ms) in [
        (600_000, None, 10_000, 30_000),
        (1_200_000, None, 10_000, 30_000),
        (300_000, None, 5_000, 15_000),
        (6_000, None, 1_000, 5_000),
        (600_000, Some(12_000), 4_000, 12_000),
        (600_000, Some(1_500), 1_000, 5_000),
    ] {
        let settings = World::new().settings("a", 0..1);
        let settings = LeaseSettings { lease_ms, settle_ms, ..settings };
        assert_eq!((settings.renew_every_ms(), settings.alive_ms()), (renewed_ms, alive_ms));
    }
}

#[test]
fn what_is_held_is_shown() {
    let mut world = World::new();
    let host = drawing(&mut world, "a", 0..1);
    let expires = world.entries[&0].holding.expires;
    assert!(host.lease.is_used() && !host.lease.is_leaving());
    assert_eq!(host.lease.held(), Some((WorkerId(0), expires)));
    assert_eq!(host.lease.registry(), Some(&world.registry));
    assert!(host.restart(&mut world).lease.is_used(), "a restart renews it before any request");
}

#[test]
fn a_release_without_a_worker_succeeds() {
    let mut world = World::new();
    let mut host = world.host("a", 0..1);
    host.lease.release(UnixMs(0));
    assert!(host.lease.is_leaving());
    assert_eq!(host.settle(&mut world), Step::Wait(None));
    assert!(matches!(host.lease.released(), Some(Ok(()))));
    assert!(!host.lease.is_leaving());
}

#[test]
fn a_release_that_the_journal_refuses_changes_nothing() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..1);
    let before = world.entries[&0].clone();
    host.lease.release(host.generator.issued_below());
    let now = host.now(&world);
    assert_eq!(host.lease.next(now, 0), Step::Request(Request::Record(None)));
    host.lease.answered(now, Response::Record(Err("the disk is full".to_owned())), 0);
    assert!(matches!(host.lease.released(), Some(Err(RegistryError::Refused(_)))));
    assert!(!host.lease.is_leaving());
    host.draw(&mut world).unwrap();
    assert_eq!(world.entries[&0], before);
}

#[test]
fn a_worker_whose_release_is_refused_is_used_once_the_journal_has_it_again() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..1);
    host.lease.release(host.generator.issued_below());
    let now = host.now(&world);
    assert_eq!(host.lease.next(now, 0), Step::Request(Request::Record(None)));
    host.lease.answered(now, Response::Record(Ok(())), 0);
    let Step::Request(Request::CompareAndSet(..)) = host.lease.next(now, 0) else { panic!() };
    let refused = Err(RegistryError::Refused("no privileges".to_owned().into()));
    host.lease.answered(now, Response::CompareAndSet(refused), 0);
    assert!(host.worker(&world).is_err());
    let Step::Request(Request::Record(Some(claim))) = host.lease.next(now, 0) else { panic!() };
    assert_eq!(claim.holding, world.entries[&0].holding);
    host.lease.answered(now, Response::Record(Ok(())), 0);
    assert_eq!(host.worker(&world), Ok(0));
}

#[test]
fn a_stop_writes_the_same_to_the_registry_as_to_the_journal() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..1);
    host.lease.stop(host.generator.issued_below());
    let now = host.now(&world);
    let Step::Request(Request::Record(Some(claim))) = host.lease.next(now, 0) else { panic!() };
    assert_eq!(claim.earlier.as_ref(), Some(&world.entries[&0].holding));
    world.time_ms += 700;
    let now = host.now(&world);
    host.lease.answered(now, Response::Record(Ok(())), 0);
    let Step::Request(Request::CompareAndSet(_, swap)) = host.lease.next(now, 0) else { panic!() };
    assert_eq!((Some(swap.next), swap.expected), (Some(claim.holding), claim.earlier));
}

//! Lost answers, writes, workers and registries, and journals that are not what they seem.

use super::*;

#[test]
fn a_claim_whose_answer_was_lost_is_found_again() {
    let mut world = World::new();
    drawing(&mut world, "b", 0..64);
    world.deaf = true;
    let mut host = world.host("a", 0..64);
    host.lease.want();
    host.settle(&mut world);
    assert!(host.worker(&world).is_err());
    host.pass(&mut world, 1);
    assert_eq!(world.entries.len(), 2, "one claim each, however often it was asked for");
    host.draw(&mut world).unwrap();
    world.deaf = false;
    host.pass(&mut world, 10);
    assert_eq!(host.lease.trouble, None);
}

#[test]
fn a_restart_whose_answer_was_lost_keeps_the_worker() {
    let mut world = World::new();
    let host = drawing(&mut world, "a", 0..64);
    let worker = host.worker(&world);
    world.deaf = true;
    let mut host = host.restart(&mut world);
    host.pass(&mut world, 2);
    assert_eq!(host.worker(&world), worker);
    host.draw(&mut world).unwrap();
    world.deaf = false;
    host.pass(&mut world, 5);
    let mut host = host.restart(&mut world);
    host.settle(&mut world);
    assert_eq!(host.worker(&world), worker);
}

#[test]
fn whose_worker_was_taken_stops_at_once_and_goes_on_with_another() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..2);
    let worker = host.worker(&world).unwrap();
    let last = host.last_id;
    // An operator takes the worker away; its expiry stays.
    let taken = LeaseRecord { holder: None, ..world.entries[&worker].holding.clone() };
    world.enter(WorkerId(worker), taken, UnixMs(0));
    host.pass(&mut world, 4);
    assert_eq!(host.worker(&world), Ok(1 - worker));
    assert!(host.draw(&mut world).unwrap() > last);
}

#[test]
fn a_write_that_finds_another_holder_ends_the_use_before_the_next_look() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..2);
    let worker = host.worker(&world).unwrap();
    // Each read shows the former entry, and each write finds the current one.
    let mine = world.entries[&worker].clone();
    let taken = LeaseRecord { holder: None, ..mine.holding.clone() };
    for _ in 0..1_000 {
        world.time_ms += 100;
        let now = host.now(&world);
        let Step::Request(ask) = host.lease.next(now, 0) else { continue };
        let writes = matches!(ask, Request::CompareAndSet(..));
        let entry =
            Entry { holding: if writes { &taken } else { &mine.holding }.clone(), ..mine.clone() };
        world.entries.insert(worker, entry);
        let answer = world.answer(ask);
        host.lease.answered(now, answer, 0);
        if writes {
            assert_eq!(host.worker(&world), Err(LeaseProblem::Lost(WorkerId(worker))));
            return;
        }
    }
    panic!("a lease that is never renewed: {:?}", host.lease);
}

#[test]
fn whoever_slept_past_the_lease_issues_nothing_past_its_bound() {
    let mut world = World::new();
    let mut sleeper = drawing(&mut world, "a", 0..1);
    world.time_ms += LEASE_MS + 1_000;
    let mut heir = drawing(&mut world, "b", 0..1);
    assert_eq!(sleeper.draw(&mut world), Err(Refusal::LeaseEnds));
    sleeper.settle(&mut world);
    assert_eq!(sleeper.draw(&mut world), Err(Refusal::NoWorker));
    heir.draw(&mut world).unwrap();
}

#[test]
fn an_old_journal_is_not_believed() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..8);
    let (old, old_bound) = (host.journal.clone(), host.layout_bound);
    host.pass(&mut world, 60);
    host.draw(&mut world).unwrap();
    let settings = host.settings.clone();
    let mut copy = Host::start(&mut world, settings, old, old_bound, -55_000);
    copy.offset_ms = 0;
    copy.lease.want();
    copy.settle(&mut world);
    assert_ne!(copy.worker(&world).unwrap(), host.worker(&world).unwrap());
    host.settle(&mut world);
    host.draw(&mut world).unwrap();
}

#[test]
fn of_two_lives_of_one_journal_one_goes_on() {
    let mut world = World::new();
    let host = drawing(&mut world, "a", 0..8);
    let (settings, journal) = (host.settings.clone(), host.journal.clone());
    let bound = host.layout_bound;
    let mut first = host.restart(&mut world);
    let mut second = Host::start(&mut world, settings, journal, bound, 0);
    first.settle(&mut world);
    second.lease.want();
    second.settle(&mut world);
    assert_ne!(first.worker(&world).unwrap(), second.worker(&world).unwrap());
}

#[test]
fn a_registry_that_lost_its_last_writes_is_told_again() {
    let mut world = World::new();
    world.history_age = Some(Duration::from_secs(3_600));
    let mut host = drawing(&mut world, "a", 0..8);
    let worker = host.worker(&world).unwrap();
    world.entries.clear();
    world.registry.history = History("2".into());
    world.history_age = Some(Duration::ZERO);
    let mut late = world.host("b", 0..8);
    late.lease.want();
    let step = late.settle(&mut world);
    assert!(matches!(late.worker(&world), Err(LeaseProblem::Settling(10_000))));
    assert_eq!(step, late.wait(&world, 2_000), "meanwhile an operator may solve it");
    host.pass(&mut world, 4);
    assert_eq!(world.entries[&worker].holding.holder.as_ref().unwrap().id, "a".into());
    assert_eq!(host.worker(&world), Ok(worker));
    world.history_age = Some(Duration::from_secs(10));
    late.pass(&mut world, 10);
    assert_ne!(late.worker(&world).unwrap(), worker);
}

#[test]
fn a_registry_that_forgot_a_renewal_without_saying_so_is_told_at_once() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..1);
    let old = world.entries.clone();
    host.pass(&mut world, 30);
    world.entries = old;
    host.pass(&mut world, 4);
    host.draw(&mut world).unwrap();
    assert_eq!(host.worker(&world), Ok(0));
    assert!(world.entries[&0].holding.expires.0 >= world.time_ms + LEASE_MS - 5_000);
}

/// The registry has silently lost renewals. The worker is released before this host has written its lease again, and
/// the registry turns out to have failed over.
#[test]
fn what_was_issued_counts_after_the_registry_refused_to_take_a_worker_back() {
    let mut world = World::new();
    world.history_age = Some(Duration::from_secs(3_600));
    let mut host = drawing(&mut world, "a", 0..1);
    let old = world.entries.clone();
    host.pass(&mut world, LEASE_MS / 1_000 + 60);
    host.draw(&mut world).unwrap();
    let used_end = host.generator.issued_below();
    world.entries = old;
    // A renewal is due.
    world.time_ms += 10_000;
    let now = host.now(&world);
    while let Step::Request(ask) = host.lease.next(now, 0) {
        if let Request::Record(claim) = ask {
            host.journal = claim;
            host.lease.answered(now, Response::Record(Ok(())), 0);
            break;
        }
        let answer = world.answer(ask);
        host.lease.answered(now, answer, 0);
    }
    assert!(world.entries[&0].holding.expires < used_end, "the registry has the first lease only");
    host.lease.release(used_end);
    world.registry.history = History("2".into());
    world.history_age = Some(Duration::ZERO);
    host.settle(&mut world);
    assert!(matches!(host.lease.released(), Some(Err(RegistryError::Changed { .. }))));
    assert!(world.entries[&0].holding.expires >= used_end, "{:?}", host.lease);
    host.draw(&mut world).unwrap();
}

#[test]
fn a_start_tells_a_registry_that_lost_a_renewal() {
    let mut world = World::new();
    world.history_age = Some(Duration::from_secs(3_600));
    let mut host = drawing(&mut world, "a", 0..8);
    let worker = host.worker(&world).unwrap();
    let old = world.entries.clone();
    host.pass(&mut world, 30);
    world.entries = old;
    world.registry.history = History("2".into());
    let mut host = host.restart(&mut world);
    host.settle(&mut world);
    assert_eq!(host.worker(&world), Ok(worker));
    host.draw(&mut world).unwrap();
}

#[test]
fn another_registry_in_the_place_of_the_first_gives_no_worker() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..8);
    world.entries.clear();
    world.registry.id = StoreId("another".into());
    host.pass(&mut world, 4);
    host.draw(&mut world).unwrap();
    assert!(matches!(host.lease.trouble, Some(LeaseProblem::Replaced(_))));
    host.pass(&mut world, 600);
    assert_eq!(host.draw(&mut world), Err(Refusal::LeaseEnds));
    assert!(world.entries.is_empty());
}

#[test]
fn a_start_that_met_another_registry_uses_nothing_when_that_goes_away() {
    let mut world = World::new();
    let host = drawing(&mut world, "a", 0..8);
    world.entries.clear();
    world.registry.id = StoreId("another".into());
    let mut host = host.restart(&mut world);
    host.settle(&mut world);
    assert!(matches!(host.worker(&world), Err(LeaseProblem::Replaced(_))), "{:?}", host.lease);
    world.away = true;
    for _ in 0..60 {
        host.pass(&mut world, 1);
        assert_eq!(host.draw(&mut world), Err(Refusal::NoWorker));
    }
}

#[test]
fn a_configured_name_is_one_live_daemons() {
    let mut world = World::new();
    let mut settings = world.settings("id-1", 0..8);
    settings.named = true;
    settings.holder.name = "pod".into();
    let mut first = Host::start(&mut world, settings.clone(), None, UnixMs(0), 0);
    settings.holder.id = "id-2".into();
    let mut second = Host::start(&mut world, settings, None, UnixMs(0), 0);
    for host in [&mut first, &mut second] {
        host.lease.want();
        host.settle(&mut world);
    }
    first.draw(&mut world).unwrap();
    let Err(trouble @ LeaseProblem::IdentityInUse { .. }) = second.worker(&world) else {
        panic!("{:?}", second.lease)
    };
    assert!(trouble.to_string().contains("\"pod\""), "{trouble}");
    first.stop(&mut world);
    second.pass(&mut world, 2);
    second.draw(&mut world).unwrap();
}

#[test]
fn hosts_without_a_configured_name_may_have_the_same() {
    let mut world = World::new();
    for id in ["id-1", "id-2"] {
        let mut settings = world.settings(id, 0..8);
        settings.holder.name = "localhost".into();
        let mut host = Host::start(&mut world, settings, None, UnixMs(0), 0);
        host.lease.want();
        host.settle(&mut world);
        host.draw(&mut world).unwrap();
    }
}

#[test]
fn a_holder_whose_time_was_over_waits_like_a_newcomer_after_a_fail_over() {
    let mut world = World::new();
    world.history_age = Some(Duration::from_secs(3_600));
    let mut late = drawing(&mut world, "late", 0..1);
    world.time_ms += LEASE_MS + 1_000;
    let replica = world.entries.clone();
    let mut heir = drawing(&mut world, "heir", 0..1);
    world.time_ms += 100;
    // The new primary doesn't know the new holder's claim, and the previous holder is the first to reach it.
    world.entries = replica;
    world.registry.history = History("2".into());
    world.history_age = Some(Duration::ZERO);
    late.settle(&mut world);
    assert!(matches!(late.worker(&world), Err(LeaseProblem::Settling(_))), "{:?}", late.lease);
    assert_eq!(late.journal, None, "the journal forgets the worker");
    heir.pass(&mut world, 4);
    heir.draw(&mut world).unwrap();
    assert!(late.draw(&mut world).is_err());
    assert_eq!(world.entries[&0].holding.holder.as_ref().map(|one| &*one.id), Some("heir"));
}

#[test]
fn a_worker_that_another_host_has_after_a_fail_over_is_not_written_again() {
    let mut world = World::new();
    world.history_age = Some(Duration::from_secs(3_600));
    let mut host = drawing(&mut world, "a", 0..1);
    let mut other = world.entries[&0].holding.clone();
    other.holder.as_mut().unwrap().id = "b".into();
    other.expires = UnixMs(other.expires.0 - 1_000);
    world.enter(WorkerId(0), other.clone(), UnixMs(START_MS));
    world.registry.history = History("2".into());
    world.history_age = Some(Duration::ZERO);
    host.pass(&mut world, 4);
    assert_eq!(world.entries[&0].holding, other);
    assert_eq!(host.draw(&mut world), Err(Refusal::NoWorker));
    assert_eq!(host.journal, None, "the journal forgets a lost worker");
}

#[test]
fn an_expiry_that_the_registry_lost_is_not_moved_back_by_a_clock_that_fell_behind() {
    let mut world = World::new();
    world.history_age = Some(Duration::from_secs(3_600));
    let mut host = drawing(&mut world, "a", 0..1);
    let old = world.entries.clone();
    host.pass(&mut world, 60);
    let before = world.entries[&0].holding.expires;
    host.offset_ms = -4_900;
    world.entries = old;
    world.registry.history = History("2".into());
    host.pass(&mut world, 4);
    assert!(world.entries[&0].holding.expires >= before, "{:?} < {before:?}", world.entries[&0]);
}

#[test]
fn a_look_that_shows_an_older_renewal_brings_the_next_one_forward() {
    let mut world = World::new();
    let mut settings = world.settings("a", 0..1);
    // Renewals come every 7 s, and the entries are read after 60 s, when none is due.
    (settings.lease_ms, settings.settle_ms) = (420_000, None);
    let mut host = Host::start(&mut world, settings, None, UnixMs(0), 0);
    host.lease.want();
    host.settle(&mut world);
    let old = world.entries.clone();
    host.pass(&mut world, 57);
    world.entries = old;
    host.pass(&mut world, 3);
    assert_eq!(world.entries[&0].holding.expires.0, world.time_ms + 420_000);
}

#[test]
fn a_host_whose_own_registry_file_was_replaced_leases_anew() {
    let mut world = World::new();
    let mut settings = world.settings("a", 0..4);
    settings.embedded = true;
    let mut host = Host::start(&mut world, settings, None, UnixMs(0), 0);
    host.lease.want();
    host.settle(&mut world);
    host.draw(&mut world).unwrap();
    world.entries.clear();
    world.registry.id = StoreId("another".into());
    host.pass(&mut world, 4);
    assert_eq!(host.lease.registry(), Some(&world.registry));
    assert_eq!(world.entries.len(), 1);
}

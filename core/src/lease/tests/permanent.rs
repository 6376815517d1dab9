//! Workers that are assigned permanently.

use super::*;

fn host(world: &mut World, identity: &str) -> Host {
    let mut settings = world.settings(identity, 0..8);
    settings.mode = Mode::Permanent;
    settings.named = true;
    Host::start(world, settings, None, UnixMs(0), 0)
}

fn drawing(world: &mut World, identity: &str) -> Host {
    let mut host = host(world, identity);
    host.lease.want();
    host.settle(world);
    host.draw(world).unwrap();
    host
}

#[test]
fn it_survives_any_outage_on_the_journal_alone() {
    let mut world = World::new();
    let mut first = drawing(&mut world, "10.0.0.1:80");
    let worker = first.worker(&world);
    world.away = true;
    world.time_ms += 1_000 * 86_400_000;
    first.settle(&mut world);
    first.draw(&mut world).unwrap();
    let mut first = first.restart(&mut world);
    first.settle(&mut world);
    assert_eq!(first.worker(&world), worker);
    first.draw(&mut world).unwrap();
}

#[test]
fn its_recorded_time_is_a_few_seconds_ahead_and_never_below_the_journals_bound() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "10.0.0.1:80");
    assert_eq!(world.entries[&0].holding.expires.0, world.time_ms + 5_000);
    for _ in 0..10 {
        host.pass(&mut world, 1);
        host.draw(&mut world).unwrap();
        host.pass(&mut world, 3);
        let bound = world.entries[&0].holding.expires;
        assert!(bound >= host.layout_bound && bound.0 <= world.time_ms + 9_000);
    }
    host.stop(&mut world);
    assert!(world.entries[&0].holding.expires.0 <= world.time_ms + 1);
}

#[test]
fn its_recorded_time_is_not_below_the_journals_bound_when_the_clock_falls_behind() {
    for after_ms in (100..3_000).step_by(100) {
        let mut world = World::new();
        let mut host = drawing(&mut world, "10.0.0.1:80");
        let renewed = host.lease.renewed;
        for _ in 0..after_ms / 100 {
            world.time_ms += 100;
            host.draw(&mut world).unwrap();
            host.settle(&mut world);
        }
        assert_eq!(host.lease.renewed, renewed, "not yet");
        host.offset_ms = -4_900;
        while host.lease.renewed == renewed {
            world.time_ms += 100;
            host.settle(&mut world);
        }
        let recorded = world.entries[&0].holding.expires;
        assert!(recorded >= host.layout_bound, "{recorded:?} below {:?}", host.layout_bound);
    }
}

#[test]
fn the_second_live_daemon_of_an_identity_refuses_until_the_first_is_gone() {
    let mut world = World::new();
    let mut first = drawing(&mut world, "10.0.0.1:80");
    let mut second = host(&mut world, "10.0.0.1:80");
    second.lease.want();
    for _ in 0..20 {
        first.pass(&mut world, 1);
        second.settle(&mut world);
        assert!(matches!(second.worker(&world), Err(LeaseProblem::IdentityInUse { .. })));
    }
    first.draw(&mut world).unwrap();
    first.stop(&mut world);
    second.pass(&mut world, 3);
    second.draw(&mut world).unwrap();
}

#[test]
fn a_crashed_host_without_its_journal_starts_above_what_it_may_have_issued() {
    let mut world = World::new();
    let first = drawing(&mut world, "10.0.0.1:80");
    let worker = first.worker(&world);
    drop(first);
    let mut second = host(&mut world, "10.0.0.1:80");
    second.lease.want();
    second.pass(&mut world, 15);
    assert_eq!(second.worker(&world), worker);
    second.draw(&mut world).unwrap();
}

#[test]
fn without_its_journal_it_starts_above_what_was_issued_during_an_outage() {
    let mut world = World::new();
    let mut first = drawing(&mut world, "10.0.0.1:80");
    world.away = true;
    first.pass(&mut world, 60);
    // Its clock runs ahead of the registry's, and the registry's record lags behind both.
    first.offset_ms = 4_000;
    first.settle(&mut world);
    first.draw(&mut world).unwrap();
    let issued = first.last_id;
    drop(first);
    world.away = false;
    let mut second = host(&mut world, "10.0.0.1:80");
    second.lease.want();
    second.settle(&mut world);
    assert!(second.draw(&mut world).unwrap() > issued);
}

#[test]
fn a_number_that_somebody_else_wrote_is_given_up_at_the_next_renewal() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "10.0.0.1:80");
    let leaf = world.entries.get_mut(&0).unwrap();
    leaf.holding.holder.as_mut().unwrap().incarnation = StartToken("".into());
    host.settle(&mut world);
    host.draw(&mut world).expect("it isn't known yet");
    let recorded = host.journal.clone();
    host.pass(&mut world, 3);
    assert_eq!(host.draw(&mut world), Err(Refusal::NoWorker));
    assert_eq!(host.journal, recorded, "it is still this host's number");
}

#[test]
fn a_number_that_the_registry_lost_is_entered_again() {
    let mut world = World::new();
    drawing(&mut world, "10.0.0.1:80");
    let mut host = drawing(&mut world, "10.0.0.2:80");
    assert_eq!(host.worker(&world), Ok(1));
    world.entries.remove(&1);
    world.registry.history = History("2".into());
    host.pass(&mut world, 10);
    assert_eq!(world.entries[&1].holding.holder.as_ref().unwrap().name, "10.0.0.2:80".into());
    host.draw(&mut world).unwrap();
}

#[test]
fn a_registry_that_moves_and_keeps_the_entry_is_followed() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "10.0.0.1:80");
    for history in ["2", "3"] {
        world.registry.history = History(history.into());
        host.pass(&mut world, 4);
        let recorded = host.journal.as_ref().expect("a worker that is held is in the journal");
        assert_eq!(recorded.registry, world.registry, "the journal follows");
        let entry = &world.entries[&0];
        assert!(entry.written.0 + 4_000 >= world.time_ms, "renewals go on: {entry:?}");
        assert_eq!(host.lease.trouble, None);
        host.draw(&mut world).unwrap();
    }
    let mut host = host.restart(&mut world);
    host.settle(&mut world);
    assert_eq!(host.worker(&world), Ok(0));
    host.draw(&mut world).unwrap();
}

#[test]
fn a_registry_that_moves_while_a_restart_has_no_answer_is_followed() {
    let mut world = World::new();
    let host = drawing(&mut world, "10.0.0.1:80");
    world.deaf = true;
    let mut host = host.restart(&mut world);
    host.settle(&mut world);
    (world.deaf, world.registry.history) = (false, History("2".into()));
    host.pass(&mut world, 4);
    assert_eq!(host.journal.as_ref().map(|recorded| &recorded.registry), Some(&world.registry));
    assert_eq!(host.lease.trouble, None);
    host.draw(&mut world).unwrap();
}

#[test]
fn a_doubtful_start_stays_high_when_the_answer_that_brought_it_is_lost() {
    let mut world = World::new();
    let old = drawing(&mut world, "10.0.0.1:80");
    let (journal, layout_bound) = (old.journal.clone(), old.layout_bound);
    // A later life issues higher ids, under a clock that is ahead, and then loses its journal.
    let mut later = old.restart(&mut world);
    later.offset_ms = 4_000;
    later.pass(&mut world, 5);
    later.draw(&mut world).unwrap();
    later.stop(&mut world);
    world.deaf = true;
    let mut host = Host::start(&mut world, later.settings.clone(), journal, layout_bound, 0);
    host.lease.want();
    host.settle(&mut world);
    world.deaf = false;
    host.pass(&mut world, 2);
    let start = host.lease.standing(host.now(&world)).unwrap().start;
    assert!(start.0 > world.time_ms, "ahead of every clock that is believed: {start:?}");
    host.pass(&mut world, 8);
    assert!(host.draw(&mut world).unwrap() > later.last_id);
}

#[test]
fn a_number_that_is_assigned_to_another_host_is_not_used() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "10.0.0.1:80");
    let other = world.entries.get_mut(&0).unwrap().holding.holder.as_mut().unwrap();
    (other.id, other.name) = ("10.0.0.2:80".into(), "10.0.0.2:80".into());
    // A renewal or a start detects it.
    host.pass(&mut world, 10);
    for _ in 0..2 {
        assert!(host.worker(&world).is_err(), "{:?}", host.lease);
        assert_eq!(host.draw(&mut world), Err(Refusal::NoWorker));
        host = host.restart(&mut world);
        host.lease.want();
        host.pass(&mut world, 10);
    }
    assert_eq!(world.entries[&0].holding.holder.as_ref().unwrap().id, "10.0.0.2:80".into());
}

/// Its entry was lost, and another host has the number now. Once a start has seen that, no later start forgets it.
#[test]
fn a_number_that_was_seen_with_another_host_is_not_used_by_a_restart_in_an_outage() {
    for off in [false, true] {
        let mut world = World::new();
        let mut host = drawing(&mut world, "10.0.0.1:80");
        let own = world.entries[&0].holding.holder.clone();
        if off {
            host = host.restart(&mut world);
        }
        let entry = world.entries.get_mut(&0).unwrap();
        entry.holding.holder.as_mut().unwrap().id = "10.0.0.2:80".into();
        host.lease.want();
        host.pass(&mut world, 4);
        assert_eq!(host.draw(&mut world), Err(Refusal::NoWorker));
        world.time_ms += 2_000;
        host.settle_with(&mut world, |_, ask| {
            assert!(!matches!(ask, Request::Record(_)), "the journal has it");
            None
        });
        world.away = true;
        host = host.restart(&mut world);
        host.lease.want();
        host.pass(&mut world, 4);
        assert_eq!(host.draw(&mut world), Err(Refusal::NoWorker), "{:?}", host.lease);
        // An operator restores the entry.
        world.entries.get_mut(&0).unwrap().holding.holder = own;
        world.away = false;
        host.pass(&mut world, 60);
        host.draw(&mut world).unwrap();
        assert_eq!(host.worker(&world), Ok(0));
    }
}

#[test]
fn a_stop_records_the_time_of_the_stop() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "10.0.0.1:80");
    host.pass(&mut world, 2);
    host.stop(&mut world);
    assert_eq!(world.entries[&0].holding.expires.0, world.time_ms);
}

#[test]
fn without_its_journal_it_starts_above_the_recorded_time() {
    let mut world = World::new();
    let mut first = drawing(&mut world, "10.0.0.1:80");
    first.stop(&mut world);
    // Leaf recorded it, under a clock that was a minute ahead.
    let recorded = UnixMs(world.time_ms + 60_000);
    world.entries.get_mut(&0).unwrap().holding.expires = recorded;
    let mut second = host(&mut world, "10.0.0.1:80");
    second.lease.want();
    second.settle(&mut world);
    assert_eq!(second.lease.standing(second.now(&world)).unwrap().start, recorded);
}

#[test]
fn a_doubtful_start_stays_high_when_the_write_that_brought_it_lands_late() {
    let mut world = World::new();
    let old = drawing(&mut world, "10.0.0.1:80");
    let (journal, layout_bound) = (old.journal.clone(), old.layout_bound);
    let mut later = old.restart(&mut world);
    later.settle(&mut world);
    later.stop(&mut world);
    let settings = later.settings.clone();
    let mut host = Host::start(&mut world, settings, journal, layout_bound, 0);
    host.lease.want();
    let mut late = None;
    let mut writes = 0;
    for _ in 0..2 {
        host.settle_with(&mut world, |world, ask| {
            if !matches!(ask, Request::CompareAndSet(..)) {
                return None;
            }
            writes += 1;
            if writes == 1 {
                late = Some(ask.clone());
                return Some(faults::unavailable());
            }
            late.take().map(|late| world.answer(late));
            None
        });
        world.time_ms += 100;
    }
    let start = host.lease.standing(host.now(&world)).unwrap().start;
    assert!(start.0 > world.time_ms, "ahead of every clock that is believed: {start:?}");
}

#[test]
fn a_new_start_is_used_only_once_the_journal_has_it() {
    let mut world = World::new();
    let old = drawing(&mut world, "10.0.0.1:80");
    let journal = old.journal.clone();
    let mut later = old.restart(&mut world);
    later.settle(&mut world);
    later.stop(&mut world);
    let settings = later.settings.clone();
    let mut host = Host::start(&mut world, settings, journal, UnixMs(0), 0);
    host.settle_with(&mut world, faults::full_journal);
    assert!(host.worker(&world).is_err(), "{:?}", host.lease);
    host.pass(&mut world, 2);
    assert_eq!(host.worker(&world), Ok(0));
}

#[test]
fn renewals_and_looks_leave_the_journal_and_the_start_alone() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "10.0.0.1:80");
    let window = host.lease.standing(host.now(&world));
    let mut asked = Vec::new();
    let mut settle = |host: &mut Host, world: &mut World| {
        asked.clear();
        let step = host.settle_with(world, |_, ask| {
            assert!(!matches!(ask, Request::Record(_)), "{ask:?}");
            asked.push(ask.clone());
            None
        });
        (step, asked.clone())
    };
    // Renewals come every 3 s. The read after 60 s lies between two of them.
    world.time_ms += 3_500;
    settle(&mut host, &mut world);
    for _ in 0..56 {
        world.time_ms += 1_000;
        settle(&mut host, &mut world);
    }
    assert_eq!(host.settle(&mut world), host.wait(&world, 500));
    world.time_ms += 500;
    let (step, asked) = settle(&mut host, &mut world);
    assert!(matches!(asked[..], [Request::Snapshot(_)]), "a look alone: {asked:?}");
    assert_eq!(step, host.wait(&world, 500));
    assert_eq!(host.lease.standing(host.now(&world)), window);
}

#[test]
fn a_number_that_the_registry_lost_stays_in_use_while_it_cannot_be_entered() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "10.0.0.1:80");
    world.entries.clear();
    world.registry.history = History("2".into());
    world.time_ms += 3_000;
    host.settle_with(&mut world, |_, ask| {
        let error = RegistryError::Unavailable { registry: "here".into(), cause: "away".into() };
        matches!(ask, Request::Assign(..)).then_some(Response::Assign(Err(error)))
    });
    host.draw(&mut world).unwrap();
}

#[test]
fn a_number_that_a_look_shows_with_another_host_is_no_longer_used() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "10.0.0.1:80");
    world.entries.get_mut(&0).unwrap().holding.holder.as_mut().unwrap().id = "b".into();
    // The renewal finds only the new history; the read after it finds the other host.
    world.registry.history = History("2".into());
    host.pass(&mut world, 3);
    assert_eq!(host.draw(&mut world), Err(Refusal::NoWorker));
}

#[test]
fn a_number_that_a_renewal_shows_with_another_start_is_not_used_during_an_outage() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "10.0.0.1:80");
    let entry = world.entries.get_mut(&0).unwrap();
    entry.holding.holder.as_mut().unwrap().incarnation = StartToken("".into());
    world.time_ms += 3_000;
    host.settle_with(&mut world, |world, ask| {
        world.away |= matches!(ask, Request::Snapshot(_));
        None
    });
    assert!(world.away);
    assert_eq!(host.draw(&mut world), Err(Refusal::NoWorker));
}

#[test]
fn a_number_that_was_assigned_to_another_start_meanwhile_is_not_used() {
    let mut world = World::new();
    let mut host = host(&mut world, "10.0.0.1:80");
    host.lease.want();
    let step = host.settle_with(&mut world, |world, ask| {
        let Request::Assign(_, _, holding) = ask else { return None };
        let mut holding = holding.clone();
        holding.holder.as_mut().unwrap().incarnation = StartToken("other".into());
        world.enter(WorkerId(0), holding, world.clock());
        Some(Response::Assign(Ok(world.entries[&0].clone())))
    });
    faults::is_soon(&host, &world, &step);
    assert!(host.worker(&world).is_err() && host.journal.is_none());
}

//! The registry's identity, the layouts, access, and addresses that lead nowhere.

use std::process::Command;
use std::time::Duration;

use leafd::config::StorePassword;
use leafd::registry::Registry as _;
use leafd::registry::zookeeper::{LeasedRegistry, PermanentRegistry};
use leafd_core::registry::RegistryError;
use leafd_core::{Tag, UnixMs};
use leafd_tests::host::eventually;
use leafd_tests::servers::process::free_port;
use leafd_tests::servers::zookeeper::ZooKeeper;
use leafd_wire::Layout;

use crate::scene::*;

fn tag(name: &str) -> Tag {
    Tag::parse(name.as_bytes()).unwrap()
}

#[test]
fn layouts_mean_the_same_to_all() {
    let place = Place::new();
    let (mut one, mut other) = (place.leased(), place.leased());
    let narrow = Layout { worker_bits: 8, sequence_bits: 14, ..Layout::LEAF };
    one.register_layouts(&[(tag("snowflake"), Layout::LEAF)]).unwrap();
    other
        .register_layouts(&[(tag("snowflake"), Layout::LEAF), (tag("a/b \"c\" é"), narrow)])
        .unwrap();
    one.register_layouts(&[(tag("a/b \"c\" é"), narrow)]).unwrap();
    let both = [(tag("new"), narrow), (tag("snowflake"), narrow)];
    refused(one.register_layouts(&both), "snowflake");
    refused(one.register_layouts(&both), "worker_bits=10");
    refused(one.register_layouts(&both), "worker_bits=8");
    // Nothing from a refused list is recorded.
    other.register_layouts(&[(tag("new"), Layout::LEAF)]).unwrap();
    place.raw.set("/leafd/layouts", b"garbage");
    refused(one.register_layouts(&[]), "/leafd/layouts");
}

#[test]
fn layouts_are_recorded_by_many_at_once() {
    let place = Place::new();
    let agreed: Vec<bool> = std::thread::scope(|scope| {
        let host = |host: u8| {
            let mut registry = place.leased();
            let layout = Layout { worker_bits: host % 2 + 3, ..Layout::LEAF };
            scope.spawn(move || {
                registry.register_layouts(&[(tag(&format!("own{host}")), Layout::LEAF)]).unwrap();
                registry.register_layouts(&[(tag("shared"), layout)]).is_ok()
            })
        };
        let hosts: Vec<_> = (0..8).map(host).collect();
        hosts.into_iter().map(|host| host.join().unwrap()).collect()
    });
    assert_eq!(agreed.iter().filter(|agreed| **agreed).count(), 4, "{agreed:?}");
    let (layouts, _) = place.raw.get("/leafd/layouts");
    assert!((0..8).all(|host| layouts.contains(&format!("own{host}"))), "{layouts}");
}

#[test]
fn a_registry_is_made_once() {
    let place = Place::new();
    let ids: Vec<_> = std::thread::scope(|scope| {
        let host = |_| {
            let mut registry = place.leased();
            scope.spawn(move || snapshot(&mut registry).registry)
        };
        let hosts: Vec<_> = (0..8).map(host).collect();
        hosts.into_iter().map(|host| host.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_ne!(ids[0].id, snapshot(&mut Place::new().leased()).registry.id);
}

#[test]
fn a_registry_that_was_made_anew_is_another_one() {
    let place = Place::new();
    let mut registry = place.leased();
    let bound = soon(&mut registry);
    let under = snapshot(&mut registry).registry;
    registry.compare_and_set(&under, &swap_of(1, None, held("h", "i", bound))).unwrap();
    for node in [
        "/leafd/workers/00001",
        "/leafd/workers",
        "/leafd/registry",
        "/leafd/clock",
        "/leafd/layouts",
        "/leafd",
    ] {
        place.raw.delete(node);
    }
    let swap = swap_of(2, None, held("h", "i", bound));
    refused(registry.compare_and_set(&under, &swap), "/leafd/registry");
    let anew = snapshot(&mut place.leased()).registry;
    assert_ne!(anew.id, under.id);
    match registry.compare_and_set(&under, &swap) {
        Err(RegistryError::Changed { expected, found }) => {
            assert_eq!((expected, found), (under, anew))
        }
        other => panic!("{other:?}"),
    }
    assert!(place.raw.children("/leafd/workers").is_empty());
}

#[test]
fn what_was_deleted_is_not_made_again() {
    for node in ["/leafd/workers", "/leafd/clock", "/leafd/registry", "/leafd/layouts"] {
        let place = Place::new();
        let mut registry = place.leased();
        let under = snapshot(&mut registry).registry;
        place.raw.delete(node);
        let mut others = place.leased();
        for registry in [&mut registry, &mut others] {
            let swapped =
                registry.compare_and_set(&under, &swap_of(1, None, held("h", "i", UnixMs(5))));
            let all = [
                swapped.err(),
                registry.register_layouts(&[]).err(),
                registry.snapshot(0..9).err(),
            ];
            let told = all.iter().flatten().any(
                |error| matches!(error, RegistryError::Refused(words) if words.contains(node)),
            );
            assert!(told, "{node}: {all:?}");
        }
        assert!(!place.raw.exists(node));
    }
}

#[test]
fn one_path_has_one_mode() {
    let place = Place::new();
    snapshot(&mut place.leased());
    refused(place.permanent().snapshot(0..9), "holds leased worker numbers");
    let place = Place::new();
    snapshot(&mut place.permanent());
    refused(place.leased().snapshot(0..9), "holds permanent worker numbers");
}

#[test]
fn nothing_is_leased_where_a_leaf_has_its_numbers() {
    // A Leaf was there first, whether or not leafd was too.
    let place = Place::new();
    place.raw.create_all(FOREVER);
    place.raw.create(&format!("{FOREVER}/10.0.0.1:8080-0000000000"), b"{}");
    refused(place.leased().snapshot(0..9), "worker_mode = \"permanent\"");
    assert!(!place.raw.exists("/leafd/workers/00000"));
    // A Leaf that comes later is found by the next read, over the same connection.
    let place = Place::new();
    let mut registry = place.leased();
    snapshot(&mut registry);
    place.raw.create_all(FOREVER);
    refused(registry.snapshot(0..9), FOREVER);
    // Paths within Leaf's own tree, and the tree of the fork that returns numbers.
    let place = Place::new();
    place.raw.create_all(&format!("{FOREVER}/10.0.0.1:8080-0000000000"));
    for inside in ["/snowflake", "/snowflake/com.acme-ids", FOREVER] {
        let mut registry = LeasedRegistry::open(target(&format!("{}{inside}", place.address)));
        refused(registry.snapshot(0..9), "outside of Leaf's nodes");
    }
    let place = Place::new();
    place.raw.create_all("/snowflake/other/recycle/inuse");
    refused(place.leased().snapshot(0..9), "/snowflake/other/recycle");
    // This folder is not one of Leaf's.
    let place = Place::new();
    place.raw.create_all("/snowflake/pictures");
    snapshot(&mut place.leased());
}

/// A mistyped name, or a path at the wrong level, would begin a second tree, whose worker 0 a Leaf already has.
#[test]
fn a_second_tree_begins_only_where_that_is_meant() {
    let place = Place::new();
    place.raw.create_all("/snowflake/com.acme-id/forever");
    refused(place.permanent().snapshot(0..9), "in /snowflake/com.acme-id/forever");
    assert!(!place.raw.exists(FOREVER) && !place.raw.exists("/leafd"));
    let wrong_level = target(&format!("{}/snowflake", place.address));
    let name = SERVICE.parse().unwrap();
    let mut registry = PermanentRegistry::open(wrong_level, &name, false);
    refused(registry.snapshot(0..9), "leaf_name_new = true");
    snapshot(&mut PermanentRegistry::open(target(&place.address), &name, true));
    assert!(place.raw.exists(FOREVER));
    // The tree exists from now on.
    snapshot(&mut place.permanent());
}

#[test]
fn without_its_password_a_registry_is_closed() {
    let place = Place::new();
    let open = |password: &str| {
        let auth = StorePassword::Variable(password.to_owned());
        LeasedRegistry::open(leafd::registry::zookeeper::EnsembleTarget {
            auth,
            ..target(&place.address)
        })
    };
    let bound = soon(&mut open("leafd:elephant"));
    compare_and_set(&mut open("leafd:elephant"), 1, None, held("h", "i", bound)).unwrap();
    for mut stranger in [place.leased(), open("leafd:hunter2")] {
        refused(stranger.snapshot(0..9), "access lists");
    }
    let missing = StorePassword::File("/nowhere/password".into());
    let target =
        leafd::registry::zookeeper::EnsembleTarget { auth: missing, ..target(&place.address) };
    unavailable(LeasedRegistry::open(target).snapshot(0..9), "/nowhere/password");
}

#[test]
fn addresses_that_lead_nowhere_are_told() {
    let server = shared().address();
    refused(
        LeasedRegistry::open(target(&format!("{server}/no/such/path"))).snapshot(0..9),
        "zkCli.sh create",
    );
    let nobody = format!("127.0.0.1:{}", free_port());
    unavailable(LeasedRegistry::open(target(&nobody)).snapshot(0..9), "accepts the session");
    unavailable(LeasedRegistry::open(target("no-such-host.invalid")).snapshot(0..9), "");
    // If there are several servers, the next one is tried.
    let place = Place::new();
    let (_, path) = place.address.split_once('/').unwrap();
    snapshot(&mut LeasedRegistry::open(target(&format!("{nobody},{server}/{path}"))));
}

/// Copies a server's data, as a backup does.
fn keep(server: &ZooKeeper) {
    let dir = &server.process.dir;
    let copied = Command::new("cp").arg("-a").arg(dir.join("data")).arg(dir.join("kept")).status();
    assert!(copied.unwrap().success());
}

/// Restores the copy.
fn restore(server: &ZooKeeper) {
    let dir = &server.process.dir;
    std::fs::remove_dir_all(dir.join("data")).unwrap();
    std::fs::rename(dir.join("kept"), dir.join("data")).unwrap();
}

#[test]
fn an_ensemble_restored_from_a_copy_of_its_running_servers_is_in_another_life() {
    let mut servers = ZooKeeper::three();
    let all = servers.each_ref().map(ZooKeeper::address).join(",");
    let mut registry = LeasedRegistry::open(target(&all));
    let before = snapshot(&mut registry);
    servers.iter().for_each(keep);
    let ours = held("h", "i", soon(&mut registry));
    compare_and_set(&mut registry, 1, None, ours.clone()).unwrap();
    servers.iter_mut().for_each(|server| server.process.stop());
    servers.iter().for_each(restore);
    // The election raises the epoch, so new transactions have higher numbers than the lost ones.
    std::thread::scope(|scope| {
        for server in &mut servers {
            scope.spawn(|| server.start());
        }
    });
    let swap = swap_of(1, Some(ours.clone()), ours);
    let told = eventually("an answer", Duration::from_secs(60), || {
        let answer = registry.compare_and_set(&before.registry, &swap);
        (!matches!(answer, Err(RegistryError::Unavailable { .. }))).then_some(answer)
    });
    // A session that has survived finds the entry missing, and detects the loss with its next read.
    let is_refused =
        matches!(told, Err(RegistryError::Changed { .. } | RegistryError::Conflict { .. }));
    assert!(is_refused, "{told:?}");
    let after = snapshot(&mut registry);
    assert_ne!(after.registry.history, before.registry.history);
    assert!(after.entries.is_empty());
    assert_eq!(after.registry.id, before.registry.id);
    assert!(after.history_age.unwrap() < Duration::from_secs(60), "{:?}", after.history_age);
}

#[test]
fn a_server_that_forgot_writes_is_in_another_life() {
    let mut server = ZooKeeper::new();
    let place = Place::on(&server.address());
    let mut registry = place.leased();
    let before = snapshot(&mut registry);
    assert_eq!(before.history_age, None);
    server.process.stop();
    keep(&server);
    server.start();
    // A restart alone loses nothing.
    assert_eq!(snapshot(&mut registry).registry, before.registry);
    let ours = held("h", "i", soon(&mut registry));
    for worker in 0..5 {
        compare_and_set(&mut registry, worker, None, ours.clone()).unwrap();
    }
    server.process.stop();
    restore(&server);
    server.start();
    let under = before.registry.clone();
    let swap = swap_of(0, Some(ours.clone()), ours);
    assert!(matches!(registry.compare_and_set(&under, &swap), Err(RegistryError::Changed { .. })));
    let after = snapshot(&mut registry);
    assert!(after.entries.is_empty());
    assert_eq!(after.registry.id, before.registry.id);
    assert_ne!(after.registry.history, before.registry.history);
    assert!(after.history_age.unwrap() < Duration::from_secs(60), "{:?}", after.history_age);
    // Other clients see the same registry.
    assert_eq!(snapshot(&mut place.leased()).registry, after.registry);
}

//! A masked tag on several daemons and one server: all daemons issue ids of the same permutation, or none.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use leafd_client::{Client, Error, opcode};
use leafd_tests::host::{Host, eventually};
use leafd_tests::load::Drawn;
use leafd_tests::servers::{DATABASE, Server, apply_schema};
use leafd_wire::Status;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::scene::store;

const TAG: &str = "tickets";
const KEY: &str = "1 000102030405060708090a0b0c0d0e0f\n";

on_each_server!(
    hosts_share_a_permutation_or_stay_out,
    keys_stay_confirmed_through_a_reload_without_the_store,
    keys_are_confirmed_before_they_are_needed,
    keys_are_confirmed_as_soon_as_the_store_can_be_used,
    a_restored_store_is_told_of_masks_and_asked_for_keys_again,
);

fn host_with(url: &str, key: &str) -> Host {
    let mut host = Host::on_store(url);
    with_key(&mut host, key);
    host.start();
    host
}

fn with_key(host: &mut Host, key: &str) {
    let file = host.path("mask_keys");
    fs::write(&file, key).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    host.change("mask_key_file", file.to_str().unwrap());
}

fn refused(client: &Client) -> String {
    match client.next(TAG) {
        Err(Error::Service { status: Status::MaskKey, message, .. }) => message,
        other => panic!("{other:?}"),
    }
}

fn hosts_share_a_permutation_or_stay_out<S: Server>() {
    let server = S::new();
    let hosts = [host_with(&server.url(), KEY), host_with(&server.url(), KEY)];
    hosts[0].admin(opcode::TAG_CREATE, &json!({ "tag": TAG, "masked": 53 }));
    let mut drawn = Drawn::default();
    let mut all = Vec::new();
    for _ in 0..10 {
        for host in &hosts {
            let client = host.client();
            let mut ids: Vec<u64> = client.next_batch(TAG, 50).unwrap().collect();
            ids.push(client.next(TAG).unwrap());
            drawn.add_ids(TAG, &ids);
            all.extend(ids);
        }
    }
    drawn.assert_sound();
    // Every host finds the same number behind an id.
    let numbers = hosts
        .each_ref()
        .map(|host| host.client().public_ids(TAG).bits(53).key(1).unmask(&all).unwrap());
    assert_eq!(numbers[0], numbers[1]);

    // A host with another key can't influence this tag's ids or public ids.
    let stranger = host_with(&server.url(), "1 0f0e0d0c0b0a09080706050403020100\n");
    let client = stranger.client();
    assert!(refused(&client).contains("not the key"));
    let masked = client.public_ids("orders").mask(&[17]);
    assert!(matches!(masked, Err(Error::Service { status: Status::MaskKey, .. })), "{masked:?}");
    let mut keyless = Host::on_store(&server.url());
    keyless.start();
    assert!(refused(&keyless.client()).contains("mask key 1"));
    // This is not a failure of the store, so other tags continue.
    keyless.create("orders");
    assert_eq!(stranger.client().next_batch("orders", 5).unwrap().count(), 5);
}

fn keys_stay_confirmed_through_a_reload_without_the_store<S: Server>() {
    let mut server = S::new();
    let both = format!("{KEY}2 0f0e0d0c0b0a09080706050403020100\n");
    let host = host_with(&server.url(), &both);
    let client = host.client();
    let orders = client.public_ids("orders");
    let before = orders.mask(&[17]).unwrap();
    server.kill();
    let mut reloads = 0;
    let mut reload_with = |keys: &str| {
        fs::write(host.path("mask_keys"), keys).unwrap();
        host.signal(Signal::SIGHUP);
        reloads += 1;
        eventually("it is reloaded", Duration::from_secs(20), || {
            (host.log().matches("reload: no reloadable").count() == reloads).then_some(())
        });
    };
    reload_with(&both);
    assert_eq!(orders.mask(&[17]).unwrap(), before);
    // One of the known keys is removed.
    reload_with(KEY);
    assert_eq!(orders.mask(&[17]).unwrap(), before);
    // The third key is unknown to the store.
    reload_with(&format!("{KEY}3 0f0e0d0c0b0a09080706050403020100\n"));
    assert!(matches!(orders.mask(&[17]), Err(Error::Service { .. })));
    server.start();
    let after =
        eventually("they are confirmed", Duration::from_secs(60), || orders.mask(&[17]).ok());
    assert_eq!(after, before);
}

/// The store goes away before anyone has masked an id.
fn keys_are_confirmed_before_they_are_needed<S: Server>() {
    let mut server = S::new();
    let host = host_with(&server.url(), KEY);
    eventually("they are confirmed", Duration::from_secs(60), || {
        host.log().contains("the mask keys match").then_some(())
    });
    server.kill();
    assert_eq!(host.client().public_ids("orders").mask(&[17]).unwrap().len(), 1);
}

/// An earlier refusal for missing tables must not be repeated once the store has tables.
fn keys_are_confirmed_as_soon_as_the_store_can_be_used<S: Server>() {
    let server = S::empty(&[]);
    let host = host_with(&server.url(), KEY);
    let client = host.client();
    let orders = client.public_ids("orders");
    let refused = orders.mask(&[17]);
    assert!(
        matches!(refused, Err(Error::Service { status: Status::StoreRefused, .. })),
        "{refused:?}"
    );
    apply_schema(&server.url());
    eventually("the store is met", Duration::from_secs(60), || {
        let mut raw = host.raw();
        raw.request(opcode::TAG_CREATE, 1, json!({ "tag": "orders" }).to_string().as_bytes());
        (raw.reply().status() == Status::Ok).then_some(())
    });
    orders.mask(&[17]).unwrap();
}

/// The backup contains neither the tag nor any mask key, and a host with another key comes first.
fn a_restored_store_is_told_of_masks_and_asked_for_keys_again<S: Server>() {
    let server = S::new();
    let mut host = Host::on_store(&server.url()).set("failover_settle", "8s");
    host.start();
    host.create("plain");
    host.stop();
    let saved = server.dump(DATABASE);
    with_key(&mut host, KEY);
    host.start();
    eventually("the store is met", Duration::from_secs(60), || {
        (store(&host)["ready"] == true).then_some(())
    });
    host.admin(opcode::TAG_CREATE, &json!({ "tag": TAG, "masked": 53 }));
    let client = host.client();
    let mut drawn = Drawn::default();
    drawn.add_ids(TAG, &client.next_batch(TAG, 50).unwrap().collect::<Vec<_>>());
    let public = client.public_ids("orders");
    public.mask(&[17]).unwrap();

    // The host must not see the tables without their rows.
    host.signal(Signal::SIGSTOP);
    server.restore_over(DATABASE, &saved);
    server.sql("INSERT INTO leafd_meta (name, value) VALUES ('mask_key_1', '00000000000000aa')");
    host.signal(Signal::SIGCONT);
    let mut refusals = Vec::new();
    let mut create = || {
        let body = json!({ "tag": TAG, "start": 100_000 });
        let mut raw = host.raw();
        raw.request(opcode::TAG_CREATE, 1, body.to_string().as_bytes());
        let reply = raw.reply();
        refusals.push(reply.status());
        (reply.status(), reply.text())
    };
    // No host can create the tag again before this host has reported what it has seen, and after that only with a mask.
    let words = eventually("the store was told", Duration::from_secs(60), || match create() {
        (Status::ValueRefused, words) => Some(words),
        (Status::StoreUnavailable, _) => None,
        (status, words) => panic!("{status}: {words}"),
    });
    assert!(words.contains("doesn't know its mask") && words.contains("another name"), "{words}");
    assert!(refusals.contains(&Status::StoreUnavailable), "{refusals:?}");
    let masked = public.mask(&[17]);
    assert!(matches!(masked, Err(Error::Service { status: Status::MaskKey, .. })), "{masked:?}");
    drawn.assert_sound();
}

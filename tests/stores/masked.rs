//! A masked tag on several daemons and one server: all make the same permutation's ids, or none.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use leafd_client::{Client, Error, opcode};
use leafd_tests::host::{Host, eventually};
use leafd_tests::load::Drawn;
use leafd_tests::servers::Server;
use leafd_wire::Status;
use nix::sys::signal::Signal;
use serde_json::json;

const TAG: &str = "tickets";
const KEY: &str = "1 000102030405060708090a0b0c0d0e0f\n";

on_each_server!(
    hosts_share_a_permutation_or_stay_out,
    keys_stay_confirmed_through_a_reload_without_the_store,
);

fn host_with(url: &str, key: &str) -> Host {
    let host = Host::on_store(url);
    let file = host.path("mask_keys");
    fs::write(&file, key).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let mut host = host.set("mask_key_file", file.to_str().unwrap());
    host.start();
    host
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
    // Whatever host reads it, an id is one number's.
    let numbers = hosts
        .each_ref()
        .map(|host| host.client().public_ids(TAG).bits(53).key(1).unmask(&all).unwrap());
    assert_eq!(numbers[0], numbers[1]);

    // A host with another key has no say, neither in this tag's ids nor in public ids.
    let stranger = host_with(&server.url(), "1 0f0e0d0c0b0a09080706050403020100\n");
    let client = stranger.client();
    assert!(refused(&client).contains("not the one"));
    let masked = client.public_ids("orders").mask(&[17]);
    assert!(matches!(masked, Err(Error::Service { status: Status::MaskKey, .. })), "{masked:?}");
    let mut keyless = Host::on_store(&server.url());
    keyless.start();
    assert!(refused(&keyless.client()).contains("mask key 1"));
    // It is no failure of the store: other tags go on there.
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
    // Of the keys that are known one fewer.
    reload_with(KEY);
    assert_eq!(orders.mask(&[17]).unwrap(), before);
    // One that no store has seen yet.
    reload_with(&format!("{KEY}3 0f0e0d0c0b0a09080706050403020100\n"));
    assert!(matches!(orders.mask(&[17]), Err(Error::Service { .. })));
    server.start();
    let after =
        eventually("they are confirmed", Duration::from_secs(60), || orders.mask(&[17]).ok());
    assert_eq!(after, before);
}

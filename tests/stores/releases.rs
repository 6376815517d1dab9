//! Releases and their successors: this version uses the tables of each earlier one, refuses those of a later one, and
//! replaces an earlier one host by host.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leafd_tests::host::{Host, leafd_binary};
use leafd_tests::load::{Draw, Load};
use leafd_tests::servers::{DATABASE, Server};

on_each_server!(
    tables_of_the_first_release_are_used_as_they_are,
    tables_of_a_later_release_are_refused,
    a_fleet_is_upgraded_host_by_host_and_back,
);

/// The first id of `orders` that the hosts of these stores had not claimed yet.
const FIRST_ID_LEFT: u64 = 1_001;

/// How long ids may take on a busy machine.
const DRAWS_WITHIN: Duration = Duration::from_secs(60);

/// Names a folder to write a backup of each store of this version to.
const WRITE_TO: &str = "LEAFD_TEST_WRITE_FORMATS";

/// Names the former release's program. Without it, the current program plays both parts.
const FORMER: &str = "LEAFD_TEST_FORMER_PROGRAM";

/// A backup of a store of 1.0, as written by the engine's own tool.
fn store_of_1_0<S: Server>() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("stores/releases");
    folder.join(format!("{}-1.0.dump", S::NAME.to_lowercase()))
}

fn tables_of_the_first_release_are_used_as_they_are<S: Server>() {
    let backup = store_of_1_0::<S>();
    if let Some(folder) = std::env::var_os(WRITE_TO) {
        let server = S::new();
        let mut host = Host::on_store(&server.url());
        host.start();
        host.create("orders");
        assert_eq!(host.raw().draw("orders", 1_000).len(), 1_000);
        assert!(host.raw().draw("snowflake", 1)[0] > 0);
        host.stop();
        fs::copy(server.dump(DATABASE), Path::new(&folder).join(backup.file_name().unwrap()))
            .unwrap();
        return;
    }
    let server = S::empty(&[]);
    server.restore(DATABASE, &backup);
    let mut host = Host::on_store(&server.url()).set("failover_settle", "1s");
    host.start();
    let first = host.raw().draw_until("orders", DRAWS_WITHIN);
    assert!(first >= FIRST_ID_LEFT, "id {first} was claimed before");
    assert!(host.raw().draw_until("snowflake", DRAWS_WITHIN) > 0);
}

fn tables_of_a_later_release_are_refused<S: Server>() {
    let server = S::new();
    server.sql("UPDATE leafd_meta SET value = '3' WHERE name = 'format'");
    let mut host = Host::on_store(&server.url());
    host.start();
    let (status, said) = host.run("doctor");
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("format 3; this one supports 2"), "{said}");
}

/// Three hosts switch to the new program one after the other, and then back to the former one: a downgrade is possible
/// as long as the formats are the same.
fn a_fleet_is_upgraded_host_by_host_and_back<S: Server>() {
    let former = std::env::var_os(FORMER).map(PathBuf::from);
    println!("the former program: {former:?}");
    let former = former.unwrap_or_else(|| leafd_binary().to_owned());
    let server = S::new();
    let mut hosts: Vec<Host> = (0..3).map(|_| Host::on_store(&server.url())).collect();
    for host in &mut hosts {
        host.run_program(&former);
        host.start();
    }
    hosts[0].create("orders");
    let draws = hosts
        .iter()
        .flat_map(|host| ["orders", "snowflake"].map(|tag| Draw::steady(&host.socket(), tag)));
    let load = Load::start(draws.collect());
    load.under_way();
    for program in [leafd_binary(), &former] {
        for host in &mut hosts {
            host.stop();
            host.run_program(program);
            host.start();
            load.each_draws(DRAWS_WITHIN);
        }
    }
    let drawn = load.stop();
    println!("{} ids; errors: {:?}", drawn.ids.values().map(Vec::len).sum::<usize>(), drawn.errors);
    drawn.assert_sound();
}

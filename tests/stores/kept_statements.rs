//! The statements that PostgreSQL has prepared for a connection disappear or no longer fit: claims continue without an
//! error.

use std::time::Duration;

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::Drawn;
use leafd_tests::servers::pgbouncer::{PgBouncer, Pooling};
use leafd_tests::servers::{Postgres, Server as _, USER, apply_schema};
use leafd_wire::opcode;
use serde_json::json;

use crate::scene::store;

const TAG: &str = "ledger";
const HOSTS: usize = 4;
const DRAWS: usize = 150;

/// A host that makes a claim for each id of a strict tag.
fn strict_host(url: &str) -> Host {
    let mut host = Host::on_store(url).set("strict_hold", "0s").set("failover_settle", "1s");
    host.start();
    host
}

fn create(host: &Host) {
    host.admin(opcode::TAG_CREATE, &json!({ "tag": TAG, "strict": true }));
}

/// Each of these ids is a claim.
fn draw(host: &Host) -> Vec<u64> {
    let mut raw = host.raw();
    let ids: Vec<u64> = (0..DRAWS).flat_map(|_| raw.draw(TAG, 1)).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    ids
}

#[track_caller]
fn check_unique(ids: &[u64]) {
    let mut drawn = Drawn::default();
    drawn.add_ids(TAG, ids);
    drawn.assert_sound();
}

/// Hosts that claim at the same time get sessions of the server that others have used.
#[test]
fn a_pooler_gives_each_transaction_to_another_session() {
    let server = Postgres::new();
    apply_schema(&server.url());
    let pooler = PgBouncer::new(Pooling::Transaction, server.port(), &server);
    let hosts: Vec<Host> = (0..HOSTS).map(|_| strict_host(&pooler.url())).collect();
    create(&hosts[0]);
    let ids: Vec<u64> = std::thread::scope(|scope| {
        let drawing: Vec<_> = hosts.iter().map(|host| scope.spawn(|| draw(host))).collect();
        drawing.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), HOSTS * DRAWS);
    check_unique(&ids);
}

/// PostgreSQL refuses to run a prepared statement whose result types have changed.
#[test]
fn a_table_is_altered_between_claims() {
    let server = Postgres::new();
    apply_schema(&server.url());
    let host = strict_host(&server.url());
    create(&host);
    let mut ids = draw(&host);
    server.sql("ALTER TABLE leaf_alloc ALTER COLUMN description TYPE varchar(300) COLLATE \"C\"");
    ids.extend(draw(&host));
    assert!(ids.is_sorted());
    check_unique(&ids);
}

/// A statement that was prepared before still uses the table that is now hidden. A host without such statements uses
/// the new table, and both would issue the same ids.
#[test]
fn a_copy_of_the_table_hides_it() {
    let server = Postgres::new();
    apply_schema(&server.url());
    // The schema named after the role comes first in the search path.
    server.sql(&format!("CREATE SCHEMA {USER} AUTHORIZATION {USER}"));
    let host = strict_host(&server.url());
    create(&host);
    let mut ids = draw(&host);
    server.sql(&format!(
        "BEGIN; CREATE TABLE {USER}.leaf_alloc (LIKE public.leaf_alloc INCLUDING ALL);
         INSERT INTO {USER}.leaf_alloc SELECT * FROM public.leaf_alloc;
         ALTER TABLE {USER}.leaf_alloc OWNER TO {USER}; COMMIT"
    ));
    let end = |schema: &str| {
        let sql = format!("SELECT max_id FROM {schema}.leaf_alloc WHERE biz_tag = '{TAG}'");
        server.sql(&sql)[0][0].parse::<u64>().unwrap()
    };
    // A claim that finds another table would end the connection and with it the prepared statements, so the probe must
    // find it first.
    eventually("the probe has found it", Duration::from_secs(60), || {
        let known = store(&host);
        (known["ready"] == true && known["failovers"] == 1).then_some(())
    });
    ids.extend(draw(&host));
    check_unique(&ids);
    assert_eq!(end(USER), ids.last().unwrap() + 1);
    assert_eq!(end("public"), ids[DRAWS - 1] + 1, "nothing is claimed from the hidden one");
}

//! MySQL and MariaDB as operators run them: unusual settings, switches that are changed under load, servers that are
//! killed again and again, and standbys that take over in turn.

use std::time::Duration;

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::{Draw, Drawn, Load};
use leafd_tests::relay::Relay;
use leafd_tests::servers::mysqld::{Engine, Kind};
use leafd_tests::servers::{DATABASE, Mysqld, Server as _};
use leafd_wire::opcode;
use serde_json::json;

use crate::scene::{create, draw, report, store};

/// How soon ids must arrive, on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

/// How often each switch is turned on and off.
const TURNS: u32 = 10;

/// The settings of several servers, one after the other.
const SETTINGS: [&[&str]; 3] = [
    &[
        "--wait-timeout=2",
        "--interactive-timeout=2",
        "--transaction-isolation=SERIALIZABLE",
        "--completion-type=CHAIN",
        "--max-allowed-packet=1M",
        "--innodb-rollback-on-timeout=ON",
        "--innodb-lock-wait-timeout=1",
        "--lock-wait-timeout=1",
    ],
    &[
        "--sql-mode=ANSI,TRADITIONAL",
        "--innodb-flush-log-at-trx-commit=0",
        "--autocommit=OFF",
        "--default-storage-engine=MyISAM",
        "--binlog-format=MIXED",
        "--explicit-defaults-for-timestamp=OFF",
        "--innodb-autoinc-lock-mode=0",
        "--group-concat-max-len=4",
    ],
    &[
        "--lower-case-table-names=0",
        "--innodb-flush-log-at-trx-commit=2",
        "--default-time-zone=+05:30",
        "--sql-mode=",
        "--transaction-isolation=READ-UNCOMMITTED",
        "--auto-increment-increment=2",
        "--init-connect=SET NAMES latin1",
        "--div-precision-increment=0",
        "--completion-type=RELEASE",
    ],
];

on_both!(
    settings_that_others_chose,
    switches_are_turned_under_load,
    servers_and_daemons_are_killed_under_load,
    standbys_take_over_in_turn,
);

/// The settings of a server whose default collation ignores accents and case.
fn folding(engine: Engine) -> &'static str {
    match engine {
        Engine::MariaDb => "--collation-server=utf8mb4_unicode_520_ci",
        Engine::Mysql => "--collation-server=utf8mb4_0900_ai_ci",
    }
}

fn switches(engine: Engine) -> &'static [&'static str] {
    match engine {
        Engine::MariaDb => &["read_only"],
        Engine::Mysql => &["read_only", "super_read_only", "offline_mode"],
    }
}

fn settings_that_others_chose<K: Kind>() {
    for settings in SETTINGS {
        let server = Mysqld::<K>::with(
            &[&[folding(K::ENGINE), "--character-set-server=utf8mb4"], settings].concat(),
        );
        let hosts = [(); 2].map(|()| Host::on_store(&server.url()));
        let mut hosts = hosts.map(|host| host.set("max_step", "100"));
        hosts.iter_mut().for_each(Host::start);
        for tag in ["order", "ORDER", "ordér"] {
            create(&hosts[0], tag, 100);
        }
        let mut drawn = Drawn::default();
        for host in &hosts {
            for tag in ["order", "ORDER", "ordér"] {
                draw(&mut drawn, host, tag, 3, 200);
            }
            drawn.add_ids("snowflake", &[host.raw().draw_until("snowflake", WITHIN)]);
        }
        if settings.contains(&"--wait-timeout=2") {
            let of_daemons = "SELECT count(*) FROM information_schema.processlist WHERE user = 'leafd' AND time > 3";
            assert_eq!(server.sql(of_daemons), [["0"]], "none is idle for longer");
        }
        for host in &hosts {
            draw(&mut drawn, host, "order", 3, 200);
        }
        report::<Mysqld<K>>(&settings.join(" "), 0, &drawn, None);
        drawn.assert_sound();
    }
}

/// Two hosts under a load that claims all the time.
fn under_load(url: &str) -> ([Host; 2], Load) {
    let new = |()| Host::on_store(url).set("max_step", "1000").set("failover_settle", "2s");
    let mut hosts = [(); 2].map(new);
    hosts.iter_mut().for_each(Host::start);
    create(&hosts[0], "orders", 10);
    hosts[0].admin(opcode::TAG_CREATE, &json!({ "tag": "ledger", "strict": true }));
    let of = |host: &Host, tag: &str| Draw::steady(&host.socket(), tag);
    let draws =
        hosts.iter().flat_map(|host| ["orders", "ledger", "snowflake"].map(|tag| of(host, tag)));
    let load = Load::start(draws.collect());
    load.under_way();
    (hosts, load)
}

/// Requests may have failed while nothing could be written, so errors don't count.
#[track_caller]
fn judge<K: Kind>(what: &str, load: Load, hosts: &mut [Host]) {
    let mut drawn = load.stop();
    drawn.errors.clear();
    report::<Mysqld<K>>(what, drawn.count() as u64, &drawn, None);
    drawn.assert_sound();
    for host in hosts {
        eventually("it is well", WITHIN, || {
            (host.status()["health"]["state"] == "ok").then_some(())
        });
        host.assert_alive();
    }
}

fn switches_are_turned_under_load<K: Kind>() {
    let server = Mysqld::<K>::new();
    let (mut hosts, load) = under_load(&server.url());
    for turn in 0..TURNS {
        for switch in switches(K::ENGINE) {
            server.sql(&format!("SET GLOBAL {switch} = 1"));
            // Long enough to meet claims and, in some turns, to outlast the held ids.
            std::thread::sleep(Duration::from_millis(u64::from(turn) * 50));
            // super_read_only also switches read_only on.
            server.sql(&format!("SET GLOBAL {switch} = 0; SET GLOBAL read_only = 0"));
        }
        load.each_draws(WITHIN);
    }
    judge::<K>("read_only and the like turned on and off", load, &mut hosts);
}

fn servers_and_daemons_are_killed_under_load<K: Kind>() {
    for flushed in [1, 2] {
        let flush = format!("--innodb-flush-log-at-trx-commit={flushed}");
        let mut server = Mysqld::<K>::with(&[&flush]);
        let (mut hosts, load) = under_load(&server.url());
        for turn in 0..TURNS {
            server.kill();
            server.start();
            load.each_draws(WITHIN);
            let host = &mut hosts[turn as usize % 2];
            host.kill();
            host.start();
            load.each_draws(WITHIN);
        }
        judge::<K>(
            &format!("{TURNS} kills of the server and of daemons, {flush}"),
            load,
            &mut hosts,
        );
    }
}

/// A standby that lacks commits takes over, then another one in a planned switch, and then the one before in another
/// planned switch. Finally a standby without whose acknowledgement nothing is committed.
fn standbys_take_over_in_turn<K: Kind>() {
    let mut a = Mysqld::<K>::new();
    let link = Relay::to(a.port());
    let mut b = a.standby(link.port());
    let mut c = b.standby(b.port());
    let (mut hosts, load) =
        under_load(&Mysqld::<K>::url_of(&[a.port(), b.port(), c.port()], DATABASE));
    let goes_on = |failovers: u64| {
        for host in &hosts {
            eventually("it claims from the new primary", WITHIN, || {
                let known = store(host);
                (known["ready"] == true && known["failovers"] == failovers).then_some(())
            });
        }
        load.each_draws(WITHIN);
    };
    let follows = |standby: &Mysqld<K>, primary: &Mysqld<K>| {
        let position = primary.position();
        eventually("it follows", WITHIN, || standby.has_reached(&position).then_some(()));
    };
    follows(&c, &a);
    link.refuse();
    load.each_draws(WITHIN);
    a.kill();
    b.promote();
    goes_on(1);
    let switch = |from: &mut Mysqld<K>, to: &mut Mysqld<K>| {
        from.set_read_only(true);
        follows(to, from);
        from.kill();
        to.promote();
    };
    switch(&mut b, &mut c);
    goes_on(2);
    b.start();
    b.follow(c.port());
    switch(&mut c, &mut b);
    goes_on(3);
    c.start();
    let (of_primary, of_standby) = waits_for_standby(K::ENGINE);
    b.sql(of_primary);
    c.sql(of_standby);
    c.follow(b.port());
    follows(&c, &b);
    load.each_draws(WITHIN);
    b.kill();
    c.promote();
    goes_on(4);
    judge::<K>("four standbys took over", load, &mut hosts);
}

/// Semi-synchronous replication: the statements for the primary and the standby.
fn waits_for_standby(engine: Engine) -> (&'static str, &'static str) {
    match engine {
        Engine::MariaDb => (
            "SET GLOBAL rpl_semi_sync_master_timeout = 3600000; SET GLOBAL rpl_semi_sync_master_enabled = 1",
            "SET GLOBAL rpl_semi_sync_slave_enabled = 1",
        ),
        Engine::Mysql => (
            "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so';
             SET GLOBAL rpl_semi_sync_source_timeout = 3600000; SET GLOBAL rpl_semi_sync_source_enabled = 1",
            "INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so';
             SET GLOBAL rpl_semi_sync_replica_enabled = 1",
        ),
    }
}

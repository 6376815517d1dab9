//! MySQL and MariaDB as operators set them: settings that others chose, and switches that are turned under load.

use std::time::Duration;

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::{Draw, Drawn, Load};
use leafd_tests::servers::mysqld::{Engine, Kind, OfMariaDb, OfMysql};
use leafd_tests::servers::{Mysqld, Server as _};
use leafd_wire::opcode;
use serde_json::json;

use crate::scene::{create, draw, report};

/// Within which ids come, on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

/// How often each switch is turned on and off.
const TURNS: u32 = 10;

/// Each of them on a server of its own.
const SETTINGS: [&[&str]; 3] = [
    &["--wait-timeout=2", "--interactive-timeout=2", "--transaction-isolation=SERIALIZABLE"],
    &["--sql-mode=ANSI,TRADITIONAL", "--innodb-flush-log-at-trx-commit=0", "--autocommit=OFF"],
    &[
        "--lower-case-table-names=0",
        "--innodb-flush-log-at-trx-commit=2",
        "--default-time-zone=+05:30",
    ],
];

/// A server whose default collation folds accents and capitals.
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

#[test]
fn settings_that_others_chose_on_mariadb() {
    settings_that_others_chose::<OfMariaDb>();
}

#[test]
fn settings_that_others_chose_on_mysql() {
    if Engine::Mysql.is_tested() {
        settings_that_others_chose::<OfMysql>();
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

#[test]
fn switches_are_turned_under_load_on_mariadb() {
    switches_are_turned_under_load::<OfMariaDb>();
}

#[test]
fn switches_are_turned_under_load_on_mysql() {
    if Engine::Mysql.is_tested() {
        switches_are_turned_under_load::<OfMysql>();
    }
}

fn switches_are_turned_under_load<K: Kind>() {
    let server = Mysqld::<K>::new();
    let mut hosts = [(); 2].map(|()| Host::on_store(&server.url()).set("max_step", "1000"));
    hosts.iter_mut().for_each(Host::start);
    create(&hosts[0], "orders", 10);
    hosts[0].admin(opcode::TAG_CREATE, &json!({ "tag": "ledger", "strict": true }));
    let of = |host: &Host, tag: &str| Draw::steady(&host.socket(), tag);
    let draws =
        hosts.iter().flat_map(|host| ["orders", "ledger", "snowflake"].map(|tag| of(host, tag)));
    let load = Load::start(draws.collect());
    load.under_way();
    for turn in 0..TURNS {
        for switch in switches(K::ENGINE) {
            server.sql(&format!("SET GLOBAL {switch} = 1"));
            // Long enough to meet claims, and for some turns to outlast what is held.
            std::thread::sleep(Duration::from_millis(u64::from(turn) * 50));
            // The second one has switched the first one on.
            server.sql(&format!("SET GLOBAL {switch} = 0; SET GLOBAL read_only = 0"));
        }
        load.each_draws(WITHIN);
    }
    let mut drawn = load.stop();
    // Requests for strict ids wait in vain while nothing can be written.
    drawn.errors.clear();
    report::<Mysqld<K>>("read_only and the like turned on and off", 0, &drawn, None);
    drawn.assert_sound();
    for host in &mut hosts {
        eventually("it is well", WITHIN, || {
            (host.status()["health"]["state"] == "ok").then_some(())
        });
        host.assert_alive();
    }
}

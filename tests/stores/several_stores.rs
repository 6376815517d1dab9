//! The page on several stores, followed literally: its configurations and commands, on a PostgreSQL and a MariaDB. Only
//! addresses, folders and passwords differ.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use leafd_tests::host::{Host, leafd_binary};
use leafd_tests::servers::{MariaDb, PASSWORD, Postgres, Server, apply_schema};

const PAGE: &str = include_str!("../../docs/operate/several-stores.md");

/// The database of store b.
const SECOND: &str = "ids_b";

/// The blocks of a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let parts = PAGE.split("```").skip(1).step_by(2);
    let parts = parts.filter_map(|part| part.split_once('\n'));
    parts.filter(|(of, _)| *of == language).map(|(_, text)| text).collect()
}

/// The stores of the page, and a folder in place of `/etc/leafd`.
struct Site {
    postgres: Postgres,
    mariadb: MariaDb,
    folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Site {
        let (postgres, mariadb) = (Postgres::new(), MariaDb::new());
        postgres.create_database(SECOND);
        apply_schema(&Postgres::url_of(&[postgres.port()], SECOND));
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("c_password"), PASSWORD).unwrap();
        Site { postgres, mariadb, folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a configuration of the page to `new.toml`.
    fn configure(&self, text: &str) {
        let of_postgres = |database: &str| Postgres::url_of(&[self.postgres.port()], database);
        let text = text.replace("postgres://leafd@db-a/ids", &of_postgres("ids"));
        let text = text.replace("postgres://leafd@db-b/ids", &of_postgres(SECOND));
        let text = text.replace("mysql://leafd@db-c/ids", &self.mariadb.url());
        assert!(!text.contains("@db-"), "{text}");
        let text = text.replace("/etc/leafd", self.path().to_str().unwrap());
        fs::write(self.path().join("new.toml"), text).unwrap();
    }

    fn run(&self, script: &str) -> Output {
        let programs = leafd_binary().parent().unwrap().display();
        let mut command = Command::new("/bin/sh");
        command.args(["-euc", script]).current_dir(self.path()).env_clear();
        command.env("HOME", self.path()).env("PATH", format!("{programs}:/usr/bin:/bin"));
        command.env("LEAFD_STORE_PASSWORD_A", PASSWORD).env("LEAFD_STORE_PASSWORD_B", PASSWORD);
        command.output().unwrap()
    }

    /// Checks that a store's recorded role is as the page shows it.
    #[track_caller]
    fn records(&self, row: &[Vec<String>]) {
        let record: serde_json::Value = serde_json::from_str(&row[0][0]).unwrap();
        let role = record["role"].as_str().expect("a role");
        assert!(PAGE.contains(&format!("`{role}`")), "the page does not show {role:?}");
    }

    /// Draws from these tags through a daemon with this configuration.
    #[track_caller]
    fn draw(&self, tags: &[&str]) {
        let script: String = tags
            .iter()
            .map(|tag| format!("leafctl tag create {tag} --if-not-exists\nleafctl next {tag}\n"))
            .collect();
        let output = self.run(&format!(
            "export LEAFD_SOCKET=$PWD/socket
            leafd --config new.toml --state-dir $PWD/state --set failover_settle=1s --worker none >log 2>&1 &
            trap 'kill $!; wait $! || :' EXIT
            leafctl wait answering
            {script}"
        ));
        let log = fs::read_to_string(self.path().join("log")).unwrap();
        assert!(output.status.success(), "{output:?}\n{log}");
    }
}

const ROLE: &str = "SELECT value FROM leafd_meta WHERE name = 'role'";

#[test]
fn routes_are_introduced_for_a_database_with_tags_as_the_page_says() {
    let site = Site::new();
    // The database that already has tags is store c, so the routes must assign them to it.
    let mut host = Host::on_store(&site.mariadb.url()).set("failover_settle", "1s");
    host.start();
    host.create("orders");
    host.create("pay.cards");
    let first = host.raw().draw("orders", 1);
    host.stop();

    site.configure(blocks("toml")[0]);
    let [commands] = blocks("sh")[..] else { panic!("{PAGE}") };
    let [look, apply] = commands.lines().collect::<Vec<_>>()[..] else { panic!("{commands}") };
    let unrouted = site.mariadb.sql(ROLE);
    // Without --yes, the command shows what would change, and changes nothing.
    let shown = site.run(look);
    let said = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(said.contains("orders,pay.*->c") || said.contains("store c"), "{shown:?}");
    assert_eq!(site.mariadb.sql(ROLE), unrouted);
    let applied = site.run(apply);
    assert!(applied.status.success(), "{applied:?}");
    site.records(&site.mariadb.sql(ROLE));
    site.draw(&["orders", "pay.cards", "users"]);
    let rows = site.mariadb.sql("SELECT max_id FROM leaf_alloc WHERE biz_tag = 'orders'");
    assert!(rows[0][0].parse::<u64>().unwrap() > first[0], "{rows:?}");
    let elsewhere = site.mariadb.sql("SELECT biz_tag FROM leaf_alloc WHERE biz_tag = 'users'");
    assert!(elsewhere.is_empty(), "users has its place by its hash");
}

#[test]
fn independent_primaries_are_configured_as_the_page_says() {
    let site = Site::new();
    site.configure(blocks("toml")[1]);
    site.draw(&["events.clicks"]);
    site.records(&site.postgres.sql(ROLE));
}

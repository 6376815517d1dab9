//! The page for many hosts, followed literally on PostgreSQL and MariaDB: every statement and command in its order.
//! Only the name of the database's host differs.

use std::process::Command;

use leafd_tests::host::{Host, leafd_binary};
use leafd_tests::servers::{DATABASE, MariaDb, Postgres, Server};

const PAGE: &str = include_str!("../../docs/guide/many-hosts.md");

/// The blocks to run, in their order: the language and the text.
fn blocks() -> impl Iterator<Item = (&'static str, &'static str)> {
    let parts = PAGE.split("```").skip(1).step_by(2);
    parts.map(|part| part.split_once('\n').expect("a language"))
}

#[test]
fn a_new_postgresql_serves_what_the_page_creates() {
    let server = Postgres::empty(&[]);
    server.ask("postgres", "DROP DATABASE ids");
    server.ask("postgres", "DROP ROLE leafd");
    create_and_draw(&server, |sql| {
        let database = if sql.contains("CREATE DATABASE") { "postgres" } else { DATABASE };
        // A single call would be one transaction, in which no database can be created.
        sql.lines().for_each(|line| drop(server.ask(database, line)));
    });
}

#[test]
fn a_new_mariadb_serves_what_the_page_creates() {
    let server = MariaDb::empty(&[]);
    server.ask("mysql", "DROP USER leafd@'%'; DROP DATABASE ids");
    create_and_draw(&server, |sql| drop(server.ask("mysql", sql)));
}

fn create_and_draw<S: Server>(server: &S, ask: impl Fn(&str)) {
    let here = |text: &str| {
        let url = format!("{}://", S::SCHEME);
        let at = format!("@127.0.0.1:{}/", server.port());
        text.replace("postgres://", &url).replace("@db1/", &at).replace("@db1,db2/", &at)
    };
    let mut daemon = None;
    for (language, text) in blocks() {
        match language {
            "sql" if text.contains("@'%'") == (S::SCHEME == "mysql") => ask(text),
            "sql" => {}
            "sh" => run(&here(text)),
            "toml" => daemon = here(text).split('"').nth(1).map(str::to_owned),
            other => panic!("a block of {other}: {text}"),
        }
    }
    let url = daemon.expect("the daemon's configuration");
    let mut host = Host::on_store(&url).variable("LEAFD_STORE_PASSWORD", "password-of-leafd");
    host.start();
    host.create("orders");
    assert_eq!(host.raw().draw("orders", 2), [1, 2]);
    let said = String::from_utf8(host.command(Some("doctor")).output().unwrap().stdout).unwrap();
    assert!(
        said.contains("has all privileges that leafd needs") && said.contains("\n0 failed"),
        "{said}"
    );
}

#[track_caller]
fn run(script: &str) {
    let programs = leafd_binary().parent().unwrap().display();
    let mut command = Command::new("/bin/sh");
    command.args(["-eu", "-c", script]).env_clear().env("HOME", "/nonexistent");
    let output = command.env("PATH", format!("{programs}:/usr/bin:/bin")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {said}");
}

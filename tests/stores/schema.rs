//! `leafd schema` for several stores: the tables of all are created in one run, new tables are named, and an
//! unavailable store doesn't prevent the others from getting theirs.

use std::fs;
use std::process::{Command, Output};

use leafd_tests::host::{Host, leafd_binary};
use leafd_tests::servers::{MariaDb, PASSWORD, Postgres, Server, apply_schema};
use tempfile::NamedTempFile;

on_each_server!(a_database_may_have_any_letters_in_its_name);

/// MySQL and MariaDB report the database's name as part of what distinguishes the store, which leafd records in its own
/// table.
fn a_database_may_have_any_letters_in_its_name<S: Server>() {
    let server = S::empty(&[]);
    let quote = if S::SCHEME == "mysql" { '`' } else { '"' };
    server.create_database(&format!("{quote}ids größe {quote}{quote}{quote}"));
    let url = S::url_of(&[server.port()], &format!("ids%20gr%C3%B6%C3%9Fe%20{}", quoted(quote)));
    apply_schema(&url);
    let mut host = Host::on_store(&url);
    host.start();
    host.create("orders");
    assert_eq!(host.raw().draw("orders", 2), [1, 2]);
}

/// A character, percent-encoded for a URL.
fn quoted(character: char) -> String {
    format!("%{:02X}", u32::from(character))
}

/// Runs `leafd schema` with this subcommand and configuration.
fn schema(word: &str, file: &NamedTempFile) -> Output {
    Command::new(leafd_binary())
        .args(["schema", word, "--config", file.path().to_str().unwrap()])
        .env_clear()
        .env("HOME", "/nonexistent")
        .env("LEAFD_STORE_PASSWORD_A", PASSWORD)
        .env("LEAFD_STORE_PASSWORD_B", PASSWORD)
        .output()
        .unwrap()
}

#[track_caller]
fn said(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn a_binary_log_of_statements_is_refused_by_name() {
    let mariadb = MariaDb::empty(&["--binlog-format=STATEMENT"]);
    let output = Command::new(leafd_binary())
        .args(["schema", "apply", "--store", &mariadb.url()])
        .env("LEAFD_STORE_PASSWORD", PASSWORD)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("binlog_format") && words.contains("set it to ROW or MIXED"), "{words}");
}

#[test]
fn the_tables_of_several_stores_are_made_in_one_go() {
    let (postgres, mut mariadb) = (Postgres::empty(&[]), MariaDb::empty(&[]));
    let (a, b) = (postgres.url(), mariadb.url());
    let file = NamedTempFile::new().unwrap();
    let routes = "[[routes]]\ntags = [\"*\"]\nhash = [\"a\", \"b\"]\n";
    fs::write(file.path(), format!("stores = {{ a = {a:?}, b = {b:?} }}\n{routes}")).unwrap();

    // The URL's parameters are not shown.
    let [a, b] = [a, b].map(|url| url.split('?').next().unwrap().to_owned());
    let printed = said(&schema("print", &file)).join("\n");
    for url in [&a, &b] {
        assert!(printed.contains(&format!("-- for {url}\n")), "{printed}");
    }
    let made = said(&schema("apply", &file));
    let tables = "leaf_alloc, leafd_meta, leafd_tag, leafd_host";
    for (line, url, others) in [(&made[0], &a, &[][..]), (&made[1], &b, &["the mark"])] {
        assert!(line.starts_with(&format!("created in {url}: {tables}")), "{line}");
        assert!(others.iter().all(|other| line.contains(other)), "{line}");
    }
    let nothing = |url| format!("the tables of {url} already exist; nothing was changed");
    assert_eq!(said(&schema("apply", &file)), [nothing(&a), nothing(&b)]);

    // Missing tables are created again, and named.
    postgres.sql("DROP TABLE leafd_layout");
    mariadb.sql("DROP TABLE leafd_layout");
    let again = [format!("created in {a}: leafd_layout"), format!("created in {b}: leafd_layout")];
    assert_eq!(said(&schema("apply", &file)), again);

    mariadb.kill();
    postgres.sql("DROP TABLE leafd_layout");
    let output = schema("apply", &file);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), again[0].clone() + "\n");
    let refusal = String::from_utf8_lossy(&output.stderr);
    assert_eq!(refusal.matches(&b).count(), 1, "{refusal}");
    assert!(refusal.contains("check that the database is running"), "{refusal}");
}

//! The image: its content, the user it runs as, and that it finds and trusts a database without any other files.

use leafd_tests::servers::PASSWORD;
use serde_json::Value;

use crate::database::Database;
use crate::engine::{Engine, IMAGE};

#[test]
fn it_has_the_two_programs_and_no_more() {
    let engine = Engine::with_images();
    engine.podman(&["create", "--name", "still", IMAGE]);
    let archive = engine.path("still.tar");
    engine.podman(&["export", "--output", archive.to_str().unwrap(), "still"]);
    let listed = engine.command("tar").arg("tvf").arg(&archive).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let (mut names, mut size) = (Vec::new(), 0);
    for line in listed.lines().filter(|line| !line.starts_with('d')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        names.push(words[5]);
        size += words[2].parse::<u64>().unwrap();
        assert!(words[0].starts_with('-') && !words[0].contains('s'), "{line}");
        assert_eq!(words[1], "0/0", "nobody else may write to it: {line}");
    }
    names.sort_unstable();
    let programs = ["usr/bin/leafctl", "usr/bin/leafd"];
    let licenses =
        ["LICENSE", "LICENSE-third-party"].map(|name| format!("usr/share/doc/leafd/{name}"));
    assert_eq!(names[..2], programs, "{listed}");
    assert_eq!(names[2..], licenses, "{listed}");
    println!("the image as these tests build it: {:.1} MB\n{listed}", size as f64 / 1e6);

    let known: Value = serde_json::from_str(&engine.podman(&["image", "inspect", IMAGE])).unwrap();
    let config = &known[0]["Config"];
    assert_eq!(config["User"], "10001:10001");
    assert_eq!(config["Entrypoint"], serde_json::json!(["/usr/bin/leafd"]));
    let no_shell = engine.try_podman(&["run", "--rm", "--entrypoint", "sh", IMAGE]);
    assert!(!no_shell.status.success());
}

/// The file in which systems keep trusted authorities.
const SYSTEMS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Makes leafd create the tables from an unprivileged container, with the authority's certificate in a file and the
/// database's name server.
fn apply(engine: &Engine, database: &Database, file: &str, url: &str) -> (bool, String) {
    let authority = format!("{}:{file}:ro", database.authority().display());
    let names = format!("{}:/etc/resolv.conf:ro", database.resolv_conf().display());
    let password = format!("LEAFD_STORE_PASSWORD={PASSWORD}");
    let contained = [
        "run",
        "--rm",
        "--read-only",
        "--read-only-tmpfs=false",
        "--cap-drop",
        "all",
        "--security-opt",
        "no-new-privileges",
        "--network",
        "host",
        "--volume",
        &authority,
        "--volume",
        &names,
        "--env",
        &password,
        IMAGE,
        "schema",
        "apply",
        "--store",
        url,
    ];
    let output = engine.try_podman(&contained);
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.success(), text)
}

#[test]
fn it_finds_a_database_by_dns_and_trusts_only_its_authority() {
    let engine = Engine::with_images();
    let database = Database::new();
    let named = "/etc/leafd/ca.pem";
    let ours = format!("sslmode=verify-full&sslrootcert={named}");
    let apply = |file: &str, url: &str| apply(&engine, &database, file, url);

    let (done, text) = apply(named, &database.url("sslmode=verify-full"));
    assert!(!done && text.contains("sslrootcert"), "without an authority: {text}");
    let (done, text) = apply(named, &database.other_url(&ours));
    assert!(!done && text.contains("certificate"), "by another name: {text}");
    let (done, text) = apply(named, &database.url(&ours).replace("db.", "nowhere."));
    assert!(!done && text.contains("nowhere."), "by an unknown name: {text}");

    let (done, text) = apply(named, &database.url(&ours));
    assert!(done, "{text}");
    let (done, text) = apply(SYSTEMS, &database.url("sslmode=verify-full"));
    assert!(done, "{text}");
    assert!(database.looked_up(), "its name is nowhere but in DNS");
}

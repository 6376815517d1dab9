//! The programs in `docs/guide/other-languages.md`, each run by its interpreter with the installed C library.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::c_library::{folder, installed};
use crate::host::{Host, die_with_parent};

const PAGE: &str = include_str!("../../docs/guide/other-languages.md");

/// The page's program with this name, in a file.
fn program(name: &str, extension: &str) -> PathBuf {
    let head = PAGE.lines().find(|line| {
        line.strip_prefix("```").and_then(|of| of.split_once(' ')).is_some_and(|of| of.1 == name)
    });
    let (_, from) = PAGE.split_once(&format!("{}\n", head.expect("a program"))).expect("its text");
    let (text, _) = from.split_once("```").expect("its end");
    let place = folder().join("other-languages").join(name);
    fs::create_dir_all(&place).expect("a folder");
    let file = place.join(format!("program.{extension}"));
    fs::write(&file, text).expect("a file");
    file
}

/// The command that runs a program that draws ids of a tag.
fn command(interpreter: &[&str], file: &Path, host: &Host, tag: &str) -> Command {
    let mut command = Command::new(interpreter[0]);
    command.args(&interpreter[1..]).arg(file).arg(tag);
    command.env("LEAFD_SOCKET", host.socket()).env("LD_LIBRARY_PATH", installed().join("lib"));
    die_with_parent(&mut command);
    command
}

fn run(interpreter: &[&str], file: &Path, host: &Host, tag: &str) -> Output {
    let name = interpreter[0];
    let output = command(interpreter, file, host, tag).output();
    output.unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn every_program_of_the_page_draws_ids_and_tells_failures() {
    let mut host = Host::new().worker(17);
    host.start();
    host.create("orders");
    let python = "/usr/bin/python3";
    let languages: [(&str, &str, &[&str]); 5] = [
        ("ctypes", "py", &[python]),
        ("cffi", "py", &[python]),
        ("luajit", "lua", &["luajit"]),
        ("php", "php", &["php"]),
        ("ruby", "rb", &["ruby"]),
    ];
    assert_eq!(PAGE.matches("```").count(), 2 * languages.len(), "a program that isn't run");
    let mut ids = HashSet::new();
    for (name, extension, interpreter) in languages {
        let file = program(name, extension);
        for _ in 0..2 {
            let output = run(interpreter, &file, &host, "orders");
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{name}: {output:?}");
            let drawn: Vec<u64> =
                printed.split_whitespace().map(|id| id.parse().expect("an id")).collect();
            assert_eq!(drawn.len(), 5, "{name}: {printed}");
            for id in drawn {
                assert!(id > 0 && i64::try_from(id).is_ok(), "{name}: {id}");
                assert!(ids.insert(id), "{name}: id {id} came twice");
            }
        }
        let output = run(interpreter, &file, &host, "nosuch");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("TAG_UNKNOWN"), "{name}: {output:?}");
        assert!(said.contains("leafctl tag create"), "{name}: {said}");
    }
    println!("{} ids are unique", ids.len());
    host.stop();
}

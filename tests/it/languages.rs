//! Processes in all languages use one daemon that is restarted again and again: they share no id.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::c_library::{compile, folder, installed, target};
use crate::drawing::{Drawers, drawn};
use crate::host::{Host, die_with_parent};

/// The number of processes in each of Rust, C and Python.
const PROCESSES: usize = 4;

/// The number of processes in each of Java, Go and Node, which use several threads.
const LARGE_PROCESSES: usize = 2;

/// How long programs may take to be started, on a busy machine.
const STARTED_WITHIN: Duration = Duration::from_secs(120);

const A_WHILE: Duration = Duration::from_millis(300);

/// Writes ids of every form to a file until standard input ends. Only errors that a retry may fix are allowed.
const IN_PYTHON: &str = r#"
import array, select, sys
import leafd

client = leafd.Client(sys.argv[1])
with open(sys.argv[2], "ab", buffering=0) as file:
    while not select.select([sys.stdin], [], [], 0.001)[0]:
        ids = array.array("Q")
        try:
            ids.extend(client.next_id("orders") for _ in range(20))
            ids.append(client.next_id_direct("orders"))
            ids.extend(client.next_ids("orders", 5))
        except leafd.Error as error:
            assert error.retryable, error
        file.write(ids.tobytes())
"#;

/// The Python package as installed, with the installed C library.
fn python_path() -> PathBuf {
    let (path, library) = (folder().join("python"), installed().join("lib/libleafd.so"));
    let package = path.join("leafd");
    fs::create_dir_all(&package).unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../client/python/src/leafd");
    for entry in fs::read_dir(sources).unwrap() {
        let file = entry.unwrap().path();
        if file.extension() == Some("py".as_ref()) {
            fs::copy(&file, package.join(file.file_name().unwrap())).unwrap();
        }
    }
    fs::copy(library, package.join("libleafd.so")).unwrap();
    path
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Runs a build command, and returns its output.
#[track_caller]
fn build(command: &mut Command) -> String {
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{command:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The program in Go, built like that of a user of the module.
fn in_go() -> Command {
    let place = folder().join("go");
    fs::create_dir_all(&place).unwrap();
    fs::copy(root().join("tests/it/languages/draw.go"), place.join("main.go")).unwrap();
    let module = root().join("client/go");
    let requires = format!(
        "module draw\n\ngo 1.21\n\nrequire leafd.io/leafd v0.0.0\n\nreplace leafd.io/leafd => {}\n",
        module.display()
    );
    fs::write(place.join("go.mod"), requires).unwrap();
    let mut go = Command::new("go");
    build(
        go.args(["build", "-o", "draw", "."])
            .env("GOCACHE", target().join("go-cache"))
            .current_dir(&place),
    );
    Command::new(place.join("draw"))
}

fn in_java() -> Command {
    let mut jar = Command::new(root().join("client/java/build"));
    let jar = build(jar.env("CARGO_TARGET_DIR", target()));
    let mut java = Command::new("java");
    java.args(["-Xmx256m", "-cp", &jar]).arg(root().join("tests/it/languages/Draw.java"));
    java
}

fn in_node() -> Command {
    let mut node = Command::new("node");
    node.arg(root().join("tests/it/languages/draw.mjs"));
    node
}

/// The package needs Node 20; Debian 12 has Node 18.
fn node_is_new_enough() -> bool {
    let version = build(Command::new("node").arg("--version"));
    let major = version.trim_start_matches('v').split('.').next().unwrap();
    major.parse::<u32>().unwrap() >= 20
}

/// The module needs Go 1.21; Debian 12 has Go 1.19.
pub(crate) fn go_is_new_enough() -> bool {
    let version = build(Command::new("go").args(["env", "GOVERSION"]));
    let minor = version.trim_start_matches("go1.").split('.').next().unwrap();
    minor.parse::<u32>().unwrap() >= 21
}

/// Makes the command of a language's program.
type Program = fn() -> Command;

#[track_caller]
fn start(command: &mut Command) -> Child {
    die_with_parent(command.stdin(Stdio::piped())).spawn().unwrap()
}

#[test]
fn processes_of_all_languages_draw_while_the_daemon_comes_and_goes() {
    let mut host = Host::new().worker(17);
    host.start();
    host.create("orders");
    let record = host.path("drawn");
    let (program, python_path) = (compile("gcc", "tests/draw.c", &[]), python_path());
    let mut large: Vec<(&str, Program)> = vec![("java", in_java)];
    if go_is_new_enough() {
        large.push(("go", in_go));
    } else {
        println!("NOT TESTED: Go: version 1.21 is needed");
    }
    if node_is_new_enough() {
        large.push(("node", in_node));
    } else {
        println!("NOT TESTED: Node: version 20 is needed");
    }

    let rust = Drawers::start(PROCESSES, &host.socket(), &record);
    let file = |language: &str| record.join(format!("orders.{language}"));
    let mut others = Vec::new();
    for _ in 0..PROCESSES {
        let mut c = Command::new(&program);
        others.push(start(c.arg(host.socket()).arg("until").arg(file("c")).arg("0")));
        let mut python = Command::new("python3");
        python.env("PYTHONPATH", &python_path).args(["-c", IN_PYTHON]);
        others.push(start(python.arg(host.socket()).arg(file("python"))));
    }
    for (language, command) in &large {
        let mut command = command();
        command.arg(host.socket()).arg(file(language));
        others.extend((0..LARGE_PROCESSES).map(|_| start(&mut command)));
    }
    rust.under_way();
    let languages: Vec<&str> =
        ["c", "python"].into_iter().chain(large.iter().map(|(language, _)| *language)).collect();
    let written = |language: &str| fs::metadata(file(language)).map_or(0, |found| found.len() / 8);
    let end = Instant::now() + STARTED_WITHIN;
    while let Some(idle) = languages.iter().find(|language| written(language) == 0) {
        assert!(Instant::now() < end, "{idle} draws nothing");
        std::thread::sleep(Duration::from_millis(5));
    }

    let a_while = || std::thread::sleep(A_WHILE);
    for _ in 0..2 {
        a_while();
        host.stop();
        host.start();
        a_while();
        host.kill();
        a_while();
        host.replace();
        host.start();
        a_while();
        host.signal(Signal::SIGSTOP);
        a_while();
        host.signal(Signal::SIGCONT);
    }
    a_while();

    for process in &mut others {
        drop(process.stdin.take());
    }
    for mut process in others {
        assert!(process.wait().unwrap().success(), "a process failed: see its words above");
    }
    rust.stop();
    let (orders, snowflakes) = (drawn(&record, "orders"), drawn(&record, "snowflake"));
    orders.assert_unique();
    snowflakes.assert_unique();
    let all = orders.ids.len() as u64;
    let of_others: Vec<u64> = languages.iter().map(|language| written(language)).collect();
    let rust = all - of_others.iter().sum::<u64>();
    println!(
        "{languages:?}: {of_others:?} ids, Rust: {rust} and {} snowflakes",
        snowflakes.ids.len()
    );
    let least = of_others.into_iter().chain([rust]).min().unwrap();
    assert!(least > 500, "hardly anything was drawn");
    host.stop();
}

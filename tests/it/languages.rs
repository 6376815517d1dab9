//! Processes of C, Python and Rust side by side at one daemon that comes and goes: they share no id.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::c_library::{compile, folder, installed};
use crate::drawing::{Drawers, drawn};
use crate::host::{Host, die_with_parent};

/// Of each language.
const PROCESSES: usize = 4;

const A_WHILE: Duration = Duration::from_millis(300);

/// Writes ids of every form to a file until standard input ends. Only what a retry may mend may go wrong.
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

/// The Python package as it is when installed, with the C library that was.
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

#[track_caller]
fn start(command: &mut Command) -> Child {
    die_with_parent(command.stdin(Stdio::piped())).spawn().unwrap()
}

#[test]
fn processes_of_three_languages_draw_while_the_daemon_comes_and_goes() {
    let mut host = Host::new().worker(17);
    host.start();
    host.create("orders");
    let record = host.path("drawn");
    let (of_c, of_python) = (record.join("orders.c"), record.join("orders.python"));
    let (program, python_path) = (compile("gcc", "tests/draw.c", &[]), python_path());

    let rust = Drawers::start(PROCESSES, &host.socket(), &record);
    let mut others = Vec::new();
    for _ in 0..PROCESSES {
        let mut c = Command::new(&program);
        others.push(start(c.arg(host.socket()).arg("until").arg(&of_c).arg("0")));
        let mut python = Command::new("python3");
        python.env("PYTHONPATH", &python_path).args(["-c", IN_PYTHON]);
        others.push(start(python.arg(host.socket()).arg(&of_python)));
    }
    rust.under_way();
    let written = |file: &Path| fs::metadata(file).map_or(0, |found| found.len() / 8);
    let end = Instant::now() + Duration::from_secs(20);
    while written(&of_c) == 0 || written(&of_python) == 0 {
        assert!(Instant::now() < end, "C or Python draws nothing");
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
    let (c, python, all) = (written(&of_c), written(&of_python), orders.ids.len() as u64);
    let rust = all - c - python;
    println!("C: {c} ids, Python: {python}, Rust: {rust} and {} snowflakes", snowflakes.ids.len());
    assert!(c.min(python).min(rust) > 1000, "hardly anything was drawn");
    host.stop();
}

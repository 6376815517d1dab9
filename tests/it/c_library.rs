//! The C library as packagers and C programmers use it: installed by `make`, linked by both compilers, run under
//! AddressSanitizer and valgrind.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use leafd_wire::Status;

use crate::host::{Host, die_with_parent, leafd_binary};

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];
const PREFIX: &str = "/opt/leafd";

/// How a test program is compiled and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Gcc,
    Clang,
    /// Clang's AddressSanitizer, with the undefined behaviour sanitizer as well.
    Asan,
    /// ThreadSanitizer, with the suppressions that are installed.
    Tsan,
    Valgrind,
}

fn capi() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../client/capi")
}

/// Where programs and the library go, in the target folder.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = target().join("c-library");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        make(&folder, "build");
        make(&folder, "install");
        folder
    })
}

/// The folder that cargo builds into.
pub fn target() -> &'static Path {
    leafd_binary().ancestors().nth(2).expect("target/PROFILE/leafd")
}

fn make(destination: &Path, goal: &str) {
    succeed(&mut make_command(destination, goal));
}

fn make_command(destination: &Path, goal: &str) -> Command {
    let mut command = Command::new("make");
    command.arg("--silent").arg("-C").arg(capi()).arg(goal);
    command.arg(format!("DESTDIR={}", destination.display())).arg(format!("PREFIX={PREFIX}"));
    // Flags of the make that may run these tests must not reach this one.
    command.env_remove("MAKEFLAGS").env("CARGO_TARGET_DIR", target());
    command
}

/// The folder to which `make install` has installed.
pub fn installed() -> PathBuf {
    folder().join(PREFIX.trim_start_matches('/'))
}

/// Runs a command and returns its output; fails if the command fails.
#[track_caller]
pub fn succeed(command: &mut Command) -> String {
    let output =
        die_with_parent(command).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (printed, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{printed}{said}", output.status);
    printed.into_owned()
}

/// Compiles a program that needs no shared library at all.
fn compile_static(compiler: &str, source: &str) -> PathBuf {
    let program = folder().join(format!("static-{compiler}"));
    let mut command = Command::new(compiler);
    command.arg("-static").arg(capi().join(source)).arg("-o").arg(&program);
    succeed(command.args(pkg_config(&["--static", "--cflags", "--libs"])));
    let dynamic = succeed(Command::new("readelf").arg("--dynamic").arg(&program));
    assert!(!dynamic.contains("NEEDED"), "{dynamic}");
    program
}

fn pkg_config(arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.arg(format!("--define-variable=prefix={}", installed().display()));
    command.arg(format!("--define-variable=libdir={}/lib", installed().display()));
    command.arg(format!("--define-variable=includedir={}/include", installed().display()));
    command.env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig")).args(arguments).arg("leafd");
    succeed(&mut command).split_whitespace().map(str::to_owned).collect()
}

/// Compiles a program of `client/capi` and returns its path.
#[track_caller]
pub fn compile(compiler: &str, source: &str, more: &[&str]) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let program = folder().join(format!("program{number}"));
    let library = installed().join("lib");
    let mut command = Command::new(compiler);
    command
        .args(STRICT)
        .args(["-O1", "-g", "-pthread"])
        .args(more)
        .arg(capi().join(source))
        .arg("-o")
        .arg(&program);
    command
        .args(pkg_config(&["--cflags", "--libs"]))
        .arg(format!("-Wl,-rpath,{}", library.display()));
    succeed(&mut command);
    program
}

/// The command that runs a test program in this way.
#[track_caller]
pub fn program(way: Way, source: &str) -> Command {
    match way {
        Way::Gcc => Command::new(compile("gcc", source, &[])),
        Way::Clang => Command::new(compile("clang", source, &[])),
        Way::Asan => {
            let flags = [
                "-fsanitize=address,undefined",
                "-fno-sanitize-recover=all",
                "-fno-omit-frame-pointer",
            ];
            Command::new(compile("clang", source, &flags))
        }
        Way::Tsan => {
            let suppressions = installed().join("share/leafd/tsan.supp");
            let options = format!("suppressions={}", suppressions.display());
            let mut command = Command::new(compile("clang", source, &["-fsanitize=thread"]));
            command.env("TSAN_OPTIONS", options);
            command
        }
        Way::Valgrind => {
            let mut command = Command::new("valgrind");
            // Children are checked like their parents, and memory that the parent had is still reachable.
            command.args(["--quiet", "--error-exitcode=99", "--fair-sched=yes"]);
            command.args(["--leak-check=full", "--errors-for-leak-kinds=definite,indirect"]);
            command.arg(compile("gcc", source, &[]));
            command
        }
    }
}

fn host() -> Host {
    let mut host = Host::new().worker(17);
    host.start();
    host.create("orders");
    host
}

#[track_caller]
fn check_unique(ids: &[u64]) {
    let unique: HashSet<u64> = ids.iter().copied().collect();
    assert_eq!(unique.len(), ids.len(), "an id came twice");
    assert!(ids.iter().all(|&id| id > 0 && i64::try_from(id).is_ok()));
    println!("{} ids are unique", ids.len());
}

fn recorded(file: &Path) -> Vec<u64> {
    let bytes = fs::read(file).unwrap();
    let (ids, rest) = bytes.as_chunks::<8>();
    assert!(rest.is_empty());
    ids.iter().map(|id| u64::from_le_bytes(*id)).collect()
}

#[test]
fn make_install_honours_prefix_and_destdir() {
    let lib = installed().join("lib");
    assert_eq!(fs::read_link(lib.join("libleafd.so")).unwrap(), Path::new("libleafd.so.1"));
    let header = fs::read_to_string(capi().join("include/leafd.h")).unwrap();
    assert_eq!(fs::read_to_string(installed().join("include/leafd.h")).unwrap(), header);
    assert!(installed().join("include/leafd.hpp").exists());
    let description = fs::read_to_string(lib.join("pkgconfig/leafd.pc")).unwrap();
    assert!(
        description.contains(&format!("prefix={PREFIX}\nlibdir={PREFIX}/lib\n")),
        "{description}"
    );
    assert!(
        !description.contains(folder().to_str().unwrap()),
        "DESTDIR is for packing only: {description}"
    );
    assert!(description.contains("\nLicense: Apache-2.0\n"), "{description}");
    let elsewhere = tempfile::tempdir().unwrap();
    // Root may install without having cargo.
    succeed(make_command(elsewhere.path(), "install").arg("CARGO=false"));
    make(elsewhere.path(), "uninstall");
    let left =
        Command::new("find").arg(elsewhere.path()).args(["-not", "-type", "d"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
}

#[test]
fn the_library_needs_the_c_library_alone_and_has_its_abi_in_its_name() {
    let library = installed().join("lib/libleafd.so.1");
    let dynamic = succeed(Command::new("readelf").arg("--dynamic").arg("--wide").arg(&library));
    let entries = |kind: &str| -> Vec<String> {
        let lines = dynamic.lines().filter(|line| line.contains(kind));
        lines
            .filter_map(|line| Some(line.split_once('[')?.1.trim_end_matches(']').to_owned()))
            .collect()
    };
    assert_eq!(entries("(SONAME)"), ["libleafd.so.1"]);
    let needed = entries("(NEEDED)");
    // The loader belongs to the C library as well; it is needed for thread-local storage.
    let of_libc = |name: &String| name == "libc.so.6" || name.starts_with("ld-linux");
    assert!(!needed.is_empty() && needed.iter().all(of_libc), "{needed:?}");
}

/// PHP does this after each request if the library is not preloaded. The shared client and its connections would be
/// lost.
#[test]
fn the_library_stays_when_it_is_closed() {
    let library = installed().join("lib/libleafd.so.1");
    let close = "import sys, ctypes, _ctypes
_ctypes.dlclose(ctypes.CDLL(sys.argv[1])._handle)
assert 'libleafd.so' in open('/proc/self/maps').read(), 'it was unloaded'";
    succeed(Command::new("python3").args(["-c", close]).arg(&library));
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let library = installed().join("lib/libleafd.so.1");
    let symbols =
        succeed(Command::new("nm").args(["--dynamic", "--defined-only", "-P"]).arg(&library));
    let names = symbols.lines().filter_map(|line| line.split(' ').next());
    // The version's own name is a symbol too.
    let exported: BTreeSet<&str> = names
        .filter(|name| *name != "LEAFD_1")
        .map(|name| name.strip_suffix("@@LEAFD_1").unwrap_or_else(|| panic!("{name}")))
        .collect();
    let header = fs::read_to_string(capi().join("include/leafd.h")).unwrap();
    // Declarations start at the margin.
    let declared: BTreeSet<&str> = header
        .lines()
        .filter(|line| {
            line.starts_with(|first: char| first.is_ascii_lowercase()) && line.contains('(')
        })
        .filter_map(|line| line.split('(').next()?.rsplit([' ', '*']).next())
        .collect();
    assert_eq!(exported, declared);
}

#[test]
fn the_headers_statuses_are_the_protocols() {
    let header = fs::read_to_string(capi().join("include/leafd.h")).unwrap();
    let statuses: BTreeMap<u32, &str> = header
        .lines()
        .filter_map(|line| {
            line.trim().strip_prefix("LEAFD_STATUS_")?.strip_suffix(',')?.split_once(" = ")
        })
        .map(|(name, number)| (number.parse().unwrap(), name))
        .collect();
    let of_the_daemon: Vec<_> =
        statuses.range(..1000).map(|(number, name)| (*number, *name)).collect();
    let wire: Vec<_> = Status::ALL.iter().map(|status| (*status as u32, status.name())).collect();
    assert_eq!(of_the_daemon, wire);
    assert_eq!(statuses.range(1000..).count(), 10);
    // Python's exceptions are the same.
    let python = capi().join("../python/src/leafd/_errors.py");
    let python = fs::read_to_string(python).unwrap();
    for (number, name) in &statuses {
        assert!(python.contains(&format!("\n    {name} = {number}\n")), "{name} = {number}");
    }
}

#[test]
fn the_header_stands_alone_in_each_language() {
    let alone = folder().join("alone");
    for (compilers, extension, standards) in
        [(["gcc", "clang"], "c", ["c99", "c11"]), (["g++", "clang++"], "cpp", ["c++11", "c++17"])]
    {
        let source = alone.with_extension(extension);
        let program = "#include <leafd.h>\nint main(void) { return leafd_abi_version() != 1; }\n";
        fs::write(&source, program).unwrap();
        for compiler in compilers {
            for standard in standards {
                let program =
                    compile(compiler, source.to_str().unwrap(), &[&format!("-std={standard}")]);
                succeed(&mut Command::new(program));
            }
        }
    }
}

#[test]
fn the_examples_draw_ids() {
    let mut host = host();
    let mut ids = Vec::new();
    let programs = [
        (compile("gcc", "examples/orders.c", &[]), 15),
        (compile("clang", "examples/orders.c", &[]), 15),
        (compile("g++", "examples/orders.cpp", &["-std=c++17"]), 10),
        (compile("clang++", "examples/orders.cpp", &["-std=c++17"]), 10),
        (compile_static("gcc", "examples/orders.c"), 15),
        (compile_static("clang", "examples/orders.c"), 15),
    ];
    for (program, count) in programs {
        let mut command = Command::new(&program);
        let printed = succeed(command.args(["orders", "5"]).env("LEAFD_SOCKET", host.socket()));
        let drawn: Vec<u64> = printed.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(drawn.len(), count, "{program:?}");
        ids.extend(drawn);
        let mut command = Command::new(&program);
        let refused =
            command.args(["nosuch", "1"]).env("LEAFD_SOCKET", host.socket()).output().unwrap();
        assert!(!refused.status.success());
        assert!(String::from_utf8_lossy(&refused.stderr).contains("TAG_UNKNOWN"), "{refused:?}");
    }
    check_unique(&ids);
    host.stop();
}

/// The first block in a language in the README.
fn of_the_readme(language: &str) -> &'static str {
    const README: &str = include_str!("../../README.md");
    let (_, from) = README.split_once(&format!("```{language}\n")).unwrap();
    from.split_once("```").unwrap().0
}

#[test]
fn the_readmes_program_draws_an_id() {
    let mut host = host();
    let source = folder().join("order.c");
    fs::write(&source, of_the_readme("c")).unwrap();
    let mut order = Command::new(compile("gcc", source.to_str().unwrap(), &[]));
    let mut ids = Vec::new();
    for _ in 0..3 {
        let printed = succeed(order.env("LEAFD_SOCKET", host.socket()));
        ids.push(printed.trim().parse().unwrap());
    }
    check_unique(&ids);
    host.stop();
    let output = order.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("no id: "), "{output:?}");
}

#[test]
fn every_call_keeps_the_contract() {
    let mut host = host();
    for way in [Way::Gcc, Way::Clang, Way::Asan, Way::Valgrind] {
        let printed = succeed(program(way, "tests/calls.c").arg(host.socket()));
        assert_eq!(printed, "calls: ok\n", "{way:?}");
    }
    host.stop();
}

/// Runs the drawing program in a mode.
#[track_caller]
fn check_draws(host: &Host, way: Way, mode: &str, count: u32, refuse: bool) -> Vec<u64> {
    let file = host.path(&format!("{way:?}-{mode}-{refuse}"));
    let mut command = program(way, "tests/draw.c");
    command.args([
        host.socket().as_os_str(),
        OsStr::new(mode),
        file.as_os_str(),
        OsStr::new(&count.to_string()),
    ]);
    if refuse {
        command.env("LEAFD_TEST_REFUSE", "1");
    }
    succeed(&mut command);
    let ids = recorded(&file);
    println!("{way:?} {mode} refuse={refuse}: {} ids", ids.len());
    assert!(ids.len() >= count as usize, "{way:?} {mode}");
    ids
}

#[test]
fn threads_and_forks_of_every_kind_share_no_id() {
    let mut host = host();
    let mut ids = Vec::new();
    for refuse in [false, true] {
        for mode in ["threads", "forks", "bare", "reuse", "spawn"] {
            for way in [Way::Gcc, Way::Clang, Way::Asan] {
                // AddressSanitizer doesn't hold its allocator's locks across a fork, so a child may wait for a thread
                // that it doesn't have. Valgrind finds the same errors.
                if !(way == Way::Asan && mode == "forks") {
                    ids.extend(check_draws(&host, way, mode, 15, refuse));
                }
            }
        }
    }
    ids.extend(check_draws(&host, Way::Valgrind, "threads", 3, false));
    ids.extend(check_draws(&host, Way::Tsan, "threads", 15, false));
    for mode in ["forks", "bare"] {
        ids.extend(check_draws(&host, Way::Valgrind, mode, 3, false));
    }
    check_unique(&ids);
    host.stop();
}

#[test]
fn signals_and_many_descriptors_break_no_call() {
    let mut host = host();
    let mut ids = check_draws(&host, Way::Gcc, "signals", 100, false);
    ids.extend(check_draws(&host, Way::Clang, "descriptors", 10, false));
    check_unique(&ids);
    host.stop();
}

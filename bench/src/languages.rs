//! What a call costs from C and from Python, beside alternatives in each language.
//!
//! `languages/measure.c` and `languages/measure.py` time the calls. What they need is built here.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use leafd_client::Client;
use leafd_tests::program::{leafd_binary, without_cargo_s_variables};

use crate::duplicates::{Duplicates, spans_of};
use crate::host::daemon::{OwnDaemon, new_dir};
use crate::host::echo;
use crate::host::redis::RedisServer;
use crate::processes::{Process, find_program};
use crate::report::{Budget, Report, Section};
use crate::{Plan, progress, stop};

const NAME: &str = "languages: calls from C and Python";

const ROUNDS: u32 = 7;

/// `--smoke` divides the number of calls by this.
const SMOKE_DIVISOR: u32 = 100;

const TAG: &str = "bench";

/// How many ids a batch has in both programs.
const BATCH: f64 = 1000.0;

const C: &str = "C, ns";
const PYTHON: &str = "Python, ns";

/// Rows by their names in the programs.
const ROWS: [(&str, &str); 10] = [
    ("held", HELD),
    ("handle", "    through a handle: leafd_tag_next"),
    ("direct", "one id asked for directly: leafd_next_direct, next_id_direct"),
    ("batch", "1,000 ids in one call: leafd_next_many, next_ids"),
    ("batch id", "    each of them"),
    ("array", "    as an array: next_ids_array"),
    ("array id", "    each of the array"),
    ("uuid", UUID),
    ("redis", "Redis INCR over its Unix socket"),
    ("echo", "bare round trip over a Unix socket"),
];

const UUID: &str = "a random UUID: uuid_generate, uuid.uuid4";
const HELD: &str = "one id of a held run: leafd_next, next_id";

/// The arguments of both programs.
struct Setup {
    socket: PathBuf,
    ids: PathBuf,
    divisor: u32,
    redis: Option<RedisServer>,
}

/// The names of all rows.
pub(crate) fn names() -> Vec<String> {
    vec![NAME.to_owned()]
}

/// Measures the selected languages.
///
/// # Errors
/// Something can't be built or measured, or an id came twice; the user stops the run.
pub(crate) fn measure(plan: &Plan, duplicates: &mut Duplicates, report: &mut Report) -> Result<()> {
    if !plan.wants(NAME) {
        return Ok(());
    }
    if let Some(missing) = ["cc", "python3"].into_iter().find(|name| find_program(name).is_none()) {
        report.not_measured.push(format!("C and Python: {missing} is not installed"));
        return Ok(());
    }
    let dir = new_dir()?;
    progress("languages: building the C library");
    let library = built_library()?;
    let program = compiled(&library, dir.path())?;
    let python_path = python_package(&library, dir.path())?;
    let daemon = OwnDaemon::start(dir.path())?;
    daemon.create_tag(&Client::connect(daemon.socket())?, TAG)?;
    let setup = Setup {
        socket: daemon.socket(),
        ids: dir.path().join("ids"),
        divisor: if plan.smoke { SMOKE_DIVISOR } else { 1 },
        redis: RedisServer::start()?,
    };
    let rounds = plan.rounds(ROUNDS);
    let about = format!(
        "What a call takes from C and Python: medians of {rounds} rounds, interleaved; libleafd.so has {} kB",
        fs::metadata(&library)?.len() / 1000
    );
    let mut section = Section::new("call", about, &[C, PYTHON]);
    for (name, row) in ROWS {
        if name != "redis" || setup.redis.is_some() {
            section.place(row);
        }
    }
    for round in 1..=rounds {
        progress(&format!("{round}/{rounds} {NAME}"));
        setup.run(&mut Command::new(&program), C, &mut section)?;
        let mut python = Command::new("python3");
        python.arg(sources().join("measure.py")).env("PYTHONPATH", &python_path);
        // Don't leave files between the sources.
        python.env("PYTHONDONTWRITEBYTECODE", "1");
        setup.run(&mut python, PYTHON, &mut section)?;
        stop::check()?;
        duplicates.add(NAME, spans_of(&mut setup.drawn()?))?;
    }
    drop(setup);
    daemon.process.stop()?;
    report.budgets.extend(budgets(&section));
    report.sections.push(section);
    Ok(())
}

/// The row with a program's name for it.
fn row_of(name: &str) -> Result<&'static str> {
    let row = ROWS.iter().find(|(known, _)| *known == name);
    Ok(row.with_context(|| format!("there is no row {name:?}"))?.1)
}

fn budgets(section: &Section) -> [Budget; 3] {
    let held_in = |language| section.median(HELD, language);
    let ratio = section.median(UUID, PYTHON).zip(held_in(PYTHON)).map(|(uuid, held)| uuid / held);
    [
        Budget::at_most(HELD, held_in(C), 15.0, " ns in C"),
        Budget::at_most(HELD, held_in(PYTHON), 400.0, " ns in Python"),
        Budget::at_least(HELD, ratio, 3.0, "x uuid.uuid4's rate in Python"),
    ]
}

// === what they need ===

pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("languages")
}

fn client_sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../client")
}

/// The library as C programs and the Python package get it.
pub(crate) fn built_library() -> Result<PathBuf> {
    let target = leafd_binary().ancestors().nth(2).context("target/PROFILE/leafd")?;
    let mut command = Command::new("make");
    without_cargo_s_variables(&mut command)
        .args(["--silent", "build", "--directory"])
        .arg(client_sources().join("capi"))
        .env_remove("MAKEFLAGS")
        .env("CARGO_TARGET_DIR", target);
    succeed(&mut command)?;
    Ok(target.join("capi/libleafd.so"))
}

fn compiled(library: &Path, dir: &Path) -> Result<PathBuf> {
    // The file name that its soname asks for.
    let linked = dir.join("libleafd.so.1");
    std::os::unix::fs::symlink(library, &linked)?;
    let program = dir.join("measure");
    let mut command = Command::new("cc");
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-I"]);
    command.arg(client_sources().join("capi/include")).arg(sources().join("measure.c"));
    command.arg("-o").arg(&program).arg(&linked).arg(format!("-Wl,-rpath,{}", dir.display()));
    succeed(command.arg("-ldl"))?;
    Ok(program)
}

/// The package as it is when installed.
pub(crate) fn python_package(library: &Path, dir: &Path) -> Result<PathBuf> {
    let path = dir.join("python");
    let package = path.join("leafd");
    fs::create_dir_all(&package)?;
    for entry in fs::read_dir(client_sources().join("python/src/leafd"))? {
        let file = entry?.path();
        if let Some(name) = file.file_name().filter(|_| file.extension() == Some("py".as_ref())) {
            fs::copy(&file, package.join(name))?;
        }
    }
    fs::copy(library, package.join("libleafd.so"))?;
    Ok(path)
}

fn succeed(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let status = command.status().with_context(|| format!("cannot run {name}"))?;
    ensure!(status.success(), "{name} failed ({status})");
    Ok(())
}

// === impl Setup ===

impl Setup {
    /// Runs one round of a language's rows.
    fn run(
        &self,
        command: &mut Command,
        language: &'static str,
        section: &mut Section,
    ) -> Result<()> {
        let (echo, stream) = echo::start(false)?;
        command.arg(&self.socket).arg(TAG).arg(&self.ids).arg(self.divisor.to_string());
        command.args(self.redis.as_ref().map(|redis| &redis.socket));
        command.stdin(Stdio::from(OwnedFd::from(stream)));
        let told = Process::start(command)?.rest();
        let told = String::from_utf8(told.with_context(|| format!("cannot measure {language}"))?)?;
        drop(echo);
        for line in told.lines() {
            let (name, ns) = line.split_once('\t').context("a line without a name")?;
            let ns: f64 = ns.parse()?;
            section.put(row_of(name)?, language, ns);
            if matches!(name, "batch" | "array") {
                section.put(row_of(&format!("{name} id"))?, language, ns / BATCH);
            }
        }
        Ok(())
    }

    /// The ids drawn since the last call.
    fn drawn(&self) -> Result<Vec<u64>> {
        let bytes = fs::read(&self.ids)?;
        fs::remove_file(&self.ids)?;
        let (ids, rest) = bytes.as_chunks::<8>();
        ensure!(rest.is_empty(), "a part of an id was written");
        Ok(ids.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect())
    }
}

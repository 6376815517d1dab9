//! The programs that the tests start.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use nix::sys::signal::Signal;

/// Names a folder with the programs to test, such as those of a release or of another architecture.
const TESTED: &str = "TESTED_BINARIES";

/// The daemon's binary, with leafctl's beside it. It is built once, by the same cargo and profile as this program, unless
/// `TESTED_BINARIES` names others.
pub fn leafd_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(folder) = std::env::var_os(TESTED) {
            return Path::new(&folder).join("leafd");
        }
        let this = std::env::current_exe().unwrap();
        let folder = this.parent().expect("a program lies in a folder");
        // A test is target/PROFILE/deps/it-*, another program target/PROFILE/leafd-bench.
        let profile_dir = if folder.ends_with("deps") { folder.parent() } else { Some(folder) };
        let profile_dir = profile_dir.expect("a profile has a folder");
        let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
            Some("debug") => "dev",
            Some(name) => name,
            None => panic!("{} is no profile's folder", profile_dir.display()),
        };
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = without_cargo_s_variables(&mut Command::new(cargo))
            .args([
                "build",
                "--quiet",
                "--package",
                "leafd",
                "--package",
                "leafctl",
                "--bins",
                "--profile",
                profile,
            ])
            .arg("--target-dir")
            .arg(profile_dir.parent().expect("a profile's folder lies in the target folder"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .expect("cargo runs");
        assert!(built.success(), "leafd can't be built");
        profile_dir.join("leafd")
    })
}

/// Hides from a command that cargo runs this test. Otherwise cargo's variables would differ from a shell's, and
/// dependencies would be rebuilt.
pub fn without_cargo_s_variables(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "LD_LIBRARY_PATH"]
            .iter()
            .any(|one| text.starts_with(one))
        {
            command.env_remove(&name);
        }
    }
    command
}

/// Makes a command's process die with the thread that starts it, so that no test leaves one behind.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    // SAFETY: only one system call is made between fork and exec.
    unsafe {
        command.pre_exec(|| {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(std::io::Error::from)
        })
    }
}

//! The Rust programs and shell commands in the README and the guide to clients, run as a newcomer would run them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};

use leafd_tests::program::{leafd_binary, without_cargo_s_variables};

use crate::c_library::target;
use crate::host::{Host, die_with_parent};
use crate::languages::go_is_new_enough;

const README: &str = include_str!("../../README.md");
const GUIDE: &str = include_str!("../../docs/guide/clients.md");
const RUST: &str = include_str!("../../docs/guide/rust.md");

/// The first block in a language after these words.
fn block<'a>(page: &'a str, after: &str, language: &str) -> &'a str {
    let (_, from) = page.split_once(after).expect("the words before it");
    let (_, from) = from.split_once(&format!("```{language}\n")).expect("a block");
    from.split_once("```").expect("its end").0
}

fn host() -> Host {
    let mut host = Host::new().worker(17);
    host.start();
    host
}

fn printed(command: &mut Command, host: &Host) -> String {
    command.env("LEAFD_SOCKET", host.socket());
    let Output { status, stdout, stderr } = die_with_parent(command).output().expect("it starts");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("text")
}

#[test]
fn the_readme_s_shell_commands_draw_ids() {
    let host = host();
    let programs = leafd_binary().parent().expect("a folder").display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").expect("a PATH"));
    let commands = block(README, "From a shell:", "sh");
    let ids = printed(Command::new("sh").args(["-ec", commands]).env("PATH", path), &host);
    assert_eq!(ids.lines().rev().take(3).collect::<Vec<_>>(), ["3", "2", "1"], "{ids}");
}

/// Builds a program with the dependencies that a page shows, and returns the ids that it prints.
fn ids_of(name: &str, dependencies: &str, main: &str) -> Vec<u64> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project's folder");
    let place = target().join("guide").join(name);
    fs::create_dir_all(place.join("src")).expect("a folder");
    let named = format!("path = \"{}\"", root.join("client").display());
    let dependencies = dependencies.replacen("path = \"client\"", &named, 1);
    assert!(dependencies.contains(&named), "{dependencies}");
    let package = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n\n[workspace]\n\n");
    fs::write(place.join("Cargo.toml"), format!("{package}{dependencies}")).expect("a file");
    fs::copy(root.join("Cargo.lock"), place.join("Cargo.lock")).expect("a file");
    fs::write(place.join("src/main.rs"), main).expect("a file");

    let host = host();
    host.create("orders");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let printed = printed(
        without_cargo_s_variables(&mut Command::new(cargo))
            .args(["run", "--quiet", "--offline", "--target-dir"])
            .arg(place.join("target"))
            .current_dir(&place),
        &host,
    );
    let numbers = printed.split(|character: char| !character.is_ascii_digit());
    numbers.filter(|part| !part.is_empty()).map(|id| id.parse().expect("an id")).collect()
}

#[test]
fn the_guide_s_rust_program_builds_by_its_own_manifest_and_draws_ids() {
    let program = block(GUIDE, "## Rust", "rust");
    let (uses, calls) = program.split_once("\n\n").expect("an empty line after what it uses");
    let main = format!(
        "{uses}\nfn main() -> Result<(), Box<dyn std::error::Error>> {{\n{calls}\nassert_eq!(hundred.len(), 100);\n\
         println!(\"{{order_id}} {{message_id}} {{in_order}} {{soon}}\");\nOk(())\n}}\n"
    );
    let ids = ids_of("guide", block(GUIDE, "## Rust", "toml"), &main);
    assert!(
        matches!(ids[..], [order, message, later, _] if order < later && message > later),
        "{ids:?}"
    );
}

#[test]
fn the_program_for_tokio_builds_by_its_own_manifest_and_draws_ids() {
    let (manifest, main) = (block(RUST, "## tokio", "toml"), block(RUST, "## tokio", "rust"));
    let ids = ids_of("guide-tokio", manifest, main);
    assert_eq!(ids.len(), 102);
    assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), 102);
}

/// Runs the guide's commands on a copy of the system, so that their changes disappear afterwards.
const IN_A_COPY: &str = r#"
for folder in /usr/local /etc /var/cache; do
    mkdir -p "$COPY$folder/upper" "$COPY$folder/work"
    mount -t overlay -o "lowerdir=$folder,upperdir=$COPY$folder/upper,workdir=$COPY$folder/work" overlay "$folder"
done
eval "$COMMANDS"
"#;

/// Each language's commands, run where the guide runs them: beside the project, or in it.
#[test]
fn the_guide_s_commands_build_and_install_the_clients() {
    let host = host();
    host.create("orders");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project's folder");
    let place = tempfile::tempdir().expect("a folder");
    let at = |name: &str| place.path().join(name);
    for folder in ["project", "go", "node", "bin", "copy"] {
        fs::create_dir(at(folder)).expect("a folder");
    }
    symlink(root, at("leafd")).expect("a link");
    symlink(root.join("client"), at("project/client")).expect("a link");
    // The tests are run as root already.
    fs::write(at("bin/sudo"), "#!/bin/sh\nexec \"$@\"\n").expect("a file");
    fs::set_permissions(at("bin/sudo"), Permissions::from_mode(0o755)).expect("a mode");
    fs::write(at("project/order.c"), block(README, "From C", "c")).expect("a file");
    let path = format!("{}:{}", at("bin").display(), std::env::var("PATH").expect("a PATH"));
    let shell = |folder: &str, runner: &[&str], commands: &str| {
        let (program, words) = runner.split_first().expect("a program");
        let mut command = Command::new(program);
        command.args(words).current_dir(at(folder)).env("PATH", &path);
        command.env("COPY", at("copy")).env("COMMANDS", commands);
        command.env("CARGO_TARGET_DIR", target()).env("GOCACHE", target().join("go-cache"));
        command.env("npm_config_offline", "true").env("npm_config_audit", "false");
        command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
        printed(without_cargo_s_variables(&mut command), &host)
    };
    let plain = ["sh", "-euc", "eval \"$COMMANDS\""];

    let in_c = ["unshare", "--mount", "sh", "-euc", IN_A_COPY];
    let said = shell("project", &in_c, block(GUIDE, "## C and C++", "sh"));
    let id = said.lines().last().expect("an id").parse::<u64>();
    assert!(id.expect("an id") > 0, "{said}");

    let jar = shell("project", &plain, block(GUIDE, "## Java", "sh"));
    assert!(Path::new(jar.trim_end()).is_file(), "{jar}");

    if go_is_new_enough() {
        fs::write(at("go/go.mod"), "module draw\n\ngo 1.21\n").expect("a file");
        fs::copy(root.join("tests/it/languages/draw.go"), at("go/main.go")).expect("a file");
        let build = format!("{}go build -o draw .", block(GUIDE, "## Go", "sh"));
        shell("go", &plain, &build);
        assert!(at("go/draw").is_file());
    } else {
        println!("NOT TESTED: the guide's commands for Go: version 1.21 is needed");
    }

    let draw = "node --input-type=module -e \"import { Client } from 'leafd'; const client = new Client(); \
                console.log(await client.nextId('orders')); client.close()\"";
    let said = shell("node", &plain, &format!("{}{draw}", block(GUIDE, "## Node", "sh")));
    let id = said.lines().last().expect("an id").trim_end_matches('n').parse::<u64>();
    assert!(id.expect("an id") > 0, "{said}");
}

#[test]
fn the_published_crates_can_be_packaged() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project's folder");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    without_cargo_s_variables(&mut command)
        .args(["package", "--quiet", "--offline", "--allow-dirty", "--no-verify"])
        .args(["-p", "leafd-wire", "-p", "leafd-client", "--target-dir"])
        .arg(target().join("guide/packages"))
        .current_dir(root);
    let output = die_with_parent(&mut command).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("warning"), "{said}");
}

//! The package: built once from the binaries of the tested profile, installed, checked and removed. `TESTED_PACKAGE`
//! names another package to test, such as a release's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::host::{leafd_binary, without_cargo_s_variables};
use crate::machine::{Machine, Network, PACKAGES, text};

/// Several versions of the package, which differ only in their version number.
pub struct Packages {
    /// The folder that contains them.
    pub folder: PathBuf,
    /// The file of the first version.
    pub first: String,
    /// The files of the later versions.
    pub later: Vec<String>,
}

/// More ids than a program's first run and a batch take.
const FIRST_RUNS: u64 = 500;

/// How often a test upgrades the package.
const UPGRADES: usize = 3;

pub fn packages() -> &'static Packages {
    static PACKAGES: OnceLock<Packages> = OnceLock::new();
    PACKAGES.get_or_init(build)
}

fn build() -> Packages {
    let built = leafd_binary().parent().expect("target/PROFILE/leafd");
    let target = built.parent().expect("target/PROFILE");
    let profile = match built.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        name => name.expect("a profile's name"),
    };
    let folder = target.join("packages");
    let _ = fs::remove_dir_all(&folder);
    let first = match std::env::var_os("TESTED_PACKAGE") {
        Some(package) => {
            fs::create_dir(&folder).unwrap();
            let copy = folder.join(Path::new(&package).file_name().expect("a file's name"));
            fs::copy(package, &copy).expect("TESTED_PACKAGE names a file");
            copy
        }
        None => build_by_script(profile, target, &folder),
    };
    let later = (1..=UPGRADES).map(|round| renumbered(&first, &format!("+test{round}")));
    let later = later.collect();
    let first = first.file_name().unwrap().to_str().unwrap().to_owned();
    Packages { folder, first, later }
}

fn build_by_script(profile: &str, target: &Path, folder: &Path) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../systemd/debian/build");
    let mut command = Command::new(script);
    without_cargo_s_variables(&mut command);
    command.args(["--profile", profile, "--output"]).arg(folder);
    // Fast to pack and unpack. Flags of the make that may run these tests must not reach this one.
    command.env("CARGO_TARGET_DIR", target).env("LEAFD_DEB_COMPRESSION", "1");
    command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    let output = command.output().expect("the script runs");
    assert!(output.status.success(), "no package is built:\n{}", text(output.stderr));
    PathBuf::from(text(output.stdout).trim_end())
}

/// The same package, with a suffix added to its version.
fn renumbered(package: &Path, suffix: &str) -> String {
    let name = format!("leafd{suffix}.deb");
    let folder = package.parent().unwrap();
    let script = r#"
        dpkg-deb --raw-extract "$1" "$3"
        sed -i "s/^Version: .*/&$2/" "$3/DEBIAN/control"
        dpkg-deb --root-owner-group -z1 --build "$3" "$4" >/dev/null
        rm -r "$3""#;
    let done = Command::new("sh")
        .args(["-euc", script, "sh"])
        .args([package.as_os_str(), suffix.as_ref(), folder.join("tree").as_os_str()])
        .arg(folder.join(&name))
        .status();
    assert!(done.expect("sh runs").success());
    name
}

#[test]
fn lintian_has_nothing_to_say() {
    let packages = packages();
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error,warning", "--display-info"]);
    let output = lintian.arg(packages.folder.join(&packages.first)).output();
    let output = output.expect("lintian is installed");
    let said = text(output.stdout);
    assert!(output.status.success(), "{said}{}", text(output.stderr));
}

/// The links from an installed document to others.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let targets = targets.map(|target| target.split('#').next().unwrap());
    targets
        .filter(|path| !path.is_empty() && !path.starts_with("http"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_operator_s_documents_are_in_it_and_lead_to_each_other() {
    let packages = packages();
    let tree = tempfile::tempdir().unwrap();
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--extract").arg(packages.folder.join(&packages.first)).arg(tree.path());
    assert!(unpack.status().expect("dpkg-deb runs").success());
    let installed = tree.path().join("usr/share/doc/leafd");
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    for folder in ["guide", "guide/frameworks", "operate", "reference"] {
        let entries = fs::read_dir(repository.join(folder)).unwrap().map(|entry| entry.unwrap());
        for entry in entries.filter(|entry| entry.file_type().unwrap().is_file()) {
            let document = installed.join(folder).join(entry.file_name());
            let text = fs::read_to_string(&document).expect("the package has the document");
            for link in links(&text) {
                let target = installed.join(folder).join(&link);
                assert!(target.exists(), "{}: the package has no {link}", document.display());
            }
        }
    }
}

#[test]
fn it_is_installed_used_removed_and_purged() {
    let machine = Machine::boot(Network::Own);
    let said = machine.install(&packages().first);
    assert!(said.contains("started with a store of its own"), "{said}");
    assert_eq!(machine.unit("ActiveState"), "active");
    assert_eq!(machine.ok("systemctl is-enabled leafd.socket leafd.service"), "enabled\nenabled\n");
    machine.ok("leafctl tag create orders");
    assert_eq!(machine.ok("leafctl next orders -n 3"), "1\n2\n3\n");
    assert_eq!(machine.ok("systemctl --failed --no-legend"), "");
    // The other content of the package works in its installed place.
    machine.ok("cd /tmp && for page in leafd leafctl leafctl-tag-create leafd-protocol; do man $page >page; test -s page; done");
    assert!(
        machine
            .ok("bash -c '. /usr/share/bash-completion/completions/leafctl; complete -p leafctl'")
            .contains("_leafctl")
    );
    machine.ok("cc /usr/share/doc/leafd/examples/orders.c $(pkg-config --cflags --libs leafd) -o /tmp/orders");
    assert!(machine.ok("ldconfig; /tmp/orders orders 3").starts_with("4\n5\n6\n"));

    // A change of the configuration survives an upgrade, and so do the numbers.
    machine.ok("echo 'worker = \"static:7\"' >>/etc/leafd/leafd.toml");
    machine.install(&packages().later[0]);
    machine.ok("leafctl ping --ready segments --ready snowflake");
    assert!(machine.ok("leafctl next snowflake").trim_end().parse::<u64>().unwrap() > 0);
    let number = || machine.ok("leafctl next orders").trim_end().parse::<u64>().unwrap();
    // The program in C held a run when it ended.
    let before = number();
    assert!((7..=FIRST_RUNS).contains(&before), "{before}");

    machine.ok("dpkg --no-triggers --remove leafd");
    machine.fails("systemctl is-active leafd.service leafd.socket");
    machine.fails("leafctl ping");
    machine.ok("test -s /var/lib/leafd/journal.db && test -s /etc/leafd/leafd.toml");
    // After it is installed again, it continues.
    machine.install(&packages().later[1]);
    assert_eq!(number(), before + 1);

    machine.ok("dpkg --no-triggers --purge leafd");
    machine.ok(
        "for gone in /var/lib/leafd /etc/leafd /run/leafd /usr/bin/leafd; do test ! -e $gone; done",
    );
    let left = machine.ok("find /etc/systemd /lib/systemd /var/lib/systemd -name '*leafd*'");
    assert_eq!(left, "", "units are left");
    assert_eq!(machine.ok("systemctl --failed --no-legend"), "");
    machine.ok(&format!("test -e {PACKAGES}/{}", packages().first));
}

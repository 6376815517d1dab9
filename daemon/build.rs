//! Records the toolchain and the target for `leafd --version`.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = env::var_os("RUSTC").expect("cargo sets RUSTC");
    let output = Command::new(rustc).arg("--version").output().expect("rustc runs");
    let toolchain = String::from_utf8_lossy(&output.stdout);
    println!("cargo::rustc-env=LEAFD_TOOLCHAIN={}", toolchain.trim_end());
    println!("cargo::rustc-env=LEAFD_TARGET={}", env::var("TARGET").expect("cargo sets TARGET"));
}

//! Tells the linker what rustc leaves open: the library's name with its ABI version, and an unwinder inside.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/lib.rs");
    let abi_version = abi_version(&fs::read_to_string("src/lib.rs").expect("src/lib.rs is there"));
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libleafd.so.{abi_version}");

    // rustc asks for libgcc_s.so. This folder comes first, and says that the static one will do: so the
    // library needs nothing but the C library.
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    link_statically(&folder, "libgcc_s.so");
    println!("cargo::rustc-cdylib-link-arg=-L{}", folder.display());
}

fn link_statically(folder: &Path, name: &str) {
    fs::write(folder.join(name), "INPUT(-lgcc_eh -lgcc)\n").expect("OUT_DIR can be written");
}

/// The number in `pub const LEAFD_ABI_VERSION: u32 = 1;`.
fn abi_version(source: &str) -> u32 {
    let line =
        source.lines().find_map(|line| line.strip_prefix("pub const LEAFD_ABI_VERSION: u32 = "));
    let number = line.and_then(|line| line.strip_suffix(';')).and_then(|text| text.parse().ok());
    number.expect("src/lib.rs says the ABI's version")
}

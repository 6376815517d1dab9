//! What leafd reads from others, each as a function of any bytes that panics when something is wrong: a coverage-guided
//! fuzzer looks for such bytes (`tests/run fuzz`), and the ones that it was begun with (`fuzz/seeds`) are an ordinary test.
//!
//! A target asserts more than that nothing panics: what is decoded is encoded to the same, what is refused is refused in
//! words, and no damage brings an id back.

pub mod input;
mod targets;

/// Something that reads what others wrote.
#[derive(Debug)]
pub struct Target {
    /// Its name, and that of its folder of seeds.
    pub name: &'static str,
    /// What reads, and what is asserted.
    pub about: &'static str,
    /// Longer inputs find nothing more.
    pub input_bytes_max: usize,
    /// Panics if something is wrong.
    pub run: fn(&[u8]),
}

/// All.
pub const TARGETS: [Target; 6] = [
    Target {
        name: "frames",
        about: "requests and replies: what is decoded is encoded to the same bytes",
        input_bytes_max: 4_096,
        run: targets::frames::run,
    },
    Target {
        name: "configuration",
        about: "leafd.toml: what is shown loads again, and passwords are not shown",
        input_bytes_max: 8_192,
        run: targets::configuration::run,
    },
    Target {
        name: "journal",
        about: "damaged journals: refused, or nothing that may have been issued is held",
        input_bytes_max: 256,
        run: targets::journal::run,
    },
    Target {
        name: "stores",
        about: "rows of a store that anybody wrote: no number is claimed twice or out of range",
        input_bytes_max: 1_024,
        run: targets::stores::run,
    },
    Target {
        name: "zookeeper",
        about: "nodes of a registry: what is read is written to the same, and no lease begins before another ends",
        input_bytes_max: 2_048,
        run: targets::zookeeper::run,
    },
    Target {
        name: "masks",
        about: "public ids as text and files of keys: one id has one text, and a wrong character is noticed",
        input_bytes_max: 1_024,
        run: targets::masks::run,
    },
];

//! Checks that `include/leafd.h` is what cbindgen generates from the source. After a change, run
//! `LEAFD_WRITE_HEADER=1 cargo test -p leafd-capi --test header`.

use std::path::Path;

/// The first call of each section of the header, and the section's heading.
const PARTS: [(&str, &str); 10] = [
    ("leafd_abi_version", "VERSIONS"),
    ("leafd_new", "CONNECT"),
    ("leafd_next", "DRAW IDS"),
    ("leafd_next_many", "DRAW BATCHES"),
    ("leafd_mask", "PUBLIC IDS"),
    ("leafd_series_next", "DOCUMENT NUMBERS"),
    ("leafd_layout_leaf", "SNOWFLAKE IDS"),
    ("leafd_status_name", "ERRORS"),
    ("leafd_loop_take", "EVENT LOOPS"),
    ("leafd_set_interpreter", "INTERPRETERS"),
];

/// Writes each section's heading above the comment of its first call. The sections are in the order of the list.
fn with_headings(header: &str) -> String {
    let mut headed = header.to_owned();
    let mut before = 0;
    for (call, heading) in PARTS {
        let starts = headed.match_indices('\n').map(|(end, _)| end + 1);
        let declares =
            |line: &str| !line.starts_with([' ', '/']) && line.contains(&format!("{call}("));
        let declared = starts.skip_while(|start| *start < before);
        let declared = declared
            .into_iter()
            .find(|start| headed[*start..].lines().next().is_some_and(declares));
        let declared = declared.unwrap_or_else(|| panic!("{call} is not where {heading} begins"));
        let comment = headed[..declared].rfind("/**").expect("a call has a comment");
        headed.insert_str(comment, &format!("/* ===== {heading} ===== */\n\n"));
        before = comment;
    }
    headed
}

#[test]
fn the_committed_header_is_fresh() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_root_or_default(folder);
    let bindings = cbindgen::Builder::new()
        .with_crate(folder)
        .with_config(config)
        .generate()
        .expect("src/ is readable");
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = with_headings(&String::from_utf8(made).expect("the header is UTF-8"));
    let header = folder.join("include/leafd.h");
    if std::env::var_os("LEAFD_WRITE_HEADER").is_some() {
        std::fs::write(&header, &made).expect("the header is writable");
    }
    let committed = std::fs::read_to_string(&header).expect("the header exists");
    assert!(committed == made, "include/leafd.h is stale: run this test with LEAFD_WRITE_HEADER=1");
}

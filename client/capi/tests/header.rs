//! `include/leafd.h` is what cbindgen makes of the source. After a change:
//! `LEAFD_WRITE_HEADER=1 cargo test -p leafd-capi --test header`.

use std::path::Path;

#[test]
fn the_committed_header_is_fresh() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_root_or_default(folder);
    let bindings = cbindgen::Builder::new()
        .with_crate(folder)
        .with_config(config)
        .generate()
        .expect("src/ can be read");
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = String::from_utf8(made).expect("a header of UTF-8");
    let header = folder.join("include/leafd.h");
    if std::env::var_os("LEAFD_WRITE_HEADER").is_some() {
        std::fs::write(&header, &made).expect("the header can be written");
    }
    let committed = std::fs::read_to_string(&header).expect("the header is there");
    assert!(committed == made, "include/leafd.h is stale: run this test with LEAFD_WRITE_HEADER=1");
}

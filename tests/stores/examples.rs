//! The example of two hosts, run as a reader would run it.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

use leafd_tests::host::leafd_binary;

#[test]
fn two_hosts_draw_from_ranges_of_their_own() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/two-hosts/run");
    let programs = leafd_binary().parent().unwrap().display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let output = Command::new(script).arg("--exit").env("PATH", path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{complaints}");
    let drawn = text.lines().filter_map(|line| line.split_once(" draws: "));
    let ids: Vec<u64> =
        drawn.flat_map(|(_, ids)| ids.split(' ').map(|id| id.parse().unwrap())).collect();
    assert_eq!(ids.len(), 6, "{text}");
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 6, "{text}");
}

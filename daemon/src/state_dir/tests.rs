//! The state directory through its public surface.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn it_is_made_for_its_owner_only_and_locked() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a/b");
    let first = StateDir::open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);

    let refused = StateDir::open(&path).unwrap_err().to_string();
    assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
    assert!(refused.contains(path.to_str().unwrap()), "{refused}");

    let clone = first.clone();
    drop(first);
    assert!(StateDir::open(&path).is_err(), "a clone keeps the lock");
    drop(clone);
    StateDir::open(&path).unwrap();
}

#[test]
fn a_stale_lock_file_with_a_longer_text_is_taken_over() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join(LOCK_FILE), "4194304000000000000 and more text\n").unwrap();
    let _dir = StateDir::open(place.path()).unwrap();
    let text = fs::read_to_string(place.path().join(LOCK_FILE)).unwrap();
    assert_eq!(text.trim(), std::process::id().to_string());
}

#[test]
fn a_file_in_its_place_is_an_error_that_says_so() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let refused = StateDir::open(&path).unwrap_err().to_string();
        assert!(refused.contains("something else than a directory"), "{refused}");
    }
}

//! The state directory, tested through its public interface.

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
        assert!(refused.contains("is not a directory"), "{refused}");
    }
}

/// Another user who may write above the directory could replace it.
#[test]
fn root_refuses_what_others_may_write() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("way/state");
    drop(StateDir::open(&dir).unwrap());
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let way = place.path().join("way");
    for (path, open) in [(&dir, 0o770), (&dir, 0o1777), (&way, 0o777), (&way, 0o775)] {
        mode(path, open);
        let refused = StateDir::open(&dir).unwrap_err().to_string();
        assert!(refused.contains("others may write"), "{open:o}: {refused}");
        mode(path, 0o755);
    }
    // As /tmp is.
    mode(&way, 0o1777);
    drop(StateDir::open(&dir).unwrap());
    mode(&way, 0o755);
    for path in [&dir, &way] {
        std::os::unix::fs::chown(path, Some(10_001), None).unwrap();
        let refused = StateDir::open(&dir).unwrap_err().to_string();
        assert!(refused.contains("owner 10001"), "{refused}");
        std::os::unix::fs::chown(path, Some(0), None).unwrap();
    }
    // A link that other users may change.
    let link = place.path().join("link");
    std::os::unix::fs::symlink(&way, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(10_001), None).unwrap();
    assert!(StateDir::open(&link.join("state")).is_err());
}

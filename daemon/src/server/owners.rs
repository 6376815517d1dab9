//! Maps uids to their owners. A user with subordinate uids (`/etc/subuid`) can act as 65,536 users by `newuidmap`.
//! Limits count all of them as the user who owns them.

use std::cell::{Cell, RefCell};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;

use crate::clock::monotonic_us;

/// The file that assigns ranges of subordinate uids to users.
const SUBUID: &str = "/etc/subuid";

/// The file with the users' numbers.
const PASSWD: &str = "/etc/passwd";

/// How often to check whether the ranges have changed, in microseconds.
const LOOKED_US: u64 = 1_000_000;

/// The ranges of subordinate uids, as of at most a second ago.
#[derive(Debug, Default)]
pub struct Owners {
    ranges: RefCell<Vec<Range>>,
    /// The version of the file when it was read.
    read: Cell<Option<FileVersion>>,
    looked_us: Cell<Option<u64>>,
}

/// Distinguishes versions of a file: inode, size, and seconds and nanoseconds of its last change.
type FileVersion = (u64, u64, i64, i64);

/// Uids assigned to one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u32,
    last: u32,
    owner: u32,
}

impl Owners {
    /// The owner of a uid; the uid itself if it is not a subordinate one.
    pub fn owner(&self, uid: u32) -> u32 {
        self.refresh();
        let ranges = self.ranges.borrow();
        let next = ranges.partition_point(|range| range.first <= uid);
        let range = next.checked_sub(1).map(|found| ranges[found]);
        range.filter(|range| uid <= range.last).map_or(uid, |range| range.owner)
    }

    fn refresh(&self) {
        let now_us = monotonic_us();
        if self.looked_us.get().is_some_and(|looked_us| now_us < looked_us + LOOKED_US) {
            return;
        }
        self.looked_us.set(Some(now_us));
        let stamp = fs::metadata(SUBUID).ok().map(|found| file_version(&found));
        if stamp != self.read.replace(stamp) {
            let text =
                |path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let given = text(SUBUID).unwrap_or_default();
            *self.ranges.borrow_mut() = ranges(&given, &text(PASSWD).unwrap_or_default());
        }
    }
}

fn file_version(found: &Metadata) -> FileVersion {
    (found.ino(), found.size(), found.ctime(), found.ctime_nsec())
}

/// The ranges, in the order of their first uids. `NAME:FIRST:COUNT`, or with a uid for the name. Users who are not in
/// `/etc/passwd`, such as those of a directory service, are distinguished by the range itself.
fn ranges(given: &str, passwd: &str) -> Vec<Range> {
    let uid_of = |name: &str| {
        let mut users = passwd.lines().map(|line| line.split(':'));
        let fields = users.find_map(|mut fields| (fields.next()? == name).then_some(fields));
        fields.and_then(|mut fields| fields.nth(1)?.parse().ok())
    };
    let range = |line: &str| {
        let mut fields = line.split(':');
        let (name, first, count) = (fields.next()?, fields.next()?, fields.next()?);
        let (first, count): (u32, u32) = (first.parse().ok()?, count.trim().parse().ok()?);
        let last = first.checked_add(count.checked_sub(1)?)?;
        let owner = uid_of(name).or_else(|| name.parse().ok()).unwrap_or(first);
        Some(Range { first, last, owner })
    };
    let mut ranges: Vec<Range> = given.lines().filter_map(range).collect();
    ranges.sort_by_key(|range| range.first);
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_newuidmap_reads_them() {
        let passwd = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/:/bin/sh\n";
        let given =
            "bob:300000:65536\nann:100000:65536\n1001:200000:10\nann:5:0\nx:1\n:::\nann:-1:5\n";
        let owners = Owners::default();
        *owners.ranges.borrow_mut() = ranges(given, passwd);
        owners.looked_us.set(Some(u64::MAX / 2));
        for (uid, owner) in [
            (0, 0),
            (5, 5),
            (1_000, 1_000),
            (99_999, 99_999),
            (100_000, 1_000),
            (165_535, 1_000),
            (165_536, 165_536),
            (200_009, 1_001),
            (200_010, 200_010),
            (300_007, 300_000),
        ] {
            assert_eq!(owners.owner(uid), owner, "{uid}");
        }
    }
}

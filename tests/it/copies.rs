//! A copied state directory: ids that the original may still issue are never issued by the copy.

use std::process::Command;
use std::time::Duration;

use leafd_tests::wall_clock::WallClock;
use leafd_wire::{Layout, Status};

use crate::host::Host;
use crate::raw::ids_request;

/// Copies the state directory as a backup does, and replaces the original by the copy.
fn put_copy_in_place(host: &Host) {
    let copied = Command::new("cp").arg("-a").args([host.state_dir(), host.path("copy")]).status();
    assert!(copied.unwrap().success());
    std::fs::rename(host.state_dir(), host.path("original")).unwrap();
    std::fs::rename(host.path("copy"), host.state_dir()).unwrap();
}

#[test]
fn a_copied_journal_is_set_aside_and_its_numbers_are_not_used() {
    let mut host = Host::new().worker(17);
    host.change("store", &format!("sqlite:{}", host.path("store.db").display()));
    host.start();
    host.create("orders");
    let mut raw = host.raw();
    let snowflake = raw.draw("snowflake", 1)[0];
    raw.draw("orders", 10);
    let show = serde_json::json!({ "tag": "orders" });
    host.stop();
    put_copy_in_place(&host);
    host.start();
    let claimed = host.admin(leafd_wire::opcode::TAG_SHOW, &show)["max_id"].as_u64().unwrap();
    assert!(
        host.raw().draw("orders", 1)[0] >= claimed,
        "what the original holds is the original's"
    );
    assert!(host.raw().draw("snowflake", 1)[0] > snowflake);
    assert!(host.log().contains("copy"), "it is said loudly");
    assert!(host.status()["journal_set_aside"].is_string());
    // Once it is restored, the original is still the same host, and continues below.
    host.stop();
    std::fs::rename(host.state_dir(), host.path("copy")).unwrap();
    std::fs::rename(host.path("original"), host.state_dir()).unwrap();
    host.start();
    assert_eq!(host.raw().draw("orders", 1), [11]);
}

#[test]
fn a_copied_store_is_refused_until_it_is_adopted() {
    let mut host = Host::new();
    host.start();
    host.create("orders");
    let last = *host.raw().draw("orders", 10).last().unwrap();
    let (code, said) = host.run("adopt-store");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&host.pid().to_string()), "not while a daemon runs on it: {said}");
    host.kill();
    put_copy_in_place(&host);
    let refusal = host.try_start().unwrap_err();
    assert_eq!(refusal.code, Some(1));
    assert!(refusal.said.contains("leafd adopt-store"), "{refusal:?}");
    let (code, said) = host.run("adopt-store");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("store.db") && said.contains("sqlite:"), "{said}");
    host.start();
    assert!(host.raw().draw("orders", 1)[0] > last);
    // Repeating the command changes nothing.
    host.stop();
    assert_eq!(host.run("adopt-store").0, Some(0));
    host.start();
    host.raw().draw("orders", 1);
}

/// Gives the command another place of a file, as a container gets a single file of the host.
const FILE_ALONE: &str = r#"mount --bind "$0" "$1" && shift && exec "$@""#;

/// SQLite's log lies beside the file, and two places would have two logs.
#[test]
fn a_store_that_is_mounted_without_its_directory_or_has_links_is_refused() {
    let mut first = Host::new();
    first.start();
    first.create("orders");
    assert_eq!(first.raw().draw("orders", 1), [1]);
    let elsewhere = first.path("elsewhere.db");
    std::fs::write(&elsewhere, "").unwrap();
    let paths = [first.state_dir().join("store.db"), elsewhere];
    let [file, elsewhere] = paths.each_ref().map(|path| path.to_str().unwrap());
    let store = format!("sqlite://{elsewhere}");
    let mut second = Host::new()
        .set("store", &store)
        .runner(&["unshare", "--mount", "sh", "-c", FILE_ALONE, file, elsewhere]);
    let refused = second.try_start().expect_err("it has a log of its own");
    assert!(refused.said.contains("mount its directory instead"), "{refused:?}");
    assert_eq!(first.raw().draw("orders", 1), [2]);
    std::fs::remove_file(elsewhere).unwrap();
    std::fs::hard_link(file, elsewhere).unwrap();
    let refused = Host::new().set("store", &store).try_start().expect_err("it has two names");
    assert!(refused.said.contains("keep only the name that they used"), "{refused:?}");
    assert_eq!(first.raw().draw("orders", 1), [3]);
}

/// This happens on a packaged host without the unit's settings.
#[test]
fn nothing_is_adopted_in_a_directory_that_no_daemon_has_used() {
    let host = Host::new();
    for made in [false, true] {
        if made {
            std::fs::create_dir(host.state_dir()).unwrap();
        }
        let (code, said) = host.run("adopt-store");
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("--config") && !said.contains("adopted"), "{said}");
        let left = std::fs::read_dir(host.state_dir()).map_or(0, Iterator::count);
        assert_eq!((left, host.state_dir().exists()), (0, made), "it leaves nothing behind");
    }
}

#[test]
fn a_restored_older_journal_is_found_out_by_the_store() {
    let mut host = Host::new();
    host.change("store", &format!("sqlite:{}", host.path("store.db").display()));
    host.start();
    host.create("orders");
    host.raw().draw("orders", 10);
    host.stop();
    // The journal is restored in place: inode and birth time are the same, but the contents are old.
    let journal = host.state_dir().join("journal.db");
    let old = std::fs::read(&journal).unwrap();
    // After a rollback of the file system, the stamp is also that of the stop, with the same inode.
    let stamp = host.state_dir().join("stamp");
    std::fs::hard_link(&stamp, host.path("stamp")).unwrap();
    host.start();
    let last = *host.raw().draw("orders", 500).last().unwrap();
    host.stop();
    std::fs::write(&journal, old).unwrap();
    std::fs::rename(host.path("stamp"), stamp).unwrap();
    // The machine was rebooted, so only the store knows better.
    std::fs::remove_file(host.path("leafd.sock.last-commit")).unwrap();
    host.start();
    let mut raw = host.raw();
    raw.send(&ids_request("orders", 1, 1, 5_000));
    let reply = raw.reply();
    assert_eq!(reply.status(), Status::Ok, "{}", reply.text());
    assert!(reply.ids()[0] > last, "nothing of the old journal's stock");
    assert!(host.log().contains("older copy"), "{}", host.log());
    // The host recovers: the next clean stop is exact again.
    let next = raw.draw("orders", 1)[0];
    host.stop();
    host.start();
    assert_eq!(host.raw().draw("orders", 1), [next + 1]);
}

/// The store is lost, and a new one is created in its place, as the error texts advise. Ids that this host's journal
/// has seen are not issued again.
#[test]
fn a_lost_store_issues_nothing_again_that_the_journal_has_seen() {
    let mut host = Host::new();
    host.start();
    host.create("orders");
    let before = host.raw().draw("orders", 5_000);
    host.stop();
    for file in ["store.db", "store.db-wal", "store.db-shm"] {
        // Not all of these files exist after a clean stop.
        let _ = std::fs::remove_file(host.state_dir().join(file));
    }
    host.start();
    host.create("orders");
    let after = host.raw().draw("orders", 5_000);
    assert!(after[0] > *before.last().unwrap(), "{} after {:?}", after[0], before.last());
}

/// Under `static:N`, a lost journal must not lead to ids below those that an earlier life issued ahead of its clock.
#[test]
fn a_lost_journal_starts_above_the_drift_of_an_earlier_life() {
    let mut host = Host::new().worker(5);
    host.start();
    let before = host.raw().draw("snowflake", 1_000);
    host.kill();
    for file in ["journal.db", "journal.db-wal"] {
        let _ = std::fs::remove_file(host.state_dir().join(file));
    }
    // A start and a crash in between must not make the next start treat the journal as an old one.
    host.start();
    host.kill();
    host.start();
    let after = host.raw().draw("snowflake", 1_000);
    assert!(after[0] > *before.last().unwrap(), "{} after {:?}", after[0], before.last());
}

/// Under `static:N`, the note beside the number's lock outlives the state directory, and no start may lower it.
#[test]
fn a_lost_state_directory_starts_above_what_was_noted_however_often_the_daemon_was_started() {
    let (mut host, clock) = WallClock::of(Host::new().worker(5));
    host.start();
    let before = host.raw().draw("snowflake", 1_000);
    let noted = |host: &Host| {
        let text = std::fs::read_to_string(host.path("locks/leafd-worker-5.lock")).unwrap();
        text.lines().nth(1).map_or(0, |note| note.parse::<u64>().unwrap())
    };
    let first = noted(&host);
    let used = Layout::LEAF.decompose(*before.last().unwrap()).unwrap().tick;
    assert!(first > Layout::LEAF.tick_start_ms(used));
    for clean in [true, false, false] {
        if clean {
            host.stop();
        } else {
            host.kill();
        }
        host.start();
        assert!(noted(&host) >= first, "{} after {first}", noted(&host));
    }
    host.kill();
    std::fs::remove_dir_all(host.state_dir()).unwrap();
    // Only the note shows now which ids were issued, because the clock is behind them.
    clock.step(-3_600);
    host.start();
    host.raw().refused(&ids_request("snowflake", 1, 1, 0), Status::ClockBehind);
    clock.step(0);
    let after = host.raw().draw_until("snowflake", Duration::from_secs(30));
    assert!(after > *before.last().unwrap(), "{after} after {:?}", before.last());
}

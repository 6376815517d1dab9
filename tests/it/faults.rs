//! A state directory that fails: full, missing, read-only, damaged, or of another version. No id is issued that the
//! journal doesn't know, and each message says what to do.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::time::Duration;

use leafd_wire::{Status, opcode};
use nix::sys::signal::Signal;

use crate::host::{Host, eventually};
use crate::power::{Mode, PowerLoss};
use crate::raw::{Raw, ids_request};
use crate::small_disk::SmallDisk;

/// Makes the state directory read-only, for the daemon alone.
const MOUNT_READ_ONLY: &str =
    r#"mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@""#;

/// The exit status of `leafctl ping` if something that must be ready is not.
pub const EXIT_NOT_READY: i32 = 4;

/// How soon after the repair of a fault ids return.
pub const MENDED_WITHIN: Duration = Duration::from_secs(60);

/// A host whose store is outside of the state directory.
pub fn store_elsewhere() -> Host {
    let mut host = Host::new().worker(17);
    let store = format!("sqlite:{}", host.path("store.db").display());
    host.change("store", &store);
    host
}

/// The same, with the state directory on its own disk.
fn store_elsewhere_on_small_disk() -> (Host, SmallDisk) {
    let host = store_elsewhere();
    let state_dir = host.state_dir();
    SmallDisk::of(host, &state_dir)
}

/// Draws `orders` until the journal fails, and checks that the ids ascend.
#[track_caller]
fn draw_until_refused(raw: &mut Raw) -> u64 {
    let mut last = 0;
    for _ in 0..200_000 {
        raw.ask("orders", 60, 1);
        let reply = raw.reply();
        if reply.status() != Status::Ok {
            let text = reply.refused(Status::Journal);
            assert!(text.contains("journal.db"), "{text}");
            assert!(reply.retry_after_ms() > 0);
            return last;
        }
        for id in reply.ids() {
            assert!(id > last);
            last = id;
        }
    }
    panic!("the journal never fails");
}

/// Draws ids of both kinds before anything fails. Returns the snowflake id.
#[track_caller]
pub fn start_sound(host: &mut Host) -> u64 {
    host.start();
    host.create("orders");
    host.raw().draw("orders", 1);
    host.raw().draw("snowflake", 1)[0]
}

/// Checks that no id of either kind is issued while the journal fails, and that ids then continue above.
#[track_caller]
fn refused_then_mended(host: &mut Host, snowflake: u64, mend: impl FnOnce(&Host)) {
    let mut raw = host.raw();
    let last = draw_until_refused(&mut raw);
    for _ in 0..20 {
        raw.refused(&ids_request("orders", 1, 1, 100), Status::Journal);
        raw.refused(&ids_request("snowflake", 1, 1, 100), Status::Journal);
    }
    let info = raw.info();
    assert!(!info.segments_ready && !info.snowflake_ready);
    let status = host.status();
    assert!(!status["journal_error"].is_null());
    let found = &status["health"]["conditions"][0];
    assert_eq!(
        [&found["code"], &found["kind"], &found["severity"]],
        ["journal_failing", "all", "error"]
    );
    for kind in ["segments", "snowflake"] {
        assert_eq!(host.leafctl(&["ping", "--ready", kind]).status.code(), Some(EXIT_NOT_READY));
    }
    let told = |host: &Host, words: &str| {
        let log = host.log();
        let of_journal = log.lines().filter(|line| line.contains("code=\"journal_failing\""));
        of_journal.filter(|line| line.contains(words)).count()
    };
    eventually("it is told", MENDED_WITHIN, || (told(host, "ERROR") > 0).then_some(()));
    mend(host);
    assert!(raw.draw_until("orders", MENDED_WITHIN) > last);
    assert!(raw.draw_until("snowflake", MENDED_WITHIN) > snowflake);
    assert!(host.status()["journal_error"].is_null());
    eventually("its end is told", MENDED_WITHIN, || {
        (told(host, "resolved after") > 0).then_some(())
    });
    assert_eq!((told(host, "ERROR"), told(host, "")), (1, 2), "{}", host.log());
    host.assert_alive();
}

#[test]
fn a_full_disk_stops_issuing_until_there_is_room() {
    let (mut host, disk) = store_elsewhere_on_small_disk();
    let snowflake = start_sound(&mut host);
    disk.fill(&host);
    refused_then_mended(&mut host, snowflake, |host| disk.empty(host));
    host.stop();
}

/// No tag stalls because one of its writes was refused, and none needs a request to continue when the disk has space
/// again.
#[test]
fn every_tag_goes_on_by_itself_when_a_full_disk_has_room_again() {
    let (mut host, disk) = store_elsewhere_on_small_disk();
    host.start();
    let mut last: Vec<(String, u64)> = (0..10).map(|n| (format!("orders-{n}"), 0)).collect();
    last.iter().for_each(|(tag, _)| host.create(tag));
    let mut raw = host.raw();
    assert_eq!(ask_each(&mut raw, &mut last, 5), 0);
    disk.fill(&host);
    // The count is so large that all tags need something recorded, and these changes are pending together.
    let refused = |_: &u32| ask_each(&mut raw, &mut last, 100_000) == last.len();
    (0..5_000).find(refused).expect("the journal fails");
    disk.empty(&host);
    eventually("the journal works again", MENDED_WITHIN, || {
        host.status()["journal_error"].is_null().then_some(())
    });
    for count in [1, 100, 10_000] {
        assert_eq!(ask_each(&mut raw, &mut last, count), 0);
    }
    assert_eq!(host.status()["health"]["state"], "ok");
    host.stop();
}

/// Requests ids of all tags at once, and checks that they lie above the last ones. Returns how many requests were
/// refused because of the journal.
#[track_caller]
fn ask_each(raw: &mut Raw, last: &mut [(String, u64)], count: u32) -> usize {
    last.iter().zip(0..).for_each(|((tag, _), number)| raw.ask(tag, count, number));
    let mut refused = 0;
    for _ in 0..last.len() {
        let reply = raw.reply();
        if reply.status() != Status::Ok {
            reply.refused(Status::Journal);
            refused += 1;
            continue;
        }
        let (tag, last) = &mut last[reply.header.request_id as usize];
        for run in reply.runs() {
            assert!(run.first > *last, "{tag}: {} follows {last}", run.first);
            *last = run.end() - 1;
        }
    }
    refused
}

#[test]
fn a_disk_whose_syncs_fail_stops_issuing_until_they_work() {
    let mut host = store_elsewhere();
    fs::create_dir(host.state_dir()).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let power = PowerLoss::of(&host.state_dir(), scratch.path()).unwrap();
    host.watch(&power, Mode::Sync);
    let snowflake = start_sound(&mut host);
    power.break_disk(true).unwrap();
    refused_then_mended(&mut host, snowflake, |_| power.break_disk(false).unwrap());
    host.stop();
}

#[test]
fn a_state_directory_that_is_moved_stops_issuing_until_it_is_back() {
    let mut host = store_elsewhere();
    let snowflake = start_sound(&mut host);
    fs::rename(host.state_dir(), host.path("away")).unwrap();
    refused_then_mended(&mut host, snowflake, |host| {
        fs::rename(host.path("away"), host.state_dir()).unwrap();
    });
    host.kill();
    host.start();
    host.raw().draw("orders", 1);
}

#[test]
fn a_fault_that_only_the_worker_s_renewals_meet_stops_issuing_of_both_kinds() {
    let mut host = store_elsewhere().set("lease", "30s");
    host.change("worker", "store");
    let snowflake = start_sound(&mut host);
    // After a restart, only the claim is written as long as nobody requests ids.
    host.kill();
    host.start();
    let mut raw = host.raw();
    eventually("it is ready", MENDED_WITHIN, || raw.info().segments_ready.then_some(()));
    fs::rename(host.state_dir(), host.path("away")).unwrap();
    eventually("the fault is met", MENDED_WITHIN, || (!raw.info().segments_ready).then_some(()));
    for _ in 0..20 {
        raw.refused(&ids_request("orders", 1, 1, 100), Status::Journal);
        raw.refused(&ids_request("snowflake", 1, 1, 100), Status::Journal);
    }
    assert!(!host.status()["journal_error"].is_null());
    fs::rename(host.path("away"), host.state_dir()).unwrap();
    // This needs no request.
    eventually("it goes on", MENDED_WITHIN, || raw.info().segments_ready.then_some(()));
    assert!(raw.draw("orders", 1)[0] > 1);
    assert!(raw.draw_until("snowflake", MENDED_WITHIN) > snowflake);
    host.assert_alive();
}

#[test]
fn a_journal_that_contradicts_what_is_held_has_tags_start_over() {
    let mut host = store_elsewhere();
    start_sound(&mut host);
    host.create("others");
    let mut raw = host.raw();
    raw.draw("others", 1);
    // During a fault the journal is closed, and anybody can write to it.
    fs::rename(host.state_dir(), host.path("away")).unwrap();
    let last = draw_until_refused(&mut raw);
    let mut other = store_elsewhere();
    other.start();
    let ahead = other.raw().draw("snowflake", 1)[0];
    other.kill();
    {
        let journal = rusqlite::Connection::open(host.path("away").join("journal.db")).unwrap();
        let attach =
            format!("ATTACH '{}' AS other", other.state_dir().join("journal.db").display());
        journal.execute_batch(&attach).unwrap();
        // The journal loses a tag, and gets a layout that is ahead of this daemon's.
        let changes = "DELETE FROM records WHERE key = 'orders'; \
                       INSERT OR REPLACE INTO records SELECT * FROM other.records WHERE kind = 'layout'";
        journal.execute_batch(changes).unwrap();
    }
    fs::rename(host.path("away"), host.state_dir()).unwrap();
    let drawn = raw.draw_until("orders", MENDED_WITHIN);
    assert!(drawn > last, "{drawn} after {last}");
    // Ids that were marked before the journal was changed are issued first.
    let mut snowflake = 0;
    eventually("the layout goes on above what is recorded", MENDED_WITHIN, || {
        let next = raw.draw_until("snowflake", MENDED_WITHIN);
        assert!(next > snowflake, "{next} after {snowflake}");
        snowflake = next;
        (next > ahead).then_some(())
    });
    // Other tags continue, and so does this one, across many marks.
    assert!(raw.draw_until("others", MENDED_WITHIN) > 1);
    let mut seen = drawn;
    for _ in 0..200 {
        for id in raw.draw("orders", 50) {
            assert!(id > seen);
            seen = id;
        }
    }
    let log = host.log();
    let told = |what: &str| log.lines().filter(|line| line.contains(what)).count();
    assert_eq!(told("contradicts the running daemon about this tag"), 1, "{log}");
    assert_eq!(told("contradicts the running daemon about this layout"), 1, "{log}");
    let line = log
        .lines()
        .find(|line| line.contains("contradicts the running daemon about this tag"))
        .unwrap();
    assert!(line.contains("tag=orders") && line.contains("store.db"), "{line}");
    assert!(line.contains("Only leafd may write to the state directory"), "{line}");
    host.stop();
    host.start();
    assert!(host.raw().draw("orders", 1)[0] > seen);
}

#[test]
fn a_layout_that_the_journal_has_otherwise_is_not_ready_and_that_is_told() {
    let mut host = store_elsewhere();
    start_sound(&mut host);
    let mut other = store_elsewhere();
    other.change(
        "layouts",
        r#"{snowflake = {time_bits = 41, worker_bits = 10, sequence_bits = 12, epoch = "2025-01-01T00:00:00Z"}}"#,
    );
    other.start();
    other.raw().draw("snowflake", 1);
    other.kill();
    fs::rename(host.state_dir(), host.path("away")).unwrap();
    let mut raw = host.raw();
    draw_until_refused(&mut raw);
    let journal = rusqlite::Connection::open(host.path("away").join("journal.db")).unwrap();
    let attach = format!("ATTACH '{}' AS other", other.state_dir().join("journal.db").display());
    journal.execute_batch(&attach).unwrap();
    let change = "INSERT OR REPLACE INTO records SELECT * FROM other.records WHERE kind = 'layout'";
    journal.execute_batch(change).unwrap();
    drop(journal);
    fs::rename(host.path("away"), host.state_dir()).unwrap();
    let status = eventually("it is told", MENDED_WITHIN, || {
        raw.ask("snowflake", 1, 1);
        raw.reply();
        let status = host.status();
        let conditions = status["health"]["conditions"].as_array().unwrap();
        let told = conditions.iter().any(|found| {
            found["code"] == "layout_contradicted"
                && found["message"].as_str().unwrap().contains("a different definition")
        });
        told.then_some(status)
    });
    let found = &status["health"]["conditions"][0];
    assert_eq!([&found["subject"], &found["severity"]], ["snowflake", "error"], "{status}");
    assert!(found["remedy"].as_str().unwrap().contains("restart leafd"), "{status}");
    assert_eq!(
        (&status["snowflake"]["ready"], &status["segments"]["ready"]),
        (&false.into(), &true.into()),
        "{status}"
    );
    raw.refused(&ids_request("snowflake", 1, 1, 100), Status::Journal);
}

#[test]
fn a_state_directory_that_is_deleted_or_replaced_is_begun_anew_by_a_restart() {
    let mut host = store_elsewhere();
    host.start();
    host.create("orders");
    host.raw().draw("orders", 1);
    let mut raw = host.raw();
    let mut snowflake = raw.draw("snowflake", 1)[0];
    for replaced in [false, true] {
        fs::remove_dir_all(host.state_dir()).unwrap();
        if replaced {
            fs::create_dir(host.state_dir()).unwrap();
        }
        let last = draw_until_refused(&mut raw);
        raw.refused(&ids_request("snowflake", 1, 1, 100), Status::Journal);
        host.kill();
        host.start();
        raw = host.raw();
        assert!(raw.draw("orders", 1)[0] > last);
        let next = raw.draw_until("snowflake", MENDED_WITHIN);
        assert!(next > snowflake);
        snowflake = next;
    }
}

#[test]
fn a_read_only_state_directory_is_refused_at_start() {
    let mut host = store_elsewhere();
    host.start();
    host.stop();
    let state_dir = host.state_dir();
    let runner = ["unshare", "--mount", "sh", "-c", MOUNT_READ_ONLY, state_dir.to_str().unwrap()];
    host = host.runner(&runner);
    let refusal = host.try_start().unwrap_err();
    assert_eq!(refusal.code, Some(1), "{refusal:?}");
    assert!(refusal.said.contains("remount its file system for writing"), "{refusal:?}");
    host = host.runner(&[]);
    host.start();
}

#[test]
fn a_damaged_journal_is_refused_with_what_to_do() {
    let mut host = store_elsewhere();
    host.start();
    host.create("orders");
    let last = *host.raw().draw("orders", 10).last().unwrap();
    host.stop();
    let journal = host.state_dir().join("journal.db");
    let whole = fs::read(&journal).unwrap();
    let mut file = fs::OpenOptions::new().write(true).open(&journal).unwrap();
    // SQLite fills its pages from the end.
    for page_end in (4_096..=whole.len()).step_by(4_096) {
        file.seek(SeekFrom::Start(page_end as u64 - 30)).unwrap();
        file.write_all(b"damage").unwrap();
    }
    let refusal = host.try_start().unwrap_err();
    assert_eq!(refusal.code, Some(1), "{refusal:?}");
    assert!(
        refusal.said.contains("damaged") && refusal.said.contains("move journal.db"),
        "{refusal:?}"
    );
    for (contents, words) in [(&b"no database"[..], "not a journal"), (b"", "not a journal")] {
        file.set_len(0).unwrap();
        fs::write(&journal, contents).unwrap();
        let refusal = host.try_start().unwrap_err();
        assert!(refusal.said.contains(words), "{refusal:?}");
    }
    // The message is followed: once the journal is moved away, this host starts over and skips its held ids.
    fs::rename(&journal, host.path("damaged.db")).unwrap();
    host.start();
    assert!(host.raw().draw("orders", 1)[0] > last);
}

#[test]
fn a_journal_of_a_newer_format_is_refused_and_left_alone() {
    let mut host = store_elsewhere();
    host.start();
    host.create("orders");
    host.raw().draw("orders", 10);
    host.stop();
    let journal = host.state_dir().join("journal.db");
    let version = |version: u32| {
        let database = rusqlite::Connection::open(&journal).unwrap();
        let former = database.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        database.pragma_update(None, "user_version", version).unwrap();
        former
    };
    let present: u32 = version(99);
    let before = fs::read(&journal).unwrap();
    let refusal = host.try_start().unwrap_err();
    assert!(refusal.said.contains("version 99"), "{refusal:?}");
    assert_eq!(fs::read(&journal).unwrap(), before);
    version(present);
    host.start();
    assert_eq!(host.raw().draw("orders", 1), [11], "nothing is lost by it");
}

/// The note of the last commit, and the record of gaps, are lost, cut off, overwritten, or something else than files.
#[test]
fn damaged_notes_cost_held_ids_at_most() {
    let mut host = store_elsewhere();
    host.start();
    host.create("orders");
    let mut last = host.raw().draw("orders", 10)[9];
    let note = host.path("leafd.sock.last-commit");
    for (file, is_note) in [(note, true), (host.state_dir().join("gaps"), false)] {
        for damage in ["removed", "emptied", "overwritten", "a folder", "a link"] {
            let show = serde_json::json!({ "tag": "orders" });
            let claimed = host.admin(opcode::TAG_SHOW, &show)["max_id"].as_u64().unwrap();
            host.kill();
            let _ = fs::remove_file(&file);
            match damage {
                "emptied" => fs::write(&file, "").unwrap(),
                "overwritten" => fs::write(&file, [0xff; 300]).unwrap(),
                "a folder" => fs::create_dir(&file).unwrap(),
                "a link" => std::os::unix::fs::symlink("/dev/null", &file).unwrap(),
                _ => {}
            }
            host.start();
            let next = host.raw().draw("orders", 1)[0];
            assert!(next > last, "{}, {damage}: {next} after {last}", file.display());
            let is_held = next < claimed;
            assert_eq!(is_held, !is_note, "{}, {damage}: {next} of {claimed}", file.display());
            host.stop();
            host.start();
            assert_eq!(host.raw().draw("orders", 1), [next + 1], "a clean stop needs no note");
            last = next + 1;
            if damage == "a folder" {
                host.stop();
                fs::remove_dir(&file).unwrap();
                host.start();
            }
        }
    }
}

/// Truncating the file frees its page, so the next note needs space again.
#[test]
fn a_static_worker_whose_note_can_t_be_written_stops_and_segments_go_on() {
    let mut host = store_elsewhere();
    let locks = host.path("locks");
    let disk;
    (host, disk) = SmallDisk::of(host, &locks);
    let mut last = start_sound(&mut host);
    let lock = disk.path(&host, "leafd-worker-17.lock");
    // The daemon must note nothing in between.
    host.signal(Signal::SIGSTOP);
    fs::OpenOptions::new().write(true).open(lock).unwrap().set_len(0).unwrap();
    disk.fill(&host);
    host.signal(Signal::SIGCONT);
    let mut raw = host.raw();
    let refused = eventually("refused", Duration::from_secs(60), || {
        raw.ask("snowflake", 1, 1);
        let reply = raw.reply();
        if reply.status() != Status::Ok {
            return Some(reply.refused(Status::NoWorker));
        }
        assert!(reply.ids()[0] > last);
        last = reply.ids()[0];
        None
    });
    assert!(refused.contains("worker_lock_dir"), "{refused}");
    raw.draw("orders", 1);
    assert_eq!(host.status()["health"]["conditions"][0]["code"], "worker_refused");
    disk.empty(&host);
    host.stop();
    host.start();
    assert!(host.raw().draw_until("snowflake", MENDED_WITHIN) > last);
}

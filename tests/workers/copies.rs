//! Misplaced journals: one copied to a second host while the first continues, and an old copy that is restored.

use std::process::Command;
use std::time::Duration;

use leafd_tests::host::Host;
use leafd_tests::load::Load;

use crate::fleet::{Fleet, draw_of, id_of, only, worker_of};
use crate::registry::{Backend, Registry};

/// Gives a process and its children the id of another machine.
const ANOTHER_MACHINE: &str = r#"set -e; mount --bind "$0" /etc/machine-id; exec "$@""#;

on_each_registry!(a_journal_that_was_copied, an_old_journal_that_was_put_back);

fn a_journal_that_was_copied<B: Backend>() {
    let mut fleet = Fleet::<B>::new(Registry::shared(), 3, "1m", &[]);
    for (fault, own_machine_id) in [
        ("journal copied to a second machine while the first runs", true),
        ("journal copied on the same machine while the first runs", false),
    ] {
        let mut second = fleet.registry.host("1m");
        let id_file = second.path("machine-id");
        std::fs::write(&id_file, "0123456789abcdef0123456789abcdef\n").unwrap();
        if own_machine_id {
            let words = ["unshare", "--mount", "sh", "-c", ANOTHER_MACHINE];
            let words: Vec<&str> = words.into_iter().chain([id_file.to_str().unwrap()]).collect();
            second = second.runner(&words);
        }
        let errors = fleet.under_load(fault, 3, |fleet, load| {
            let first = worker_of(id_of(&fleet.hosts[0]));
            copy(&fleet.hosts[0], &second);
            second.start();
            assert!(second.log().contains("copy"), "it is said: {}", second.log());
            let other = Load::start(vec![draw_of(&second), draw_of(&second)]);
            other.under_way();
            assert_ne!(worker_of(id_of(&second)), first, "the first one's is the first one's");
            for _ in 0..5 {
                load.each_draws(Duration::from_secs(2));
                other.each_draws(Duration::from_secs(2));
                std::thread::sleep(Duration::from_millis(200));
            }
            assert_eq!(worker_of(id_of(&fleet.hosts[0])), first);
            let mut drawn = other.stop();
            assert!(drawn.errors.is_empty(), "{:?}", drawn.errors);
            drawn.errors.clear();
            fleet.drawn.add(drawn);
            None
        });
        only(&errors, &[]);
        fleet.hosts.push(second);
    }
    fleet.finish();
}

/// The whole state directory, as a backup of a running host copies it.
fn copy(from: &Host, to: &Host) {
    let copied = Command::new("cp").arg("-a").args([from.state_dir(), to.state_dir()]).status();
    assert!(copied.unwrap().success());
    // These files belong to the running daemon.
    for name in ["lock", "leafd.lock"] {
        let _ = std::fs::remove_file(to.state_dir().join(name));
    }
}

/// Restored in its own place: inode and birth time are the same, but the contents are old.
fn an_old_journal_that_was_put_back<B: Backend>() {
    let settings = [("restart_grace", "0s")];
    let mut fleet = Fleet::<B>::new(Registry::shared(), 3, "4s", &settings);
    let mut host = fleet.hosts.pop().unwrap();
    let mut ids = host.raw().draw("snowflake", 100);
    host.stop();
    let journal = host.state_dir().join("journal.db");
    let old = std::fs::read(&journal).unwrap();
    // This simulates a later time: by then, its worker has another holder, or belongs to another start of this host.
    host.start();
    ids.extend(host.raw().draw("snowflake", 1_000));
    host.kill();
    for (fault, away) in [
        ("an old journal put back after kill -9", false),
        ("an old journal put back after kill -9, started without the registry", true),
    ] {
        let errors = fleet.under_load(fault, 2, |fleet, _| {
            std::fs::write(&journal, &old).unwrap();
            for name in ["journal.db-wal", "journal.db-shm"] {
                let _ = std::fs::remove_file(host.state_dir().join(name));
            }
            if away {
                fleet.registry.relay.refuse();
                host.start();
                std::thread::sleep(Duration::from_secs(2));
                let mut raw = host.raw();
                raw.send(&leafd_tests::raw::ids_request("snowflake", 10, 1, 300));
                let reply = raw.reply();
                if reply.status() == leafd_wire::Status::Ok {
                    ids.extend(reply.ids());
                }
                fleet.registry.relay.pass();
            } else {
                host.start();
            }
            let begun = std::time::Instant::now();
            ids.push(id_of(&host));
            let recovered = begun.elapsed();
            ids.extend(host.raw().draw("snowflake", 1_000));
            host.kill();
            Some(recovered)
        });
        only(&errors, &["NO_WORKER"]);
    }
    fleet.add(&ids);
    fleet.finish();
}

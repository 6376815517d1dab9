//! Who shares a run must not harm others: neither by what it was given, nor by writing where it may.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leafd_client::opcode;
use leafd_wire::{ShareReply, Status};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{ControlMessage, MsgFlags, recv, sendmsg};
use serde_json::json;

use super::pages::{Pages, ask, map, received, reply, share};
use super::{client, sharing};
use crate::access::{STRANGER, raw_as};
use crate::host::{Host, eventually};
use crate::raw::become_user;
use crate::seed::seeds;

/// A user who may share.
const USER: u32 = 4_001;

fn begun() -> Host {
    let mut host = sharing();
    host.start();
    host.create("orders");
    host
}

#[test]
fn others_get_no_memory_at_all() {
    let host = begun();
    for uid in [4_002, STRANGER] {
        let mut raw = raw_as(&host, uid, uid, &[]);
        ask(&mut raw, "orders", 0, 1_000);
        let (answer, came) = reply(&mut raw);
        let answer = ShareReply::decode(&answer.body);
        assert!(matches!(answer, Ok(ShareReply::NotShared { .. })), "{uid}: {answer:?}");
        assert!(came.is_empty());
    }
    let users = [0, USER].map(|uid| share(&mut raw_as(&host, uid, uid, &[]), "orders"));
    assert_ne!(users[0].number, users[1].number, "each user has a page of its own");
    let drawn = users.each_ref().map(|pages| pages.draw().unwrap());
    assert_ne!(drawn[0], drawn[1]);
}

/// The kernel counts what is under way from the daemon's user to anybody, and has a limit for it.
#[test]
fn users_who_never_take_their_memory_keep_it_from_nobody() {
    const CONNECTIONS: u64 = 1_400;
    const RULES: &str = r#"[{tags = ["orders"], share_uids = [4001, 4002, 4003]}]"#;
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most.min(4 * CONNECTIONS), most).unwrap();
    let mut host = Host::new().set("socket_mode", "0666").set("access", RULES);
    host.change("connections_max", &CONNECTIONS.to_string());
    // Root has no such limit.
    let mut host = host.user(4_000).runner(&["prlimit", "--nofile=1024:"]);
    host.start();
    host.create("orders");
    let mut idle = Vec::new();
    for uid in [4_001, 4_002] {
        loop {
            let mut raw = raw_as(&host, uid, uid, &[]);
            if raw.try_info().is_err() {
                break;
            }
            ask(&mut raw, "orders", 0, 20_000);
            idle.push(raw);
        }
    }
    assert!(idle.len() as u64 > CONNECTIONS * 7 / 10, "{} connections", idle.len());
    for raw in &idle {
        recv(raw.stream.as_raw_fd(), &mut [0], MsgFlags::MSG_PEEK).unwrap();
    }
    let pages = share(&mut raw_as(&host, 4_003, 4_003, &[]), "orders");
    pages.draw().unwrap();
}

/// Not even by root, which is asked here: what is sealed is sealed for everybody.
#[test]
fn nobody_writes_what_the_daemon_publishes_nor_changes_its_size() {
    let host = begun();
    let pages = share(&mut raw_as(&host, USER, USER, &[]), "orders");
    let [run, tickets] = &pages.descriptors;
    let both = libc::PROT_READ | libc::PROT_WRITE;
    assert!(map(run, both).is_err(), "mapped to be written");
    let path = format!("/proc/self/fd/{}", run.as_raw_fd());
    if let Ok(again) = File::options().read(true).write(true).open(&path) {
        assert!(map(&again.try_clone().unwrap().into(), both).is_err(), "opened again, and mapped");
        assert!(std::io::Write::write(&mut &again, b"x").is_err(), "opened again, and written");
        assert!(again.set_len(0).is_err() && again.set_len(1 << 20).is_err());
        // SAFETY: no memory is passed.
        let punched = unsafe {
            libc::fallocate(
                again.as_raw_fd(),
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                0,
                4096,
            )
        };
        assert_eq!(punched, -1, "opened again, and emptied");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o444);
    }
    let tickets = File::from(tickets.try_clone().unwrap());
    for length in [0, 1, 1 << 20] {
        assert!(tickets.set_len(length).is_err(), "cut to {length}");
    }
    for file in [File::from(run.try_clone().unwrap()), tickets] {
        let more = FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_WRITE);
        assert!(fcntl(&file, more).is_err(), "sealed by somebody else");
    }
    assert!(pages.draw().is_some());
}

/// What a process of the user gives away is given away, as any open file is. It is worth what it was to the user.
#[test]
fn who_is_given_the_descriptors_draws_as_their_user_and_can_do_no_more() {
    let host = begun();
    let mut raw = raw_as(&host, USER, USER, &[]);
    let pages = share(&mut raw, "orders");
    let (ours, theirs) = UnixStream::pair().unwrap();
    let numbers = pages.descriptors.each_ref().map(AsRawFd::as_raw_fd);
    let (word, along) = ([io::IoSlice::new(b"x")], [ControlMessage::ScmRights(&numbers)]);
    sendmsg::<()>(ours.as_raw_fd(), &word, &along, MsgFlags::empty(), None).unwrap();

    let mut drawn: Vec<u64> = (0..5).map(|_| pages.draw().unwrap()).collect();
    let number = pages.number;
    let received = std::thread::scope(|scope| {
        let stranger = scope.spawn(|| {
            become_user(STRANGER, STRANGER, &[]).unwrap();
            let given = Pages::map(number, received(&theirs));
            let both = libc::PROT_READ | libc::PROT_WRITE;
            assert!(map(&given.descriptors[0], both).is_err(), "mapped to be written");
            let path = format!("/proc/self/fd/{}", given.descriptors[0].as_raw_fd());
            assert!(File::options().write(true).open(path).is_err(), "opened to be written");
            given
        });
        stranger.join().unwrap()
    });
    drawn.extend((0..5).map(|_| received.draw().unwrap()));
    drawn.push(pages.draw().unwrap());
    assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]), "each once, and in order: {drawn:?}");
    // It is no right of its own, and ends with the user's.
    let mut stranger = raw_as(&host, STRANGER, STRANGER, &[]);
    ask(&mut stranger, "orders", number, 1_000);
    let (answer, came) = reply(&mut stranger);
    assert!(matches!(ShareReply::decode(&answer.body), Ok(ShareReply::NotShared { .. })));
    assert!(came.is_empty());
    let shown = host.admin(opcode::TAG_SHOW, &json!({ "tag": "orders" }));
    let body = json!({ "tag": "orders", "generation": shown["generation"] });
    host.admin(opcode::TAG_DELETE, &body);
    assert_eq!([received.draw(), pages.draw()], [None, None]);
}

#[test]
fn who_writes_the_ticket_page_at_random_harms_no_other_user() {
    for mut random in seeds(1) {
        let mut host = begun();
        let mut raw = raw_as(&host, USER, USER, &[]);
        let pages = share(&mut raw, "orders");
        let stop = AtomicBool::new(false);
        let client = client(&host);
        let mut own = Vec::new();
        std::thread::scope(|scope| {
            let (stop, seed) = (&stop, random.u64(..));
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                let mut pages = pages;
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..100 {
                        let taken = pages.tickets.taken();
                        pages.tickets.overwrite(match random.u32(0..5) {
                            0 => random.u64(..),
                            1 => taken.wrapping_sub(random.u64(0..10_000)),
                            2 => taken.wrapping_add(random.u64(0..1_000_000)),
                            3 => 0,
                            _ => u64::MAX - random.u64(0..10_000),
                        });
                        let _ = pages.draw();
                    }
                    ask(&mut raw, "orders", pages.number, 100);
                    let (answer, came) = reply(&mut raw);
                    if !came.is_empty() {
                        drop((answer, came));
                        pages = share(&mut raw, "orders");
                    }
                }
            });
            for _ in 0..60_000 {
                own.push(client.next("orders").unwrap());
            }
            let direct = host.raw().draw("orders", 5);
            own.extend(direct);
            stop.store(true, Ordering::Relaxed);
        });
        assert!(own.windows(2).all(|pair| pair[0] < pair[1]), "each once, and in order");
        host.assert_alive();
        assert!(host.log().contains("has written into the memory"), "{}", host.log());
        // And its user goes on.
        let mut raw = raw_as(&host, USER, USER, &[]);
        eventually("an id", Duration::from_secs(30), || share(&mut raw, "orders").draw());
    }
}

#[test]
fn who_takes_no_descriptors_is_sent_no_more_of_them() {
    let host = begun();
    let mut raw = raw_as(&host, USER, USER, &[]);
    for _ in 0..50 {
        ask(&mut raw, "orders", 0, 5_000);
    }
    // All fifty are answered before one is read.
    std::thread::sleep(Duration::from_millis(50));
    let mut pairs = 0;
    for _ in 0..50 {
        let (answer, came) = reply(&mut raw);
        assert_eq!(answer.status(), Status::Ok);
        match ShareReply::decode(&answer.body).unwrap() {
            ShareReply::Pages { .. } => assert_eq!(came.len(), 2),
            ShareReply::NotShared { again_ms: 0 } => assert!(came.is_empty()),
            other => panic!("{other:?}"),
        }
        pairs += came.len() / 2;
    }
    assert!((1..50).contains(&pairs), "{pairs} pairs were under way");
}

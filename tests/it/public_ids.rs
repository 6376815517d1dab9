//! Public ids: dense ids are masked and unmasked by users with the right to do so, under a key that all hosts have.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use leafd_client::{Error, opcode};
use leafd_core::Tag;
use leafd_core::mask::{Mask, MaskBits, MaskKeys};
use leafd_wire::{Header, MaskForm, MaskItems, MaskReply, MaskRequest, Status};
use nix::sys::signal::Signal;

use crate::access::{STRANGER, raw_as};
use crate::c_library::{Way, folder, program, succeed};
use crate::host::{Host, eventually};
use crate::raw::Raw;

pub const WITHIN: Duration = Duration::from_secs(60);

const KEY: &str = "000102030405060708090a0b0c0d0e0f";
const OTHER_KEY: &str = "f0e0d0c0b0a090807060504030201000";

/// A host that has these keys, together with their file.
pub fn host_with_keys(keys: &str) -> (Host, PathBuf) {
    let host = Host::new().worker(17);
    let file = host.path("mask_keys");
    write_keys(&file, keys);
    (host.set("mask_key_file", file.to_str().unwrap()), file)
}

/// The keys of the protocol's test vectors.
pub fn host_of_vectors() -> Host {
    host_with_keys(&format!("1 {KEY}\n")).0
}

pub fn write_keys(file: &Path, keys: &str) {
    fs::write(file, keys).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}

fn status_of(result: Result<Vec<u64>, Error>) -> (Status, String) {
    match result {
        Err(Error::Service { status, message, .. }) => (status, message),
        other => panic!("{other:?}"),
    }
}

/// Requests the public id of 17, as a client other than ours.
fn ask(raw: &mut Raw, tag: &str) -> crate::raw::Reply {
    send(raw, tag);
    raw.reply()
}

/// Does so without waiting for the answer.
fn send(raw: &mut Raw, tag: &str) {
    let form = MaskForm { tag: tag.as_bytes(), bits: 53, key: 0, prefix: None };
    let mut bytes = Vec::new();
    let body = MaskRequest::body(&form, MaskItems::Numbers(&[17]));
    Header::request(opcode::MASK, 0, 5).put_frame(&body, &mut bytes);
    raw.send(&bytes);
}

#[test]
fn ids_are_masked_and_come_back() {
    let (mut host, _) = host_with_keys(&format!("1 {KEY}\n"));
    host.start();
    let client = host.client();
    let orders = client.public_ids("orders").prefix("ord");
    let ids: Vec<u64> = (1..=500).chain([i64::MAX as u64]).collect();
    let public = orders.mask(&ids).unwrap();
    let keys = MaskKeys::parse(&format!("1 {KEY}")).unwrap();
    let mask = Mask::new(keys.current(), &Tag::parse(b"orders").unwrap(), MaskBits::MAX);
    for (id, public) in ids.iter().zip(&public) {
        assert_eq!(mask.mask(*id).unwrap(), *public);
    }
    assert_eq!(orders.unmask(&public).unwrap(), ids);
    let texts = orders.mask_text(&ids).unwrap();
    assert!(texts.iter().all(|text| text.starts_with("ord_1") && text.len() == 19), "{texts:?}");
    assert_eq!(orders.unmask_text(&texts).unwrap(), ids);
    // Another tag or another width gives other ids.
    assert_ne!(client.public_ids("order").mask(&[17]).unwrap(), orders.mask(&[17]).unwrap());
    assert_ne!(orders.bits(53).mask(&[17]).unwrap(), orders.mask(&[17]).unwrap());
    assert!(orders.mask(&[]).unwrap().is_empty());
    host.stop();
}

#[test]
fn what_is_no_id_is_refused_in_words() {
    let (mut host, _) = host_with_keys(&format!("1 {KEY}\n"));
    host.start();
    let client = host.client();
    let orders = client.public_ids("orders").prefix("ord").bits(53);
    let (status, words) = status_of(orders.mask(&[1, 1 << 53]));
    assert!(status == Status::ValueRefused && words.contains("9007199254740992"), "{words}");
    assert_eq!(status_of(orders.unmask(&[0])).0, Status::ValueRefused);
    let good = orders.mask_text(&[17]).unwrap().remove(0);
    let mistyped = good.replace(&good[10..11], if &good[10..11] == "7" { "8" } else { "7" });
    for (text, part) in
        [(&*mistyped, "mistyped"), ("cus_1", "prefix"), ("ord_", "long"), ("", "prefix")]
    {
        let (status, words) = status_of(orders.unmask_text(&[&good, text]));
        assert!(status == Status::ValueRefused && words.contains(part), "{text}: {words}");
    }
    assert_eq!(status_of(orders.prefix("9").unmask_text(&[&good])).0, Status::ValueRefused);
    assert_eq!(status_of(orders.bits(19).mask(&[1])).0, Status::ValueRefused);
    assert_eq!(status_of(orders.key(32).mask(&[1])).0, Status::ValueRefused);
    assert_eq!(status_of(orders.key(2).mask(&[1])).0, Status::MaskKey);
    let mut raw = host.raw();
    for body in [&b""[..], &[63, 0, 0, 0, 1, 0, 0, 0, b't'], &[63, 0, 1, 0, 255, 255, 0, 0]] {
        raw.request(opcode::MASK, 1, body);
        raw.reply().refused(Status::Malformed);
        raw.request(opcode::UNMASK, 1, body);
        raw.reply().refused(Status::Malformed);
    }
}

#[test]
fn to_unmask_is_a_right_of_its_own() {
    let (host, _) = host_with_keys(&format!("1 {KEY}\n"));
    let mut host = host
        .set("socket_mode", "0666")
        .set("admin_gids", "[4002]")
        .set("access", "[{tags = [\"orders\"], unmask_uids = [4003], unmask_gids = [4004]}]");
    host.start();
    host.create("orders");
    let mut stranger = raw_as(&host, STRANGER, STRANGER, &[]);
    let words = ask(&mut stranger, "orders").refused(Status::Denied);
    assert!(words.contains("unmask_uids"), "{words}");
    // Such a rule does not reserve the tag for its users.
    assert_eq!(stranger.draw("orders", 1), [1]);
    for (uid, gid, may) in
        [(4_003, 9, true), (9, 4_004, true), (9, 4_002, true), (4_004, 4_003, false)]
    {
        let mut raw = raw_as(&host, uid, gid, &[]);
        assert_eq!(ask(&mut raw, "orders").status() == Status::Ok, may, "{uid} {gid}");
        let may_elsewhere = may && gid == 4_002;
        assert_eq!(ask(&mut raw, "bills").status() == Status::Ok, may_elsewhere, "{uid} {gid}");
    }
}

#[test]
fn a_wrong_key_masks_nothing() {
    let (mut host, file) = host_with_keys(&format!("1 {KEY}\n"));
    host.start();
    let before = host.client().public_ids("orders").mask(&[17]).unwrap();
    host.stop();
    write_keys(&file, &format!("2 {KEY}\n1 {OTHER_KEY}\n"));
    host.start();
    let (status, words) = status_of(host.client().public_ids("orders").mask(&[17]));
    assert!(status == Status::MaskKey && words.contains("mask key 1"), "{words}");
    eventually("the log says so", WITHIN, || {
        host.log().contains("mask key 1 of this").then_some(())
    });
    // A crowd of requests gets the same answer.
    let mut crowd: Vec<Raw> = (0..50).map(|_| host.raw()).collect();
    crowd.iter_mut().for_each(|raw| send(raw, "orders"));
    for raw in &mut crowd {
        let words = raw.reply().refused(Status::MaskKey);
        assert!(words.contains("mask key 1"), "{words}");
    }
    assert_eq!(host.log().matches("mask key 1 of this").count(), 1, "it is logged once");
    // Installing the right key fixes it without a restart.
    write_keys(&file, &format!("1 {KEY}\n"));
    host.signal(Signal::SIGHUP);
    let client = host.client();
    let after = eventually("the right key is read", WITHIN, || {
        client.public_ids("orders").mask(&[17]).ok()
    });
    assert_eq!(after, before);
    assert!(!host.log().contains(KEY) && !host.log().contains(OTHER_KEY));
    host.stop();
}

#[test]
fn a_host_without_keys_says_what_to_do() {
    let mut host = Host::new().worker(17);
    host.start();
    let (status, words) = status_of(host.client().public_ids("orders").mask(&[17]));
    assert!(status == Status::MaskKey && words.contains("leafd mask-key new"), "{words}");
}

#[test]
fn texts_outlive_a_new_key() {
    let (mut host, file) = host_with_keys(&format!("1 {KEY}\n"));
    host.start();
    let client = host.client();
    let orders = client.public_ids("orders");
    let (old_text, old_number) = (orders.mask_text(&[17]).unwrap(), orders.mask(&[17]).unwrap());
    write_keys(&file, &format!("2 {OTHER_KEY}\n1 {KEY}\n"));
    host.signal(Signal::SIGHUP);
    let new_text = eventually("the new key is in use", WITHIN, || {
        orders.mask_text(&[17]).ok().filter(|text| *text != old_text)
    });
    assert!(old_text[0].starts_with('1') && new_text[0].starts_with('2'), "{new_text:?}");
    assert_eq!(orders.unmask_text(&[&old_text[0], &new_text[0]]).unwrap(), [17, 17]);
    assert_ne!(orders.unmask(&old_number).unwrap(), [17]);
    assert_eq!(orders.key(1).unmask(&old_number).unwrap(), [17]);
    // A text whose key was removed is distinguished from a mistyped one.
    write_keys(&file, &format!("2 {OTHER_KEY}\n"));
    host.signal(Signal::SIGHUP);
    let words = eventually("the old key is gone", WITHIN, || match orders.unmask_text(&old_text) {
        Err(Error::Service { status: Status::ValueRefused, message, .. }) => Some(message),
        _ => None,
    });
    assert!(words.contains("mask key 1"), "{words}");
}

#[test]
fn keys_are_made_for_their_owner_alone() {
    let (host, _) = host_with_keys("");
    let file = host.path("new_keys");
    let make = |more: &[&str]| {
        let mut command = std::process::Command::new(crate::host::leafd_binary());
        command.args(["mask-key", "new"]).arg(&file).args(more).output().unwrap()
    };
    assert!(make(&[]).status.success());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let first = fs::read_to_string(&file).unwrap();
    MaskKeys::parse(&first).unwrap();
    let again = make(&[]);
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("--add"));
    assert_eq!(fs::read_to_string(&file).unwrap(), first);
    let added = make(&["--add"]);
    assert!(added.status.success());
    let both = fs::read_to_string(&file).unwrap();
    assert!(both.starts_with(&first), "the first key stays in use");
    assert_eq!(MaskKeys::parse(&both).unwrap().iter().count(), 2);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    // Root adds a key to a file that belongs to the daemon and its group.
    let (user, group) = (Some(4_007), Some(4_008));
    chown(&file, user, group).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(make(&["--add"]).status.success());
    let now = fs::metadata(&file).unwrap();
    assert_eq!((Some(now.uid()), Some(now.gid()), now.mode() & 0o777), (user, group, 0o640));
    chown(&file, Some(0), Some(0)).unwrap();
    for line in both.lines() {
        let (_, secret) = line.split_once(' ').unwrap();
        assert!(!String::from_utf8_lossy(&added.stdout).contains(secret));
    }

    let mut host = host.set("mask_key_file", file.to_str().unwrap());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let refusal = host.try_start().unwrap_err();
    assert!(refusal.said.contains("0600"), "{refusal:?}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    host.start();
    let shown = host.command(Some("check-config")).output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&shown).contains("new_keys"));
    assert_eq!(
        MaskReply::decode(&ask(&mut host.raw(), "orders").body).unwrap().numbers().unwrap().count(),
        1
    );
    host.stop();
    fs::write(&file, "1 nonsense\n").unwrap();
    let refusal = host.try_start().unwrap_err();
    assert!(refusal.said.contains("line 1") && !refusal.said.contains("nonsense"), "{refusal:?}");
}

#[test]
fn a_credential_serves_as_the_file() {
    let mut host = Host::new().worker(17);
    let folder = host.path("credentials");
    fs::create_dir(&folder).unwrap();
    write_keys(&folder.join("mask_key"), &format!("1 {KEY}\n"));
    host = host.variable("CREDENTIALS_DIRECTORY", &folder);
    host.start();
    assert_eq!(host.client().public_ids("orders").mask(&[17]).unwrap().len(), 1);
}

#[test]
fn leafctl_masks_and_unmasks() {
    let (mut host, _) = host_with_keys(&format!("1 {KEY}\n"));
    host.start();
    let said = |args: &[&str]| {
        let output = host.leafctl(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = said(&["mask", "orders", "17", "18", "--prefix", "ord"]);
    let texts: Vec<&str> = text.lines().collect();
    assert_eq!(said(&["unmask", "orders", texts[1], texts[0], "--prefix", "ord"]), "18\n17\n");
    let number = said(&["mask", "orders", "17", "--number", "--bits", "53"]);
    assert!(number.trim().parse::<u64>().unwrap() < 1 << 53);
    assert_eq!(said(&["unmask", "orders", number.trim(), "--number", "--bits", "53"]), "17\n");
    assert!(!host.leafctl(&["unmask", "orders", "ord_17"]).status.success());
    assert!(!host.leafctl(&["mask", "orders", "seventeen"]).status.success());
}

#[test]
fn c_programs_mask_and_unmask() {
    let mut host = host_of_vectors();
    host.start();
    for way in [Way::Gcc, Way::Clang, Way::Asan, Way::Valgrind] {
        let printed = succeed(program(way, "tests/public_ids.c").arg(host.socket()));
        assert_eq!(printed, "public ids: ok\n", "{way:?}");
    }
    // The guide's examples.
    const GUIDE: &str = include_str!("../../docs/guide/public-ids.md");
    let (_, shown) = GUIDE.split_once("```c\n").unwrap();
    let shown = shown.split_once("```").unwrap().0;
    let source = folder().join("guide.c");
    let before = "#include <stdio.h>\n#include <leafd.h>\nint main(int argc, char **argv) { (void)argc;\n\
        leafd_client *client = NULL;\nconst leafd_settings settings = {argv[1], 5000, 0, 0};\n\
        if (leafd_new(&settings, &client, NULL)) { return 1; }\n";
    let after = "printf(\"%s %d %d\", shown[0], (int)read[0], (int)read[1]);\nleafd_free(client);\nreturn 0;\n}\n";
    fs::write(&source, format!("{before}{shown}{after}")).unwrap();
    let guide = program(Way::Gcc, source.to_str().unwrap()).arg(host.socket()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&guide.stderr), "");
    assert_eq!(String::from_utf8_lossy(&guide.stdout), "ord_16dsky4r4xzza8d 17 18");
    host.stop();
}

#[test]
fn c_programs_are_told_of_rights_and_keys() {
    let (host, file) = host_with_keys(&format!("1 {KEY}\n"));
    let mut host = host.set("socket_mode", "0666");
    host.start();
    let asking = program(Way::Gcc, "tests/public_ids.c");
    let said = |text: &str, user: &[&str]| {
        let mut command = std::process::Command::new(asking.get_program());
        let printed = succeed(command.arg(host.socket()).arg(text).args(user));
        let (masked, read) = printed.trim_end().split_once('\n').unwrap();
        (masked.to_owned(), read.to_owned())
    };
    let (masked, _) = said("", &[]);
    let text = masked.strip_prefix("OK 1").map(|rest| format!("1{rest}")).expect(&masked);
    assert_eq!(said(&text, &[]).1, "OK 17");
    let (masked, read) = said(&text, &[&STRANGER.to_string()]);
    for words in [masked, read] {
        assert!(words.starts_with("DENIED ") && words.contains("unmask_uids"), "{words}");
    }
    // A key is removed from the file, and then the whole file.
    write_keys(&file, &format!("2 {OTHER_KEY}\n"));
    host.signal(Signal::SIGHUP);
    eventually("the old key is gone", WITHIN, || {
        let (masked, read) = said(&text, &[]);
        let retired = read.starts_with("VALUE_REFUSED ") && read.contains("mask key 1");
        (masked.starts_with("OK 2") && retired).then_some(())
    });
    host.stop();
    let mut host = Host::new().worker(17);
    host.start();
    let printed =
        succeed(std::process::Command::new(asking.get_program()).arg(host.socket()).arg(&text));
    for words in printed.lines() {
        assert!(words.starts_with("MASK_KEY ") && words.contains("leafd mask-key new"), "{words}");
    }
}

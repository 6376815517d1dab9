//! A rogue server answers `leafctl`: whatever it sends reaches the terminal as plain text only.

use std::collections::BTreeSet;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};

use leafd_wire::mask::MaskReply;
use leafd_wire::{Header, InfoReply, Status, opcode};
use serde_json::{Value, json};

use crate::host::{Host, leafd_binary};
use crate::public_ids::host_with_keys;
use crate::raw::{Raw, Reply};

/// Clears the screen, sets the title, begins a new line, and reverses the direction of the rest.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}2J\r\nFORGED \u{202e}enil\u{2066}\u{7f}";

/// Members that are kept, because `leafctl` chooses its words by them.
const KEPT: [&str; 4] = ["verdict", "next", "state", "engine"];

/// Listens between `leafctl` and a daemon, and changes the daemon's answers.
fn listen(at: &Path, daemon: &Path, forged: fn(&Reply) -> Vec<u8>) {
    let listener = UnixListener::bind(at).unwrap();
    let daemon = daemon.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut client, mut daemon) = (Raw::over(stream.unwrap()), Raw::connect(&daemon));
            std::thread::spawn(move || {
                while let Ok(request) = client.try_reply() {
                    daemon.send(&frame(&request.header, &request.body));
                    let reply = daemon.reply();
                    client.send(&forged(&reply));
                }
            });
        }
    });
}

fn frame(header: &Header, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    header.put_frame(body, &mut bytes);
    bytes
}

/// The reply with hostile text in every member.
fn forged(reply: &Reply) -> Vec<u8> {
    let Reply { header, body } = reply;
    if reply.status() != Status::Ok {
        return frame(header, &[body, HOSTILE.as_bytes()].concat());
    }
    match header.opcode & !opcode::REPLY {
        opcode::INFO => {
            let mut info = InfoReply::decode(body).unwrap();
            info.release += HOSTILE;
            info.layouts.iter_mut().for_each(|(name, _)| *name += HOSTILE);
            let mut bytes = Vec::new();
            info.put(header, &mut bytes);
            bytes
        }
        // The server chooses the lines of the metrics.
        opcode::METRICS => frame(header, &[body, HOSTILE.replace('\n', "").as_bytes()].concat()),
        opcode::MASK => frame(header, &MaskReply::of_texts(&["\u{1b}[2J".to_owned()])),
        opcode::IDS | opcode::UNMASK => frame(header, body),
        _ => {
            let mut answer: Value = serde_json::from_slice(body).unwrap();
            forge(&mut answer);
            // JSON may escape what JSON text may also contain.
            frame(header, answer.to_string().as_bytes())
        }
    }
}

fn forge(value: &mut Value) {
    match value {
        Value::String(text) => *text += HOSTILE,
        Value::Array(items) => items.iter_mut().for_each(forge),
        Value::Object(members) => {
            members
                .iter_mut()
                .filter(|(name, _)| !KEPT.contains(&&***name))
                .for_each(|(_, it)| forge(it));
            members.insert(format!("more{HOSTILE}"), HOSTILE.into());
        }
        _ => {}
    }
}

#[test]
fn what_a_rogue_server_answers_is_shown_as_plain_text() {
    let (host, _) = host_with_keys("1 000102030405060708090a0b0c0d0e0f\n");
    let mut host = host.set("worker", "store");
    host.start();
    host.create("orders");
    let described = json!({ "tag": "tickets", "masked": 53, "description": "for support" });
    host.admin(opcode::TAG_CREATE, &described);
    let id = host.raw().draw_until("snowflake", std::time::Duration::from_secs(20)).to_string();
    for tag in ["orders", "tickets"] {
        host.raw().draw(tag, 3);
    }
    let socket = host.path("rogue.sock");
    listen(&socket, &host.socket(), forged);
    let leafctl = |line: &str| {
        let mut command = Command::new(leafd_binary().with_file_name("leafctl"));
        command.env_clear().env("LEAFD_SOCKET", &socket).args(line.split(' '));
        let Output { stdout, stderr, .. } = command.output().unwrap();
        String::from_utf8([stdout, stderr].concat()).unwrap()
    };
    let whose = format!("whose {id}");
    let lines = [
        "ping",
        "ping --ready nosuch",
        "status",
        "status --json",
        "doctor",
        "doctor --json",
        "metrics",
        "next nosuch",
        "decode 1 --layout nosuch",
        &whose,
        "whose 1 --tag orders",
        "whose 1 --tag orders --json",
        "gaps orders 1..2000",
        "gaps orders 1..2000 --json",
        "mask tickets 1",
        "tag create fresh --description mine",
        "tag create orders",
        "tag list",
        "tag list --json",
        "tag show tickets",
        "tag show tickets --json",
        "tag set orders --step 5",
        "tag raise orders --to 9000",
        "tag delete fresh",
        "worker list",
        "worker list --json",
        "worker release --worker 4000",
        "fleet",
        "fleet --json",
    ];
    let mut plain = BTreeSet::new();
    for line in lines {
        let shown = leafctl(line);
        let control = |c: char| c.is_control() && c != '\n';
        let turns = |c: char| {
            ('\u{202a}'..='\u{202e}').contains(&c) || ('\u{2066}'..='\u{2069}').contains(&c)
        };
        assert!(!shown.contains(control) && !shown.contains(turns), "{line}: {shown:?}");
        assert!(!shown.lines().any(|line| line.starts_with("FORGED")), "{line}: {shown:?}");
        if !shown.contains('\u{fffd}') {
            plain.insert(line);
        }
    }
    // The other commands have printed the hostile words.
    assert_eq!(plain, BTreeSet::from(["mask tickets 1"]));
}

/// Makes another page begin wherever a page of a list ends.
fn endless(reply: &Reply) -> Vec<u8> {
    let Reply { header, body } = reply;
    match header.opcode & !opcode::REPLY {
        opcode::TAG_LIST | opcode::FLEET | opcode::WORKER_LIST => {
            let mut page: Value = serde_json::from_slice(body).unwrap();
            page["next"] = match &page["workers"] {
                Value::Null => "next".into(),
                _ => 5.into(),
            };
            frame(header, page.to_string().as_bytes())
        }
        _ => frame(header, body),
    }
}

#[test]
fn a_list_without_an_end_is_an_error() {
    let mut host = Host::new().set("worker", "store");
    host.start();
    let socket = host.path("rogue.sock");
    listen(&socket, &host.socket(), endless);
    for words in [["tag", "list"].as_slice(), &["fleet"], &["worker", "list"]] {
        let mut command = Command::new("timeout");
        command.arg("60").arg(leafd_binary().with_file_name("leafctl")).args(words);
        let output = command.env("LEAFD_SOCKET", &socket).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains("no end"), "{words:?}: {said}");
    }
}

//! The tables in `protocol.md` match the code: statuses, opcodes, limits.

use std::collections::BTreeSet;

use leafd_wire::{
    COUNT_MAX, DEADLINE_MS_MAX, PIPELINE_MAX, REPLY_LENGTH_MAX, REQUEST_LENGTH_MAX, Status, opcode,
};

use crate::host::Host;
use crate::vectors::DOCUMENT;

/// The cells of every table row whose first cell satisfies `first`.
fn rows(first: impl Fn(&str) -> bool) -> Vec<Vec<String>> {
    DOCUMENT
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .filter(|cells: &Vec<String>| first(&cells[0]))
        .collect()
}

#[test]
fn the_status_table_is_the_codes() {
    let rows = rows(|first| first.parse::<u16>().is_ok());
    let rows: Vec<_> = rows.iter().filter(|cells| cells.len() == 5).collect();
    assert_eq!(rows.len(), Status::ALL.len());
    for (cells, status) in rows.iter().zip(Status::ALL) {
        let yes_no = |answer: bool| if answer { "yes" } else { "no" };
        assert_eq!(cells[0], (*status as u16).to_string());
        assert_eq!(cells[1], status.name());
        let retry = if *status == Status::Ok { "" } else { yes_no(status.retry_may_help()) };
        assert_eq!(cells[3], retry, "retry of {status}");
        assert_eq!(cells[4], yes_no(status.closes()), "closes of {status}");
    }
    let numbers: Vec<u16> = Status::ALL.iter().map(|status| *status as u16).collect();
    assert_eq!(numbers, (0..Status::ALL.len() as u16).collect::<Vec<_>>(), "no number is skipped");
}

#[test]
fn the_messages_are_the_codes() {
    let known = [
        (opcode::INFO, "INFO"),
        (opcode::IDS, "IDS"),
        (opcode::STATUS, "STATUS"),
        (opcode::MASK, "MASK"),
        (opcode::UNMASK, "UNMASK"),
        (opcode::METRICS, "METRICS"),
        (opcode::SERIES_NEXT, "SERIES_NEXT"),
        (opcode::TAG_CREATE, "TAG_CREATE"),
        (opcode::TAG_LIST, "TAG_LIST"),
        (opcode::TAG_SHOW, "TAG_SHOW"),
        (opcode::TAG_SET, "TAG_SET"),
        (opcode::TAG_RAISE, "TAG_RAISE"),
        (opcode::TAG_DELETE, "TAG_DELETE"),
        (opcode::WORKER_LIST, "WORKER_LIST"),
        (opcode::WORKER_RELEASE, "WORKER_RELEASE"),
        (opcode::WHOSE, "WHOSE"),
        (opcode::GAPS, "GAPS"),
        (opcode::FLEET, "FLEET"),
        (opcode::SERIES_CREATE, "SERIES_CREATE"),
        (opcode::SERIES_LIST, "SERIES_LIST"),
        (opcode::SERIES_CHECK, "SERIES_CHECK"),
    ];
    let rows = rows(|first| first.parse::<u8>().is_ok());
    let messages: Vec<(u8, &str)> = rows
        .iter()
        .filter(|cells| cells.len() == 4 && cells[1].starts_with(char::is_uppercase))
        .map(|cells| (cells[0].parse().unwrap(), cells[1].as_str()))
        .collect();
    assert_eq!(messages, known);
}

#[test]
fn the_limits_are_the_codes() {
    let number = |number: u32| {
        let digits = number.to_string();
        let (head, tail) = digits.split_at(digits.len() % 3);
        let groups =
            tail.as_bytes().chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
        let head = Some(head.to_owned()).filter(|head| !head.is_empty());
        head.into_iter().chain(groups).collect::<Vec<_>>().join(",")
    };
    let limits = [
        ("length field of a request", REQUEST_LENGTH_MAX),
        ("length field of a reply", REPLY_LENGTH_MAX),
        ("tag", leafd_wire::tag::TAG_CHARACTERS_MAX as u32),
        ("tag", leafd_wire::tag::TAG_BYTES_MAX as u32),
        ("ids in one request", COUNT_MAX),
        ("deadline", DEADLINE_MS_MAX),
        ("unanswered requests on one connection", PIPELINE_MAX),
    ];
    for (name, limit) in limits {
        let rows = rows(|first| first == name);
        // The first table row with this name is the limit's own; later ones may describe fields.
        let cells = rows.first().unwrap_or_else(|| panic!("no row for {name:?}"));
        let words: Vec<&str> = cells[1].split([' ', ';']).collect();
        assert!(words.contains(&number(limit).as_str()), "{name}: {:?} without {limit}", cells[1]);
    }
}

/// The names of all members within a value.
fn members(value: &serde_json::Value, names: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(object) => {
            for (name, value) in object {
                names.insert(name.clone());
                members(value, names);
            }
        }
        serde_json::Value::Array(array) => array.iter().for_each(|one| members(one, names)),
        _ => {}
    }
}

#[test]
fn every_member_of_status_is_in_the_document() {
    let mut host = Host::new();
    host.start();
    host.create("orders");
    let client = host.client();
    assert_eq!(client.next_direct("orders").unwrap(), 1);
    assert!(client.next_direct("nosuch").is_err());
    client.next_direct("snowflake").unwrap();
    let status: serde_json::Value = serde_json::from_str(&client.status_json().unwrap()).unwrap();
    assert!(status["snowflake"]["lease"].is_object(), "{status}");
    let mut there = BTreeSet::new();
    members(&status, &mut there);
    let (_, section) = DOCUMENT.split_once("\n### STATUS\n").unwrap();
    let (section, _) = section.split_once("\n### ").unwrap();
    let marked = section.split('`').skip(1).step_by(2);
    let named: BTreeSet<&str> = marked.flat_map(|words| words.split('.')).collect();
    // Statuses are in a table of their own.
    let of_status = |name: &str| Status::ALL.iter().any(|status| status.name() == name);
    let missing: Vec<&String> =
        there.iter().filter(|name| !named.contains(name.as_str()) && !of_status(name)).collect();
    assert!(missing.is_empty(), "protocol.md doesn't tell what these are: {missing:?}");
    assert!(there.len() > 80, "{there:?}");
    host.stop();
}

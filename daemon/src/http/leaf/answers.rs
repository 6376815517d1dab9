//! The answers of Leaf's server, identical byte for byte where programs read them.

use std::fmt::Write as _;

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use leafd_checkup::snapshot::TagInUse;
use leafd_wire::{Layout, Status};
use serde_json::{Value, json};

use super::super::answer::Text;
use crate::clock;

/// The header field with leafd's own status, which says more than Leaf's three numbers.
const STATUS_FIELD: &str = "leafd-status";

const SERVER_EXCEPTION: &str = "com.sankuai.inf.leaf.server.exception.LeafServerException";

/// The types in which an id is sent if the caller names one of them; otherwise it is sent in the first.
const ID_TYPES: [&str; 3] = [PLAIN, JSON, HTML];
const PLAIN: &str = "text/plain;charset=UTF-8";
const JSON: &str = "application/json;charset=UTF-8";
const HTML: &str = "text/html;charset=UTF-8";

/// The answer with an id. `accept`: the types that the caller names.
pub(super) fn id(id: u64, accept: &str) -> Response<Text> {
    let bare = |kind: &str| kind.split(';').next().map(|kind| kind.trim().to_ascii_lowercase());
    let is_named = |kind: &str, name: &str| bare(kind) == bare(name);
    let mut names = accept.split(',').map(str::trim);
    let named = names.find_map(|name| ID_TYPES.into_iter().find(|kind| is_named(kind, name)));
    with(StatusCode::OK, named.unwrap_or(PLAIN), id.to_string())
}

/// The answer when there is no id: Leaf's number for the reason, in the form of Spring's errors.
pub(super) fn no_id(path: &str, status: Status) -> Response<Text> {
    let number = match status {
        Status::TagUnknown | Status::TagInvalid => -2,
        Status::NoWorker | Status::ClockBehind | Status::TimeExhausted => -1,
        _ => -3,
    };
    let message = format!("Result{{id={number}, status=EXCEPTION}}");
    let code = StatusCode::INTERNAL_SERVER_ERROR;
    let mut answer = error(code, path, Some(SERVER_EXCEPTION), &message);
    answer.headers_mut().insert(STATUS_FIELD, HeaderValue::from_static(status.name()));
    answer
}

/// An error in the form of Spring Boot 1.5.
pub(super) fn error(
    code: StatusCode,
    path: &str,
    exception: Option<&str>,
    message: &str,
) -> Response<Text> {
    let mut text = format!(
        "{{\"timestamp\":{},\"status\":{},\"error\":{}",
        clock::now().unix.0,
        code.as_u16(),
        json!(code.canonical_reason().unwrap_or_default())
    );
    if let Some(exception) = exception {
        let _ = write!(text, ",\"exception\":{}", json!(exception));
    }
    let _ = write!(text, ",\"message\":{},\"path\":{}}}", json!(message), json!(path));
    with(code, JSON, text)
}

/// The parts of a snowflake id of Leaf's layout, as texts in the order of Java's map.
pub(super) fn decoded(id: &str) -> Response<Text> {
    let text = match id.parse::<i64>() {
        Err(_) => r#"{"errorMsg":"snowflake Id反解析发生异常!"}"#.to_owned(),
        Ok(id) => {
            let unix_ms = (id >> 22) + Layout::LEAF.epoch_ms.cast_signed();
            let time = Timestamp::from_millisecond(unix_ms).unwrap_or_default();
            let local = local(time, "%.3f");
            let (worker, sequence) = ((id >> 12) & 0x3ff, id & 0xfff);
            format!(
                "{{\"workerId\":\"{worker}\",\"sequenceId\":\"{sequence}\",\"timestamp\":\"{unix_ms}({local})\"}}"
            )
        }
    };
    with(StatusCode::OK, JSON, text)
}

/// The host's local time as Java writes it.
fn local(time: Timestamp, fraction: &str) -> String {
    time.to_zoned(TimeZone::system()).strftime(&format!("%Y-%m-%d %H:%M:%S{fraction}")).to_string()
}

/// A number as Leaf's pages write it, such as 1,234,567.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// Leaf's page of its buffers, made from the status. leafd has no pair of buffers: the held ids are shown as the
/// first.
pub(super) fn cache<'a>(tags: impl Iterator<Item = &'a TagInUse>) -> String {
    let columns =
        ["name", "init", "next", "pos", "value0", "max0", "step0", "value1", "max1", "step1"];
    let tags = tags.map(|tag| {
        let (name, held) = (tag.numbers.tag.clone(), tag.numbers.held);
        let end = tag.highest_ends.first().copied().unwrap_or(0);
        let mut row = vec![name, (end > 0).to_string(), "false".to_owned()];
        row.extend([0, end.saturating_sub(held), end, held, 0, 0, 0].map(grouped));
        row
    });
    table(&columns, tags)
}

/// Leaf's page of the table's rows.
pub(super) fn rows(tags: &[Value]) -> String {
    let text = |tag: &Value, member| tag[member].as_str().unwrap_or_default().to_owned();
    let number = |tag: &Value, member| grouped(tag[member].as_u64().unwrap_or_default());
    let time = |tag: &Value| {
        text(tag, "updated").parse().map_or_else(|_| String::new(), |time| local(time, "%.1f"))
    };
    let row = |tag| [text(tag, "tag"), number(tag, "max_id"), number(tag, "step"), time(tag)];
    table(&["tag", "max", "step", "update"], tags.iter().map(|tag| row(tag).into()))
}

fn table(columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut text = String::from(
        "<!DOCTYPE html>\n<html>\n<head><meta charset=\"UTF-8\"><title>Leaf</title></head>\n<body>\n<table>\n<tr>",
    );
    columns.iter().for_each(|column| {
        let _ = write!(text, "<th>{column}</th>");
    });
    text.push_str("</tr>\n");
    for row in rows {
        text.push_str("<tr>");
        for cell in row {
            let _ = write!(text, "<td>{}</td>", escaped(&cell));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table>\n</body>\n</html>\n");
    text
}

/// The answer with one of Leaf's pages.
pub(super) fn page(text: Text) -> Response<Text> {
    with(StatusCode::OK, HTML, text)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn with(code: StatusCode, kind: &'static str, text: impl Into<Text>) -> Response<Text> {
    let mut answer = Response::new(text.into());
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    // A cache in between would give its copy of an id to several callers.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(answer: Response<Text>) -> String {
        String::from_utf8(answer.into_body().left.to_vec()).expect("text")
    }

    #[test]
    fn an_id_is_taken_apart_as_leaf_does() {
        let known = text(decoded("1169459143108571512"));
        assert!(known.starts_with("{\"workerId\":\""), "{known}");
        let parts: Value = serde_json::from_str(&known).expect("JSON");
        let id: i64 = 1_169_459_143_108_571_512;
        assert_eq!(parts["workerId"], ((id >> 12) ^ (id >> 22 << 10)).to_string());
        assert_eq!(parts["sequenceId"], (id ^ (id >> 12 << 12)).to_string());
        let time = parts["timestamp"].as_str().expect("text");
        assert!(time.starts_with(&format!("{}(20", (id >> 22) + 1_288_834_974_657)), "{time}");
        for odd in ["", "x", "1.0", "9223372036854775808"] {
            assert_eq!(text(decoded(odd)), r#"{"errorMsg":"snowflake Id反解析发生异常!"}"#);
        }
        assert!(text(decoded("-1")).contains("\"sequenceId\":\"4095\""));
    }

    #[test]
    fn an_error_is_spring_s() {
        let answer = no_id("/api/segment/get/\"x\"", Status::TagUnknown);
        assert_eq!(answer.status(), 500);
        assert_eq!(answer.headers()[STATUS_FIELD], "TAG_UNKNOWN");
        let body = text(answer);
        let rest = body.trim_start_matches("{\"timestamp\":").trim_start_matches(char::is_numeric);
        assert_eq!(
            rest,
            r#","status":500,"error":"Internal Server Error","exception":"com.sankuai.inf.leaf.server.exception.LeafServerException","message":"Result{id=-2, status=EXCEPTION}","path":"/api/segment/get/\"x\""}"#
        );
    }
}

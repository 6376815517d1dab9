//! Leaf's own paths on the real daemon, requested by programs like those that call Leaf: they can parse the answers as
//! they parse Leaf's.

use std::collections::HashSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use leafd_tests::http::{Answer, get, get_with, send};
use leafd_wire::opcode;
use serde_json::{Value, json};

use crate::host::{Host, eventually};

fn host(settings: &[(&str, &str)]) -> (Host, String) {
    let mut host = Host::new().worker(17).set("leaf_http", "127.0.0.1:0");
    settings.iter().for_each(|(key, value)| host.change(key, value));
    host.start();
    let address = host.http("serving Leaf's paths");
    (host, address)
}

#[track_caller]
fn id(answer: &Answer) -> u64 {
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.field("content-type"), Some("text/plain;charset=UTF-8"));
    answer.body.parse().unwrap()
}

#[track_caller]
fn refused(answer: &Answer, code: u16, message: &str) -> Value {
    assert_eq!(answer.status, code, "{answer:?}");
    assert_eq!(answer.field("content-type"), Some("application/json;charset=UTF-8"));
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(body["message"], message, "{answer:?}");
    assert!(body["timestamp"].as_u64().unwrap() > 1_600_000_000_000, "{answer:?}");
    body
}

#[test]
fn ids_are_plain_text_in_order_and_errors_are_spring_s() {
    let (host, address) = host(&[]);
    host.create("orders");
    host.create("a b/c");
    assert_eq!(id(&get(&address, "/api/segment/get/orders")), 1);
    assert_eq!(id(&get(&address, "/api/segment/get/orders/")), 2);
    assert_eq!(id(&get(&address, "/api/segment/get/a%20b%2Fc")), 1);
    // Any key works, as in Leaf.
    let one = id(&get(&address, "/api/snowflake/get/whatever"));
    assert!(id(&get(&address, "/api/snowflake/get/test")) > one);

    let unknown = get(&address, "/api/segment/get/nosuch");
    let body = refused(&unknown, 500, "Result{id=-2, status=EXCEPTION}");
    assert_eq!(body["exception"], "com.sankuai.inf.leaf.server.exception.LeafServerException");
    assert_eq!(
        (&body["error"], &body["path"]),
        (&json!("Internal Server Error"), &json!("/api/segment/get/nosuch"))
    );
    assert_eq!(unknown.field("leafd-status"), Some("TAG_UNKNOWN"));
    // A cache in between must not give its copy to the next caller.
    for path in ["/api/segment/get/orders", "/api/snowflake/get/x", "/api/segment/get/nosuch"] {
        assert_eq!(get(&address, path).field("cache-control"), Some("no-store"), "{path}");
    }
    // A layout is not a segment tag.
    let layout = get(&address, "/api/segment/get/snowflake");
    refused(&layout, 500, "Result{id=-2, status=EXCEPTION}");
    refused(&get(&address, "/api/segment/get/"), 404, "No message available");
    refused(&get(&address, "/"), 404, "No message available");
}

#[test]
fn a_disabled_kind_is_an_error_and_no_zero() {
    let (_host, address) = host(&[("worker", "none")]);
    let answer = get(&address, "/api/snowflake/get/test");
    refused(&answer, 500, "Result{id=-1, status=EXCEPTION}");
    assert_eq!(answer.field("leafd-status"), Some("NO_WORKER"));
}

/// RestTemplate reads a number only if the answer is JSON.
#[test]
fn an_id_has_the_type_that_the_caller_names() {
    let (_host, address) = host(&[]);
    for (accept, kind) in [
        ("application/json, application/*+json", "application/json;charset=UTF-8"),
        ("text/plain, */*", "text/plain;charset=UTF-8"),
        ("text/html,application/xml;q=0.9,*/*;q=0.8", "text/html;charset=UTF-8"),
        ("Application/JSON ;q=1", "application/json;charset=UTF-8"),
        ("*/*", "text/plain;charset=UTF-8"),
        ("image/png", "text/plain;charset=UTF-8"),
    ] {
        let answer = get_with(&address, "/api/snowflake/get/x", &format!("Accept: {accept}\r\n"));
        assert_eq!(answer.field("content-type"), Some(kind), "{accept}");
        assert!(answer.body.parse::<u64>().is_ok(), "{answer:?}");
    }
}

#[test]
fn paths_are_read_as_leaf_s_server_does() {
    let (host, address) = host(&[]);
    host.create("orders");
    for path in [
        "//api/segment/get/orders",
        "/api//segment/./get/orders/",
        "/cache/../api/segment/get/orders",
        "/api;a=b/segment/get/orders;x",
    ] {
        id(&get(&address, path));
    }
    refused(&get(&address, "/api/segment/get/.."), 404, "No message available");
    refused(&get(&address, "/../.."), 404, "No message available");
}

#[test]
fn an_id_is_decoded_as_leaf_does() {
    let (_host, address) = host(&[]);
    let snowflake = id(&get(&address, "/api/snowflake/get/x"));
    let decoded = get(&address, &format!("/decodeSnowflakeId?snowflakeId={snowflake}"));
    let parts: Value = serde_json::from_str(&decoded.body).unwrap();
    assert_eq!((&parts["workerId"], parts.as_object().unwrap().len()), (&json!("17"), 3));
    let order = ["workerId", "sequenceId", "timestamp"].map(|member| decoded.body.find(member));
    assert!(order.is_sorted() && order[0].is_some(), "{decoded:?}");
    for odd in ["=x", "=", "", "=+5", "=1&snowflakeId=2"] {
        let odd = get(&address, &format!("/decodeSnowflakeId?snowflakeId{odd}"));
        assert_eq!(odd.body, r#"{"errorMsg":"snowflake Id反解析发生异常!"}"#);
    }
    assert_eq!(get(&address, "/decodeSnowflakeId").status, 400);
}

#[test]
fn the_pages_show_tags_as_leaf_s_do() {
    let (host, address) = host(&[]);
    host.create("<b>");
    assert_eq!(id(&get(&address, "/api/segment/get/%3Cb%3E")), 1);
    let rows = get(&address, "/db");
    assert_eq!(rows.field("content-type"), Some("text/html;charset=UTF-8"));
    assert!(rows.body.contains("<th>tag</th><th>max</th><th>step</th><th>update</th>"), "{rows:?}");
    let row = rows.body.split_once("<td>&lt;b&gt;</td>").expect("the tag's row").1;
    let cells: Vec<&str> = row.split(['<', '>']).filter(|cell| cell.contains(['0'])).collect();
    // Numbers and times are written as Java writes them.
    assert_eq!(cells[..2], ["1,001", "1,000"], "{rows:?}");
    assert!(
        cells[2].len() == "2019-09-06 09:35:00.0".len() && cells[2].ends_with(".0"),
        "{rows:?}"
    );
    let cache = get(&address, "/cache");
    assert!(cache.body.contains("<td>&lt;b&gt;</td><td>true</td>"), "{cache:?}");
}

/// A page may be a second old, so many callers cost no more than one.
#[test]
fn pages_are_made_once_for_many() {
    const ASKED: usize = 40;
    let (host, address) = host(&[]);
    host.create("orders");
    let requests = || host.status()["requests"].as_u64().unwrap();
    let before = requests();
    for page in ["/db", "/cache"] {
        std::thread::scope(|scope| {
            for _ in 0..ASKED {
                scope.spawn(|| assert_eq!(get(&address, page).status, 200));
            }
        });
    }
    assert!(requests() - before < ASKED as u64, "{} requests", requests() - before);
    host.create("later");
    eventually("the page shows a new tag", Duration::from_secs(20), || {
        get(&address, "/db").body.contains("<td>later</td>").then_some(())
    });
}

/// Several processes with one connection each, using an independent HTTP client.
#[test]
fn callers_of_leaf_get_unique_ids() {
    const CALLER: &str = "
import http.client, sys
connection = http.client.HTTPConnection(sys.argv[1], timeout=30)
last = 0
for _ in range(500):
    for path in sys.argv[2:]:
        connection.request('GET', path)
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, text
        print(path, int(text))
";
    let (host, address) = host(&[]);
    host.create("orders");
    host.admin(opcode::TAG_CREATE, &json!({"tag": "strict", "strict": true}));
    let paths = ["/api/segment/get/orders", "/api/segment/get/strict", "/api/snowflake/get/x"];
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let mut command = Command::new("python3");
            command.args(["-c", CALLER, &address]).args(paths);
            std::thread::spawn(move || command.output().unwrap())
        })
        .collect();
    let mut seen = HashSet::new();
    for caller in callers {
        let output = caller.join().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap();
        for path in paths {
            let ids = said.lines().filter_map(|line| line.strip_prefix(path)?.trim().parse().ok());
            let ids: Vec<u64> = ids.collect();
            assert_eq!(ids.len(), 500);
            // A client that sends one request after another gets ascending ids.
            assert!(ids.is_sorted(), "{path}");
        }
        for line in said.lines() {
            assert!(seen.insert(line.to_owned()), "twice: {line}");
        }
    }
    assert_eq!(seen.len(), 4 * 500 * paths.len());
    // Ids drawn by others meanwhile are different ones.
    let own = host.raw().draw("orders", 100);
    assert!(own.iter().all(|id| !seen.contains(&format!("{} {id}", paths[0]))));
}

/// A page in a browser on this host draws nothing, under whatever name it reaches this host.
#[test]
fn pages_of_the_web_draw_no_ids() {
    let (host, address) = host(&[]);
    host.create("orders");
    let ask = |head: &str| send(TcpStream::connect(&address).unwrap(), head.as_bytes());
    let path = "/api/segment/get/orders";
    // These requests don't ask to close the connection, but it is closed all the same.
    let named = ask(&format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\n\r\n"));
    refused(
        &named,
        403,
        "the Host header must be localhost, an address, or a name in leaf_http_names",
    );
    assert_eq!(named.field("connection"), Some("close"));
    let crossed = "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n";
    let crossed = ask(&format!("GET {path} HTTP/1.1\r\n{crossed}"));
    refused(&crossed, 403, "requests from pages of other sites are rejected");
    // A browser reports where a page comes from only for requests to a loopback address. 0.0.0.0 is not one.
    let mozilla =
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0";
    for (host, what) in [
        ("0.0.0.0:80", "the Host header"),
        ("[::1].evil.example", "the Host header"),
        ("10.0.0.5", "any web page could"),
    ] {
        let answer = ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{mozilla}\r\n\r\n"));
        assert!(answer.status == 403 && answer.body.contains(what), "{}", answer.body);
    }
    let end = "Host: localhost\r\nConnection: close\r\n\r\n";
    let posted = ask(&format!("POST {path} HTTP/1.1\r\n{end}"));
    refused(&posted, 405, "send GET or HEAD");
    assert_eq!(posted.field("allow"), Some("GET, HEAD"));
    assert_eq!(id(&ask(&format!("GET {path} HTTP/1.1\r\n{end}"))), 1);
    let typed = format!("{mozilla}\r\nSec-Fetch-Site: none\r\n{end}");
    assert_eq!(id(&ask(&format!("GET {path} HTTP/1.1\r\n{typed}"))), 2);
    let shown = ask(&format!("GET /cache HTTP/1.1\r\n{mozilla}\r\n{end}"));
    assert_eq!(shown.status, 200, "{}", shown.body);
}

#[test]
fn pages_that_are_never_read_are_in_memory_once() {
    const TAGS: u32 = 5_000;
    let (host, address) = host(&[]);
    host.create("orders");
    host.store_sql(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {TAGS})
         INSERT INTO leaf_alloc (biz_tag, max_id, step) SELECT printf('tenant-%05d.orders', i), 1, 10 FROM n"
    ));
    let page = get(&address, "/db");
    assert!(page.status == 200 && page.body.len() > 300_000, "{}", page.body.len());
    let before_kib = host.resident_kib();
    let request = b"GET /db HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut unread: Vec<TcpStream> = (0..400)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.write_all(request).unwrap();
            stream
        })
        .collect();
    // The first byte of each answer has arrived.
    unread.iter_mut().for_each(|stream| stream.read_exact(&mut [0]).unwrap());
    let grown_kib = host.resident_kib().saturating_sub(before_kib);
    assert!(grown_kib < 40 << 10, "{grown_kib} KiB for {} unread pages", unread.len());
}

#[test]
fn reserved_tags_are_for_those_who_have_the_token() {
    const RULES: &str =
        r#"[{ tags = ["pay.*"], uids = [4001] }, { tags = ["open"], ids_per_second = 1000 }]"#;
    let (mut host, address) = host(&[("access", RULES)]);
    ["pay.out", "open"].iter().for_each(|tag| host.create(tag));
    let open = "/api/segment/get/open";
    let kept = ["/api/segment/get/pay.out", "/api/segment/get/%70ay.out/", "/cache", "/db"];
    for path in kept {
        let answer = get(&address, path);
        assert_eq!(answer.status, 403, "{answer:?}");
        assert!(answer.body.contains("leaf_http_token_file"), "{answer:?}");
    }
    assert_eq!(id(&get(&address, open)), 1);

    host.stop();
    let file = host.path("token");
    fs::write(&file, "s3cret").unwrap();
    host.change("leaf_http_token_file", file.to_str().unwrap());
    host.start();
    let address = host.http("serving Leaf's paths");
    for path in kept.into_iter().chain([open]) {
        let answer = get_with(&address, path, "Authorization: Bearer s3cret\r\n");
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

#[test]
fn only_those_who_may_are_answered() {
    let mut plain = Host::new().worker(17).set("leaf_http", "127.0.0.1:0");
    let file = plain.path("token");
    fs::write(&file, "s3cret\n").unwrap();
    plain.change("leaf_http_token_file", file.to_str().unwrap());
    plain.change("leaf_http_requests_per_second", "3");
    plain.start();
    let address = plain.http("serving Leaf's paths");
    let path = "/api/snowflake/get/x";
    assert_eq!(get(&address, path).status, 401);
    assert_eq!(get_with(&address, path, "Authorization: Bearer wrong\r\n").status, 401);
    let known = || get_with(&address, path, "Authorization: Bearer s3cret\r\n");
    assert!(id(&known()) > 0);
    let pressed = (0..10).map(|_| known()).find(|answer| answer.status == 429);
    assert_eq!(pressed.unwrap().field("retry-after"), Some("1"));

    let (_host, address) = host(&[("leaf_http_allow", "[\"10.0.0.0/8\"]")]);
    let answer = get(&address, path);
    let why = "127.0.0.1 is not in leaf_http_allow";
    refused(&answer, 403, why);

    plain.stop();
    fs::write(&file, "two words").unwrap();
    let refusal = plain.try_start().unwrap_err();
    assert!(refusal.said.contains("must contain one token"), "{refusal:?}");
}

//! The page at `/`: what a browser shows, which readers see what, and what readers can't do to the daemon.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leafd_tests::browser::Browser;
use leafd_tests::http::{get, get_with, send};
use leafd_tests::servers::process::free_port;
use leafd_wire::{Status, opcode};
use serde_json::{Value, json};

use crate::host::Host;
use crate::raw::ids_request;

const SERVED: &str = "serving metrics and health";

/// Names that would do harm if they were not shown as text.
const HOSTILE: [&str; 5] = [
    "<img src=x onerror=\"document.title='harmed'\">",
    "</bdi></script><script>document.title='harmed'</script>",
    "\u{202e}sredro",
    "🦊 orders 🍃",
    "é\"'&amp;`${1}\\",
];

/// A port of the loopback interface that is forwarded to a Unix socket, as by `ssh -L`: the client there is this
/// process.
fn port_of(socket: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = UnixStream::connect(&socket) else { continue };
            let (mut there, mut back) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (mut client, mut server) = (client, server);
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut there, &mut server);
                let _ = server.shutdown(std::net::Shutdown::Both);
            });
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut back, &mut client);
                let _ = client.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    address
}

/// A host whose page is on a Unix socket, and a port that is forwarded to it.
fn host_for_administrators() -> (Host, String) {
    let mut host = Host::new();
    let socket = host.path("http.sock");
    host.change("http", socket.to_str().unwrap());
    host.start();
    (host, port_of(socket))
}

#[track_caller]
fn create(host: &Host, body: &str) {
    let mut raw = host.raw();
    raw.request(opcode::TAG_CREATE, 1, body.as_bytes());
    assert_eq!(raw.reply().status(), Status::Ok);
}

/// The state that a client of this stream sees.
fn state(stream: impl Read + std::io::Write) -> Value {
    let answer = send(stream, b"GET /state HTTP/1.0\r\nHost: localhost\r\n\r\n");
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_str(&answer.body).unwrap()
}

#[track_caller]
fn fits(browser: &mut Browser) {
    for width in [320, 380, 1200] {
        browser.look(width, "light");
        let wide = browser.evaluate("document.documentElement.scrollWidth");
        assert!(wide.as_u64() <= Some(u64::from(width)), "{wide} of {width} pixels");
    }
}

#[test]
fn a_browser_shows_tags_stores_worker_users_and_events_live() {
    let (host, address) = host_for_administrators();
    let mut browser = Browser::start();
    browser.open(&format!("http://{address}/"));
    browser.until("document.querySelector('#sums').textContent.startsWith('0 tags in use')");
    fits(&mut browser);
    browser.keep_pictures("none");

    for tag in ["orders", "users", "invoices"] {
        host.create(tag);
    }
    let client = host.client();
    assert_eq!(client.next_batch("orders", 300).unwrap().count(), 300);
    assert!(client.next("users").unwrap() > 0 && client.next("snowflake").unwrap() > 0);
    let _ = host.raw().draw("invoices", 1);
    browser.until("document.querySelectorAll('.tag').length === 3");
    let width = "parseFloat([...document.querySelectorAll('.tag')]\
                 .find((row) => row.querySelector('bdi').textContent === 'invoices').querySelector('.box i').style.width)";
    browser.until(&format!("{width} > 99"));
    // Bars become empty as ids are drawn.
    let _ = host.raw().draw("invoices", 600);
    browser.until(&format!("{width} < 45"));

    let text = browser.text();
    for part in [
        "OK: segment and snowflake ids available",
        "store.db",
        "worker ",
        "Users",
        "Recent events",
        "no ceiling",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert!(
        !text.contains("undefined") && !text.contains("NaN") && !text.contains("null"),
        "{text}"
    );
    let uid = nix::unistd::getuid().to_string();
    assert_eq!(browser.evaluate("document.querySelector('#users td').textContent"), json!(uid));
    fits(&mut browser);
    browser.keep_pictures("page");
}

#[test]
fn hostile_names_are_text() {
    let (host, address) = host_for_administrators();
    let long = "long ".repeat(25) + "xyz";
    let names: Vec<&str> = HOSTILE.into_iter().chain([&*long]).collect();
    for name in &names {
        let body = json!({"tag": name, "ceiling": 2_000}).to_string();
        create(&host, &body);
        let _ = host.raw().draw(name, 1);
    }
    let mut browser = Browser::start();
    browser.open(&format!("http://{address}/"));
    browser.until(&format!("document.querySelectorAll('.tag').length === {}", names.len()));
    let shown = browser
        .evaluate("[...document.querySelectorAll('.tag bdi')].map((name) => name.textContent)");
    let mut shown: Vec<&str> = shown.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let mut expected = names.clone();
    shown.sort_unstable();
    expected.sort_unstable();
    assert_eq!(shown, expected);
    // The title distinguishes the pages of several hosts in one browser.
    assert_eq!(browser.evaluate("document.title.startsWith('leafd on ')"), true);
    assert_eq!(browser.evaluate("document.querySelectorAll('img, script:not([src])').length"), 0);
    fits(&mut browser);
    browser.keep_pictures("hostile");

    // Any text can be searched for.
    browser.evaluate("find.value = \"🦊\"; find.dispatchEvent(new Event('input'))");
    browser.until("document.querySelectorAll('.tag').length === 1");
}

#[test]
fn of_five_thousand_tags_the_busiest_are_shown_and_the_others_found() {
    let mut host = Host::on_store("sqlite:unset").set("http", "127.0.0.1:0");
    host.change("store", &format!("sqlite:{}", host.path("store.db").display()));
    host.start();
    let mut raw = host.raw();
    let tags: Vec<String> = (0..5_000).map(|number| format!("tag-{number:04}")).collect();
    for some in tags.chunks(50) {
        for tag in some {
            raw.request(opcode::TAG_CREATE, 1, json!({"tag": tag}).to_string().as_bytes());
        }
        some.iter().for_each(|_| assert_eq!(raw.reply().status(), Status::Ok));
        for tag in some {
            raw.send(&ids_request(tag, 1, 1, 60_000));
        }
        some.iter().for_each(|_| assert_eq!(raw.reply().status(), Status::Ok));
    }
    let _ = raw.draw("tag-4321", 900);
    let mut browser = Browser::start();
    browser.open(&format!("http://{}/", host.http(SERVED)));
    browser.until("document.querySelectorAll('.tag').length === 50");
    assert_eq!(browser.evaluate("document.querySelector('.tag bdi').textContent"), "tag-4321");
    let sums = browser.evaluate("document.querySelector('#sums').textContent");
    assert!(
        sums.as_str().unwrap().starts_with("5,000 tags in use on this host; together "),
        "{sums}"
    );
    fits(&mut browser);
    browser.keep_pictures("many");
    browser.evaluate("find.value = 'TAG-123'; find.dispatchEvent(new Event('input'))");
    browser.until("document.querySelectorAll('.tag').length === 10");
    browser.until(
        "document.querySelector('#sums').textContent.startsWith('10 of 5,000 tags in use whose names match')",
    );
}

#[test]
fn a_browser_shows_that_the_daemon_is_away_and_back() {
    let port = free_port();
    let mut host = Host::new().set("http", &format!("127.0.0.1:{port}"));
    host.start();
    host.create("orders");
    let _ = host.raw().draw("orders", 1);
    let mut browser = Browser::start();
    browser.open(&format!("http://127.0.0.1:{port}/"));
    browser.until("document.querySelectorAll('.tag').length === 1");
    // A client on a TCP port is never recognised as an administrator.
    let text = browser.text();
    assert!(text.contains("shown to administrators only") && !text.contains("Users\n"), "{text}");

    host.kill();
    browser.until(
        "!document.querySelector('#away').hidden && document.body.classList.contains('away')",
    );
    assert!(browser.text().contains("has not answered since"));
    browser.keep_pictures("away");
    host.start();
    browser.until(
        "document.querySelector('#away').hidden && !document.body.classList.contains('away')",
    );

    // A frozen daemon counts as unavailable as well.
    host.signal(nix::sys::signal::Signal::SIGSTOP);
    browser.until("document.body.classList.contains('away')");
    host.signal(nix::sys::signal::Signal::SIGCONT);
    browser.until("!document.body.classList.contains('away')");
}

#[test]
fn only_administrators_are_told_of_users_events_and_places() {
    let mut host = Host::new().set("http", "127.0.0.1:0");
    host.start();
    host.create("orders");
    let _ = host.raw().draw("orders", 1);
    let address = host.http(SERVED);
    let told = state(TcpStream::connect(&address).unwrap());
    assert_eq!(
        (&told["administers"], &told["tags"]["busiest"][0]["tag"]),
        (&json!(false), &json!("orders"))
    );
    let text = told.to_string();
    for secret in [
        "users",
        "events",
        "socket",
        "state_dir",
        "\"host\"",
        "holder",
        "\"url\"",
        "highest_ends",
        "store_id",
    ] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
    host.stop();

    // If the metrics name no tags, the page names them only to administrators.
    host.change("metrics_tags", "0");
    host.start();
    let _ = host.raw().draw("orders", 1);
    let told = state(TcpStream::connect(host.http(SERVED)).unwrap());
    assert_eq!((&told["tags"]["sums"]["tags"], &told["tags"]["busiest"]), (&json!(1), &json!([])));
    host.stop();

    let socket = host.path("http.sock");
    host.change("http", socket.to_str().unwrap());
    host.start();
    let _ = host.raw().draw("orders", 1);
    let told = state(UnixStream::connect(&socket).unwrap());
    assert_eq!(told["tags"]["busiest"][0]["tag"], "orders");
    assert_eq!(told["administers"], true);
    let status = &told["status"];
    assert!(status["users"].is_array() && status["events"][0]["text"].is_string(), "{told}");
    assert!(
        status["segments"]["stores"][0]["url"].as_str().unwrap().contains("store.db"),
        "{told}"
    );
}

#[test]
fn of_many_troubles_the_worst_are_shown() {
    let mut host = Host::on_store("sqlite:unset");
    let (store, http) = (host.path("store.db"), host.path("http.sock"));
    host.change("store", &format!("sqlite:{}", store.display()));
    host.change("http", http.to_str().unwrap());
    host.start();
    // Each exhausted tag is a separate problem.
    let mut raw = host.raw();
    for number in 0..60 {
        let tag = format!("tag-{number}");
        create(&host, &json!({"tag": tag, "ceiling": 5, "step": 5}).to_string());
        raw.send(&ids_request(&tag, 5, 1, 60_000));
        assert_eq!(raw.reply().ids(), [1, 2, 3, 4, 5]);
        raw.send(&ids_request(&tag, 1, 1, 60_000));
        assert_eq!(raw.reply().status(), Status::TagExhausted);
    }
    let mut browser = Browser::start();
    browser.open(&format!("http://{}/", port_of(http)));
    browser.until("document.querySelectorAll('.condition').length === 20");
    browser.until(
        "document.querySelector('#further').textContent === 'and 40 more, none of them worse'",
    );
    let text = browser.text();
    assert!(text.contains("Problems") && text.contains("What to do:"), "{text}");
    assert!(text.contains("ids available; 60 problems"), "{text}");
    fits(&mut browser);
    browser.keep_pictures("troubles");

    // Status and metrics report more of them, but not all either.
    let health = &host.status()["health"];
    assert_eq!(health["conditions"].as_array().unwrap().len(), 50);
    assert_eq!(health["conditions_left_out"], 10);
    for (words, said) in [
        ("status", "and 10 more, none of them worse"),
        ("metrics", "\nleafd_conditions_left_out 10\n"),
        ("doctor", "10 more conditions, none of them worse"),
    ] {
        let output = host.leafctl(&[words]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(said), "{words}: {text}");
    }
}

#[test]
fn the_page_loads_nothing_but_its_own() {
    let mut host = Host::new().set("http", "127.0.0.1:0");
    host.start();
    let address = host.http(SERVED);
    for (path, kind) in
        [("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")]
    {
        let file = get(&address, path);
        assert!(
            file.status == 200 && file.field("content-type").unwrap().starts_with(kind),
            "{file:?}"
        );
        let policy = file.field("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none';") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert!(!file.body.contains("https://") && !file.body.contains("innerHTML"), "{path}");
    }
    let other = get_with(&address, "/state", "Sec-Fetch-Site: cross-site\r\n");
    assert_eq!(other.status, 403);
}

/// A user who searches among many long names takes little of the request loop's time.
#[test]
fn searches_leave_ids_to_others() {
    const SEARCHERS: usize = 20;
    let (host, _) = host_for_administrators();
    let mut raw = host.raw();
    let names = (0..2_000).map(|number| format!("{number} {}", "x".repeat(100)));
    for some in names.collect::<Vec<_>>().chunks(50) {
        for tag in some {
            raw.request(opcode::TAG_CREATE, 1, json!({"tag": tag}).to_string().as_bytes());
        }
        some.iter().for_each(|_| assert_eq!(raw.reply().status(), Status::Ok));
        for tag in some {
            raw.send(&ids_request(tag, 1, 1, 60_000));
        }
        some.iter().for_each(|_| assert_eq!(raw.reply().status(), Status::Ok));
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..SEARCHERS {
            let (host, stop) = (&host, &stop);
            scope.spawn(move || {
                let ask = format!("GET /state?find={number}y HTTP/1.0\r\nHost: localhost\r\n\r\n");
                while !stop.load(Ordering::Relaxed) {
                    let stream = UnixStream::connect(host.path("http.sock")).unwrap();
                    let answer = send(stream, ask.as_bytes());
                    assert!([200, 503].contains(&answer.status), "{answer:?}");
                }
            });
        }
        let mut waits: Vec<Duration> = (0..300)
            .map(|_| {
                let begun = Instant::now();
                assert_eq!(raw.draw("snowflake", 1).len(), 1);
                begun.elapsed()
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        waits.sort_unstable();
        assert!(waits[waits.len() / 2] < Duration::from_millis(50), "{:?}", waits[waits.len() / 2]);
    });
}

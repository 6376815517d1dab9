//! `leafctl top` in a real terminal.

use std::time::Duration;

use leafd_tests::browser::Browser;
use leafd_tests::terminal::Terminal;

use crate::host::{Host, eventually, leafd_binary};

/// A terminal in which `leafctl top` runs.
fn open(host: &Host) -> Terminal {
    let leafctl = leafd_binary().with_file_name("leafctl");
    // The screen shows afterwards how it ended.
    let commands = format!(
        "{} --socket {} top --every-ms 100; echo \"ended with $?\"; stty -a | grep -o ' icanon'; sleep 600",
        leafctl.display(),
        host.socket().display()
    );
    Terminal::open(&host.path("."), &commands)
}

#[test]
fn it_shows_tags_live_follows_the_terminal_s_size_and_gives_it_back() {
    let mut host = Host::new();
    host.start();
    for tag in ["orders", "users"] {
        host.create(tag);
        let _ = host.raw().draw(tag, 1);
    }
    let terminal = open(&host);
    // The terminal may have received only a part of the output, without its last line.
    let screen = terminal.until("a whole screen with a tag", |screen| {
        screen.contains("orders") && screen.contains("q quits")
    });
    for part in ["OK: segment and snowflake ids available", "STORE", "TAG", "USER", "RECENT EVENTS"]
    {
        assert!(screen.contains(part), "{part:?} is not in\n{screen}");
    }
    assert!(screen.lines().all(|line| line.chars().count() <= 100), "{screen}");
    let before = host.raw().draw("orders", 700);
    assert_eq!(before.len(), 700);
    let screen = terminal.until("the ids just drawn", |screen| {
        screen.lines().any(|line| line.starts_with("orders") && line.contains(" 701 "))
    });
    let mut browser = Browser::start();
    browser.show_text(&screen);
    assert!(browser.text().contains("RECENT EVENTS"));
    browser.keep_pictures("top");

    terminal.resize(44, 9);
    terminal.until("a small screen", |screen| {
        screen.lines().filter(|line| !line.is_empty()).count() <= 9
            && !screen.contains("RECENT EVENTS")
            && screen.contains("q quits")
    });
    terminal.resize(100, 30);
    terminal.until("a large screen", |screen| screen.contains("RECENT EVENTS"));

    terminal.press("PPage");
    terminal.press("NPage");
    let scrolled = terminal.until("the end", |screen| !screen.contains("STORE"));
    assert!(scrolled.contains("OK: "), "the summary stays:\n{scrolled}");

    // The daemon is unavailable, and then returns.
    host.stop();
    terminal.until("that it is away", |screen| screen.contains("doesn't answer"));
    host.start();
    terminal.until("that it is back", |screen| !screen.contains("doesn't answer"));

    terminal.press("q");
    let ended = terminal.until("its end", |screen| screen.contains("ended with 0"));
    assert!(!ended.contains("STORE"), "the screen before is back:\n{ended}");
    terminal.until("lines are edited again", |screen| screen.contains(" icanon"));
}

#[test]
fn without_a_terminal_it_says_what_to_use() {
    let mut host = Host::new();
    host.start();
    let refused = host.leafctl(&["top"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && said.contains("leafctl status"), "{said}");
    assert!(refused.stdout.is_empty());
    let _ = eventually("the daemon is not disturbed", Duration::from_secs(60), || {
        host.raw().try_info().ok()
    });
}

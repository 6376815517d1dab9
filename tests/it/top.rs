//! `leafctl top` in a real terminal: tmux is its screen and keyboard.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use crate::host::{Host, eventually, leafd_binary};

/// How long the screen may take to become as a test wants it, on a busy machine.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

/// A terminal in which `leafctl top` runs.
struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    fn open(host: &Host) -> Terminal {
        let terminal = Terminal { socket: host.path("tmux") };
        let leafctl = leafd_binary().with_file_name("leafctl");
        let (leafctl, socket) = (leafctl.display(), host.socket());
        // What stands there afterwards tells how it ended.
        let run = format!(
            "{leafctl} --socket {} top --every-ms 100; echo \"ended with $?\"; stty -a | grep -o ' icanon'; sleep 600",
            socket.display()
        );
        terminal.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "100",
            "-y",
            "30",
            "sh",
            "-c",
            &run,
        ]);
        terminal
    }

    fn tmux(&self, words: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(words).env("LC_ALL", "C.UTF-8");
        let output = command.env_remove("TMUX").output().expect("Debian's package tmux");
        assert!(output.status.success(), "{words:?}: {output:?}");
        output
    }

    fn keys(&self, keys: &str) {
        self.tmux(&["send-keys", keys]);
    }

    fn screen(&self) -> String {
        String::from_utf8(self.tmux(&["capture-pane", "-p"]).stdout).unwrap()
    }

    /// Waits until the screen is so.
    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let end = std::time::Instant::now() + SHOWN_WITHIN;
        while std::time::Instant::now() < end {
            last = self.screen();
            if is_so(&last) {
                return last;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{what} is not to be seen:\n{last}");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut command = Command::new("tmux");
        let _ = command.arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}

#[test]
fn it_shows_tags_live_follows_the_terminal_s_size_and_gives_it_back() {
    let mut host = Host::new();
    host.start();
    for tag in ["orders", "users"] {
        host.create(tag);
        let _ = host.raw().draw(tag, 1);
    }
    let terminal = Terminal::open(&host);
    let screen = terminal.until("a tag", |screen| screen.contains("orders"));
    for part in [
        "all is well: segment and snowflake ids can be had",
        "STORE",
        "WORKER",
        "USERS",
        "█",
        "none",
        "RECENT EVENTS",
    ] {
        assert!(screen.contains(part), "{part:?} is not in\n{screen}");
    }
    assert!(screen.lines().all(|line| line.chars().count() <= 100), "{screen}");
    let before = host.raw().draw("orders", 700);
    assert_eq!(before.len(), 700);
    terminal.until("a bar that empties", |screen| screen.contains('░'));

    terminal.tmux(&["resize-window", "-x", "44", "-y", "9"]);
    let small = terminal.until("a small screen", |screen| {
        screen.lines().filter(|line| !line.is_empty()).count() <= 9
            && !screen.contains("RECENT EVENTS")
    });
    assert!(small.contains("q quits"), "{small}");
    terminal.tmux(&["resize-window", "-x", "100", "-y", "30"]);
    terminal.until("a large screen", |screen| screen.contains("RECENT EVENTS"));

    // The tags above are scrolled away.
    terminal.keys("Down");
    terminal.until("one tag", |screen| screen.contains("orders") != screen.contains("users "));

    // A daemon that is away, and back.
    host.stop();
    terminal.until("that it is away", |screen| screen.contains("doesn't answer"));
    host.start();
    terminal.until("that it is back", |screen| !screen.contains("doesn't answer"));

    terminal.keys("q");
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
    let _ = eventually("the daemon is not disturbed", SHOWN_WITHIN, || host.raw().try_info().ok());
}

//! A real terminal for interactive programs: tmux (Debian's package) is its screen and keyboard.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// How long the screen may take to show what a test expects, on a busy machine.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

/// A terminal in which a program runs.
pub struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// Runs shell commands in a terminal of 100 columns and 30 lines. The folder contains its socket.
    pub fn open(folder: &Path, commands: &str) -> Terminal {
        let terminal = Terminal { socket: folder.join("tmux") };
        let size = ["-x", "100", "-y", "30"];
        let words = ["-f", "/dev/null", "new-session", "-d"];
        terminal.tmux(&[&words[..], &size, &["sh", "-c", commands]].concat());
        terminal
    }

    fn tmux(&self, words: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(words).env("LC_ALL", "C.UTF-8");
        let output = command.env_remove("TMUX").output().expect("Debian's package tmux");
        assert!(output.status.success(), "{words:?}: {output:?}");
        output
    }

    /// Presses a key, given by its name.
    pub fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Types a text.
    pub fn enter(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// Resizes the terminal.
    pub fn resize(&self, columns: u16, lines: u16) {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &lines.to_string()]);
    }

    /// The content of the screen.
    pub fn screen(&self) -> String {
        String::from_utf8(self.tmux(&["capture-pane", "-p"]).stdout).unwrap()
    }

    /// Waits until the screen satisfies `is_so`.
    #[track_caller]
    pub fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + SHOWN_WITHIN;
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "{what} is not to be seen:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The terminal has its own tmux server, found by its socket.
        let _ = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}

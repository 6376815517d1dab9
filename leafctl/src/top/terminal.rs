//! The terminal: takes over its keys and whole screen, and restores it at the end.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::anyhow;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::failure::CommandError;

/// A terminal that this program has taken over.
pub(super) struct Screen {
    before: Termios,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub columns: u16,
    pub lines: u16,
}

pub(super) enum Key {
    Quit,
    Up,
    Down,
    PageUp,
    PageDown,
    Other,
}

/// Switches to the alternate screen, hides the cursor, and turns line wrapping off.
const BEGIN: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const END: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

impl Screen {
    /// Takes over the terminal.
    pub(super) fn open() -> Result<Screen, CommandError> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Err(anyhow!(
                "top needs a terminal; in scripts, use leafctl status or leafctl status --json"
            )
            .into());
        }
        let before = tcgetattr(io::stdin()).map_err(|error| cannot("query", error))?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw)
            .map_err(|error| cannot("configure", error))?;
        let screen = Screen { before };
        let mut out = io::stdout().lock();
        out.write_all(BEGIN.as_bytes())?;
        out.flush()?;
        Ok(screen)
    }

    pub(super) fn size(&self) -> Size {
        let found =
            tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        found.map_or(Size { columns: 80, lines: 24 }, |size| Size {
            columns: size.ws_col,
            lines: size.ws_row,
        })
    }

    /// Shows the title, as many of these lines as fit, and the keys.
    pub(super) fn show(
        &mut self,
        title: &str,
        lines: &[String],
        size: Size,
    ) -> Result<(), CommandError> {
        let room = usize::from(size.lines).saturating_sub(2);
        let mut text = format!("\x1b[H\x1b[2K\x1b[1m{}\x1b[0m", fitted(title, size.columns));
        for at in 0..room {
            // Erase the line first: erasing it afterwards would erase the last column too.
            text.push_str("\r\n\x1b[2K");
            text.push_str(&lines.get(at).map_or(String::new(), |line| fitted(line, size.columns)));
        }
        text.push_str("\r\n\x1b[2K\x1b[2mq quits   arrow keys scroll\x1b[0m");
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    /// The key pressed within this time, if any.
    pub(super) fn key(&mut self, within: Duration) -> Result<Option<Key>, CommandError> {
        let stdin = io::stdin();
        let mut waited = [PollFd::new(&stdin, PollFlags::IN)];
        let timeout = Timespec::try_from(within).ok();
        match poll(&mut waited, timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(cannot("read", error)),
        }
        let mut bytes = [0; 64];
        let count = rustix::io::read(&stdin, &mut bytes).map_err(|error| cannot("read", error))?;
        Ok(Some(match &bytes[..count] {
            // The terminal has closed; q; Ctrl-C and Ctrl-D; Escape.
            b"" | b"q" | b"Q" | b"\x03" | b"\x04" | b"\x1b" => Key::Quit,
            b"\x1b[A" | b"\x1bOA" | b"k" => Key::Up,
            b"\x1b[B" | b"\x1bOB" | b"j" => Key::Down,
            b"\x1b[5~" => Key::PageUp,
            b"\x1b[6~" | b" " => Key::PageDown,
            _ => Key::Other,
        }))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal no longer exists, it doesn't need to be restored.
        let mut out = io::stdout().lock();
        let _ = out.write_all(END.as_bytes());
        let _ = out.flush();
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

/// A text truncated to this many characters, without characters that control a terminal or change the writing
/// direction. Wide characters may extend past the right edge, where the terminal truncates them.
fn fitted(text: &str, columns: u16) -> String {
    let turns = |letter: char| matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let harmless = |letter: char| !letter.is_control() && !turns(letter);
    let shown = text.chars().take(usize::from(columns));
    shown.map(|letter| if harmless(letter) { letter } else { '\u{fffd}' }).collect()
}

fn cannot(action: &str, error: rustix::io::Errno) -> CommandError {
    anyhow!("can't {action} the terminal: {error}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_controls_the_terminal() {
        assert_eq!(fitted("a\x1b[2Jb\r\nc", 20), "a\u{fffd}[2Jb\u{fffd}\u{fffd}c");
        assert_eq!(fitted("\u{202e}sredro", 20), "\u{fffd}sredro");
        assert_eq!(fitted("orders", 5), "order");
        assert_eq!(fitted("orders", 0), "");
    }
}

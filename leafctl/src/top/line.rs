//! A line for a terminal of any width. Its parts have columns of their own, and no part can spoil another one or
//! the terminal.

use std::fmt::Write as _;

/// How a part looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
    Warning,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    parts: Vec<(u16, Look, String)>,
}

impl Line {
    /// A line that begins with this text.
    pub(super) fn of(look: Look, text: &str, columns: u16) -> Line {
        Line::default().part(0, columns, look, text)
    }

    /// Adds a part that starts at this column and is at most `width` wide.
    pub(super) fn part(mut self, column: u16, width: u16, look: Look, text: &str) -> Line {
        self.parts.push((column, look, fitted(text, usize::from(width))));
        self
    }

    /// Adds a part that ends at this column.
    pub(super) fn right(self, end: u16, look: Look, text: &str) -> Line {
        let width = u16::try_from(width(text)).unwrap_or(u16::MAX);
        self.part(end.saturating_sub(width), width, look, text)
    }

    /// Writes the line for the terminal. Each part begins at its column, however wide the terminal draws the text
    /// before it.
    pub(super) fn write(&self, out: &mut String) {
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        for (column, look, text) in &self.parts {
            let _ = write!(out, "\x1b[{}G", column + 1);
            let code = match look {
                Look::Plain => "",
                Look::Strong => "1",
                Look::Faint => "2",
                Look::Good if colours => "32",
                Look::Bad if colours => "1;31",
                Look::Warning if colours => "33",
                Look::Good => "",
                Look::Bad | Look::Warning => "1",
            };
            let _ = write!(out, "\x1b[0;{code}m{text}\x1b[0m");
        }
    }
}

/// The largest number of columns that a text may take: a character outside ASCII may be wide.
fn width(text: &str) -> usize {
    text.chars().map(|letter| if is_narrow(letter) { 1 } else { 2 }).sum()
}

fn is_narrow(letter: char) -> bool {
    // Latin, Greek, Cyrillic, and the characters of bars.
    letter < '\u{530}' || ('\u{2010}'..='\u{25ff}').contains(&letter)
}

/// A text cut to this width, without characters that control a terminal or change the direction of writing.
fn fitted(text: &str, columns: usize) -> String {
    let turns = |letter: char| matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown = text.chars().map(|letter| {
        let harmless = !letter.is_control() && !turns(letter);
        if harmless { letter } else { '\u{fffd}' }
    });
    let mut fitted: String = shown.collect();
    if width(&fitted) > columns {
        while !fitted.is_empty() && width(&fitted) >= columns {
            fitted.pop();
        }
        if columns > 0 {
            fitted.push('…');
        }
    }
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_steers_the_terminal_or_is_too_wide() {
        assert_eq!(fitted("a\x1b[2Jb\r\nc", 20), "a\u{fffd}[2Jb\u{fffd}\u{fffd}c");
        assert_eq!(fitted("\u{202e}sredro", 20), "\u{fffd}sredro");
        assert_eq!(fitted("orders", 6), "orders");
        assert_eq!(fitted("orders", 5), "orde…");
        assert_eq!(fitted("🦊🦊🦊", 4), "🦊…");
        assert_eq!(fitted("orders", 0), "");
        let mut out = String::new();
        Line::of(Look::Plain, "a", 9).right(9, Look::Plain, "12").write(&mut out);
        assert!(out.contains("\x1b[1G") && out.contains("\x1b[8G"), "{out:?}");
    }
}

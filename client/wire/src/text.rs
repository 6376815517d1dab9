//! Makes text from other parties safe to show in a terminal, in a log line or on a page.

/// Returns the text with a replacement character for each control character, line break or change of writing direction.
/// They could move a terminal's cursor, start another log line, or reorder the rest of the text.
pub fn clean(text: &str) -> String {
    let is_unsafe = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.replace(is_unsafe, "\u{fffd}")
}

/// Returns the text quoted as one word for a shell, so that nothing in it runs if a reader pastes the command.
pub fn shell_word(text: &str) -> String {
    match text.contains(['$', '`', '\\', '"', '!']) {
        true => format!("'{}'", clean(text).replace('\'', "'\\''")),
        false => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_a_cursor_is_replaced_and_the_rest_stays() {
        assert_eq!(
            clean("a\u{1b}[2Jb\nc\u{9b}d\u{202e}e"),
            "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d\u{fffd}e"
        );
        let words = ["orders", "it's", "q$(reboot)", "it's `x`"].map(shell_word);
        assert_eq!(words, ["\"orders\"", "\"it's\"", "'q$(reboot)'", "'it'\\''s `x`'"]);
        assert_eq!(clean("Größe, 数, \u{1f600}"), "Größe, 数, \u{1f600}");
    }
}

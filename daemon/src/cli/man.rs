//! Generates the manual page leafd.toml(5) from the table of settings.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use leafd_man::escaped;

use crate::config::{INTRODUCTION, SECTIONS};

/// Writes the page into a folder.
///
/// # Errors
/// The page can't be written there.
pub fn write_settings_page(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("leafd.toml.5"), settings_page())
}

fn settings_page() -> String {
    let mut out = format!(
        ".TH leafd.toml 5 \"\" \"leafd {}\" leafd\n.SH NAME\nleafd.toml \\- the configuration of leafd\n\
         .SH SYNOPSIS\n/etc/leafd/leafd.toml\n.SH DESCRIPTION\n",
        env!("CARGO_PKG_VERSION")
    );
    for paragraph in INTRODUCTION {
        let _ = write!(out, ".PP\n{}\n", marked_up(paragraph));
    }
    for section in &*SECTIONS {
        let _ = writeln!(out, ".SH \"{}\"", section.title.to_uppercase());
        if !section.intro.is_empty() {
            let _ = writeln!(out, "{}", marked_up(&section.intro));
        }
        for setting in &section.settings {
            let (help, facts) = (marked_up(setting.help), marked_up(&setting.facts()));
            let _ = write!(out, ".TP\n.B {}\n{help}\n.IP\n{facts}\n", escaped(setting.key));
            if setting.has_example() {
                let example: String =
                    setting.example().lines().map(|line| escaped(line) + "\n").collect();
                let _ = write!(out, ".IP\n.nf\n{example}.fi\n");
            }
        }
    }
    out + ".SH \"SEE ALSO\"\n.BR leafd (8)\n"
}

/// Plain sentences, with text between backticks in bold.
fn marked_up(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let bold = |(index, part): (usize, &str)| match index % 2 {
        0 => escaped(part),
        _ => format!("\\fB{}\\fP", escaped(part)),
    };
    parts.map(bold).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_settings_has_every_one() {
        let page = settings_page();
        for setting in crate::config::settings() {
            assert!(
                page.contains(&format!("\n.B {}\n", setting.key)),
                "{} is missing",
                setting.key
            );
        }
        assert!(page.contains("\\fBmax_step\\fP") && !page.contains('`'), "{page}");
    }
}

//! Generates manual pages from the commands' own help, for packages.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_mangen::Man;

/// Lines of a help text with at least this indentation are flowing text below the line before them; others are kept as
/// they are.
const FLOWING_INDENT: usize = 4;

/// Arguments of the hidden subcommand `man`.
#[derive(Clone, Debug, clap::Args)]
pub struct ManArgs {
    /// Where to write the pages
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Writes a page for the command and one for each of its subcommands.
pub fn run(command: clap::Command, section: &str, args: &ManArgs) -> ExitCode {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    match write(&command, section, &args.folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write manual pages to {}: {error}", args.folder.display());
            ExitCode::FAILURE
        }
    }
}

fn write(command: &clap::Command, section: &str, folder: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        write(subcommand, section, folder)?;
    }
    let man = Man::new(command.clone()).section(section).manual("leafd");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(|one| !one.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    let more = command.get_after_long_help().or(command.get_after_help());
    page.extend_from_slice(
        more.map(|text| sections(&text.to_string())).unwrap_or_default().as_bytes(),
    );
    fs::write(folder.join(man.get_filename()), page)
}

/// The help text after the options: a line such as `Exit status:` begins a section.
fn sections(text: &str) -> String {
    let mut out = String::new();
    let mut as_it_stands = false;
    for line in text.lines() {
        let words = line.trim_start();
        if words.is_empty() {
            continue;
        }
        let indent = line.len() - words.len();
        let stands = indent > 0 && indent < FLOWING_INDENT;
        if stands != as_it_stands {
            out.push_str(if stands { ".PP\n.nf\n" } else { ".fi\n" });
            as_it_stands = stands;
        }
        match (indent, words.strip_suffix(':')) {
            (0, Some(title)) => {
                out.push_str(&format!(".SH \"{}\"\n", escaped(&title.to_uppercase())))
            }
            (0, None) => out.push_str(&format!(".PP\n{}\n", escaped(words))),
            _ if stands => out.push_str(&format!("{}\n", escaped(words))),
            _ => out.push_str(&format!(".RS 4\n{}\n.RE\n", escaped(words))),
        }
    }
    if as_it_stands {
        out.push_str(".fi\n");
    }
    out
}

/// The text escaped for roff, on a line of its own.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_help_s_sections_become_a_page_s() {
        let text = "Examples:\n  leafd --set a=b\n\nSettings:\nlog (LEAFD_LOG), default: info\n    .What's \\ logged.";
        let page = sections(text);
        let expected = ".SH \"EXAMPLES\"\n.PP\n.nf\nleafd \\-\\-set a=b\n.fi\n.SH \"SETTINGS\"\n.PP\n\
                        log (LEAFD_LOG), default: info\n.RS 4\n\\&.What's \\e logged.\n.RE\n";
        assert_eq!(page, expected);
    }
}

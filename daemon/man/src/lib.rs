//! Generates manual pages from the commands' own help, for packages.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

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
    if let Some(more) = command.get_after_long_help().or(command.get_after_help()) {
        sections(&more.to_string()).to_writer(&mut page)?;
    }
    fs::write(folder.join(man.get_filename()), page)
}

/// The help text after the options: a line such as `Exit status:` begins a section.
fn sections(text: &str) -> Roff {
    let mut page = Roff::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let words = line.trim_start();
        match words.strip_suffix(':') {
            _ if words != line => page.control("RS", ["4"]).text([roman(words)]).control("RE", []),
            Some(title) => page.control("SH", [title.to_uppercase().as_str()]),
            None => page.control("PP", []).text([roman(words)]),
        };
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_help_s_sections_become_a_page_s() {
        let text = "Examples:\n  leafd --set a=b\n\nSettings:\nlog (LEAFD_LOG), default: info\n    .What's \\ logged.";
        let page = sections(text).to_roff();
        let expected = ".SH EXAMPLES\n.RS 4\nleafd \\-\\-set a=b\n.RE\n.SH SETTINGS\n.PP\n\
                        log (LEAFD_LOG), default: info\n.RS 4\n\\&.What\\*(Aqs \\\\ logged.\n.RE\n";
        assert_eq!(page, expected);
    }
}

//! Shell completion of commands, tags and stores: bash, zsh and fish at a terminal, by key presses, and everything else
//! in bash without a terminal.

use std::process::Command;
use std::time::Duration;

use leafd_tests::terminal::Terminal;

use crate::host::{Host, eventually, leafd_binary};

/// Makes bash complete a line's last word.
#[track_caller]
fn completed_by_bash(host: &Host, words: &[&str]) -> Vec<String> {
    let script = r#"
        source <(leafctl completions bash) || exit 1
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
        complete -p leafctl >/dev/null || exit 1
        _clap_complete_leafctl leafctl "${COMP_WORDS[COMP_CWORD]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = shell(host, "bash");
    bash.args(["--norc", "-c", script, "bash"]).args(words);
    let output = bash.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn shell(host: &Host, program: &str) -> Command {
    let programs = leafd_binary().parent().unwrap().display().to_string();
    let mut shell = Command::new(program);
    shell.env_clear().env("LEAFD_SOCKET", host.socket());
    shell.env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()));
    shell
}

#[test]
fn commands_and_tags_are_completed() {
    let mut host = Host::new();
    host.start();
    for tag in ["orders", "order-lines", "orders$(touch hacked)", "invoices"] {
        host.create(tag);
    }
    assert_eq!(completed_by_bash(&host, &["leafctl", "stat"]), ["status"]);
    assert_eq!(completed_by_bash(&host, &["leafctl", "tag", "sho"]), ["show"]);
    // Names that a shell would execute are not offered.
    let both = ["order-lines", "orders"];
    for words in [
        &["leafctl", "next", "ord"][..],
        &["leafctl", "tag", "show", "ord"],
        &["leafctl", "tag", "delete", "ord"],
    ] {
        assert_eq!(completed_by_bash(&host, words), both, "{words:?}");
    }
    assert_eq!(completed_by_bash(&host, &["leafctl", "tag", "set", "inv"]), ["invoices"]);
    let all = completed_by_bash(&host, &["leafctl", "tag", "raise", ""]);
    assert!(
        both.iter().chain(&["invoices"]).all(|tag| all.contains(&(*tag).to_owned())),
        "{all:?}"
    );

    host.stop();
    let none = completed_by_bash(&host, &["leafctl", "tag", "show", "ord"]);
    assert_eq!(none, [""], "without a daemon there is nothing to offer, and nothing is said");
}

#[test]
fn stores_are_completed() {
    let host = Host::new();
    let url = format!("sqlite:{}", host.path("store.db").display());
    let mut host = host.set("stores", &format!("{{ main = {url:?} }}"));
    host.start();
    assert_eq!(completed_by_bash(&host, &["leafctl", "tag", "list", "--store", "m"]), ["main"]);
    host.create("orders");
    let listed = host.leafctl(&["tag", "list", "--store", "main"]);
    assert!(String::from_utf8(listed.stdout).unwrap().contains("orders"));
    assert_eq!(completed_by_bash(&host, &["leafctl", "next", "o"]), ["orders"]);
}

/// How each shell is started without the user's configuration, and gets its completions.
const SHELLS: [(&str, &str, &str); 3] = [
    ("bash", "bash --norc", "source <(leafctl completions bash)"),
    ("zsh", "zsh -f", "autoload -U compinit; compinit -u -D; source <(leafctl completions zsh)"),
    ("fish", "fish --no-config", "leafctl completions fish | source"),
];

#[test]
fn bash_zsh_and_fish_complete_names_at_a_terminal() {
    let host = Host::new();
    let url = format!("sqlite:{}", host.path("store.db").display());
    let mut host = host.set("stores", &format!("{{ main = {url:?} }}"));
    host.start();
    for tag in ["orders", "order-lines", "invoices$(touch hacked)", "invoices"] {
        host.create(tag);
    }
    let programs = leafd_binary().parent().unwrap().display().to_string();
    for (name, shell, completions) in SHELLS {
        let folder = host.path(name);
        std::fs::create_dir(&folder).unwrap();
        let (home, socket) = (folder.display(), host.socket());
        let commands = format!(
            "cd {home}; exec env HOME={home} LEAFD_SOCKET={} PATH={programs}:\"$PATH\" PS1='> ' {shell}",
            socket.display()
        );
        let terminal = Terminal::open(&folder, &commands);
        terminal.until("a prompt", |screen| screen.contains('>') || screen.contains('#'));
        terminal.enter(&format!("{completions}; clear; echo is''ready"));
        terminal.press("Enter");
        terminal.until("that it is set up", |screen| screen.contains("isready"));
        for (begun, whole) in [
            ("leafctl tag show inv", "leafctl tag show invoices"),
            ("leafctl tag list --store m", "leafctl tag list --store main"),
            ("leafctl stat", "leafctl status"),
        ] {
            terminal.enter(begun);
            terminal.press("Tab");
            let shown =
                terminal.until(&format!("{name}: {whole}"), |screen| screen.contains(whole));
            assert!(!shown.contains("hacked"), "{shown}");
            // Not C-c, because the terminal would then discard keys that it has not delivered yet.
            terminal.press("C-u");
        }
        // If several tags match, all are offered.
        terminal.enter("leafctl next ord");
        eventually(&format!("{name} offers both tags"), Duration::from_secs(60), || {
            terminal.press("Tab");
            std::thread::sleep(Duration::from_millis(500));
            let screen = terminal.screen();
            (screen.contains("order-lines") && screen.contains("orders")).then_some(())
        });
        assert!(!folder.join("hacked").exists());
    }
}

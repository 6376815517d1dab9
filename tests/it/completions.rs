//! A shell completes commands, and the names of tags and stores, in a real bash as the user's keys would; zsh's and
//! fish's scripts ask the same program in their own ways.

use std::process::Command;

use crate::host::{Host, leafd_binary};

/// Has bash complete a line's last word.
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
    // What a shell would run is not offered.
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

    for name in ["zsh", "fish"] {
        let script = host.leafctl(&["completions", name]);
        let text = String::from_utf8(script.stdout).unwrap();
        assert!(text.contains("LEAFCTL_COMPLETE=") && text.contains(name), "{text}");
        let mut asked = shell(&host, "leafctl");
        asked.env("LEAFCTL_COMPLETE", name).env("_CLAP_COMPLETE_INDEX", "3");
        let output = asked.args(["--", "leafctl", "tag", "show", "ord"]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(both.iter().all(|tag| said.contains(tag)) && !said.contains("hacked"), "{said}");
    }
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

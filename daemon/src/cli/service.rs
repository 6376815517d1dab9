//! Reads the systemd unit and the settings that it passes to its daemon, so that operators' commands use the same ones.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Parser;
use nix::unistd::{User, geteuid, initgroups, setgid, setgroups, setuid};

use crate::config::{Args, Config, ConfigError, Env, password_variable};
use crate::journal::hardware;

pub const UNIT: &str = "leafd.service";

/// Where systemd puts the credentials of the running unit.
const CREDENTIALS: &str = "/run/credentials/leafd.service";

/// The directory in which administrators put the stores' passwords, and the prefix of the files' names. With several
/// stores, an underscore and the store's name follow it.
const CREDENTIAL_STORE: &str = "/etc/credstore";
const STORE_PASSWORD: &str = "leafd.store_password";

/// Properties of a unit.
type Properties = BTreeMap<String, String>;

/// A daemon's command line.
#[derive(Debug, Parser)]
struct CommandLine {
    #[command(flatten)]
    args: Args,
}

/// Asks systemd for properties of the unit. `None` if systemd doesn't manage this machine, or has no such unit.
///
/// # Errors
/// The reason why systemd doesn't answer.
pub fn properties(names: &[&str]) -> Result<Option<Properties>, String> {
    if !Path::new("/run/systemd/system").is_dir() {
        return Ok(None);
    }
    let output = Command::new("timeout")
        .args(["5", "systemctl", "show", UNIT, "--property"])
        .arg(format!("LoadState,{}", names.join(",")))
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("systemctl exited with {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let found: Properties =
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Ok((found.get("LoadState").map(String::as_str) == Some("loaded")).then_some(found))
}

/// Loads the configuration of the unit's daemon if root passes no arguments, or only the unit's configuration file.
/// Otherwise loads the one given by arguments and environment.
///
/// # Errors
/// See [`Config::load`].
pub fn load(args: &Args) -> Result<Config, ConfigError> {
    let (mut args, mut env) = (args.clone(), Env::of_this_process());
    let names = ["ExecStart", "Environment", "StateDirectory", "RuntimeDirectory"];
    if let Ok(Some(unit)) = properties(&names) {
        settings_of(&unit, &mut args, &mut env);
    }
    Config::load_from(&args, &env)?.require_built()
}

/// Replaces this process's arguments and environment with the unit's, if they apply.
fn settings_of(unit: &Properties, args: &mut Args, env: &mut Env) {
    let value = |name: &str| unit.get(name).map_or("", String::as_str);
    let command = value("ExecStart").split_once("argv[]=").map_or("", |(_, rest)| rest);
    let command = command.split(" ;").next().unwrap_or_default().split_whitespace();
    let Ok(CommandLine { args: own }) = CommandLine::try_parse_from(command) else { return };
    let is_bare = args.socket.is_none()
        && args.state_dir.is_none()
        && args.store.is_none()
        && args.worker.is_none()
        && args.set.is_empty();
    let names_it = match &args.config {
        Some(file) => own.config.as_ref() == Some(file),
        None => env.uid == 0 && !env.variables.contains_key(&OsString::from("LEAFD_CONFIG")),
    };
    if !is_bare || !names_it {
        return;
    }
    *args = own;
    let mut give = |name: &str, value: String| {
        env.variables.entry(name.into()).or_insert(value.into());
    };
    for (name, property, base) in [
        ("STATE_DIRECTORY", "StateDirectory", "/var/lib"),
        ("RUNTIME_DIRECTORY", "RuntimeDirectory", "/run"),
    ] {
        if let Some(folder) = value(property).split_whitespace().next() {
            give(name, format!("{base}/{folder}"));
        }
    }
    for (name, value) in
        value("Environment").split_whitespace().filter_map(|pair| pair.split_once('='))
    {
        give(name, value.to_owned());
    }
    give("CREDENTIALS_DIRECTORY", CREDENTIALS.to_owned());
    // The daemon's user may not read files there, and the unit's credentials exist only while it runs.
    for file in fs::read_dir(CREDENTIAL_STORE).into_iter().flatten().flatten() {
        let name = file.file_name();
        let Some(store) = name.to_str().and_then(|name| name.strip_prefix(STORE_PASSWORD)) else {
            continue;
        };
        if let Ok(password) = fs::read_to_string(file.path()) {
            let variable = password_variable(store.trim_start_matches('_'));
            give(&variable, password.trim_end_matches('\n').to_owned());
        }
    }
}

/// Root continues as the owner of the state directory, which is the daemon's user, because the daemon couldn't use
/// files that root creates there.
///
/// # Errors
/// Root is not allowed to change its user.
pub fn become_owner(state_dir: &Path) -> Result<()> {
    let (owner, group) = fs::metadata(state_dir).map_or((0, 0), |found| (found.uid(), found.gid()));
    if !geteuid().is_root() || owner == 0 {
        return Ok(());
    }
    // Only root can read all of them.
    hardware();
    let become_it = || {
        match User::from_uid(owner.into())? {
            Some(user) => {
                initgroups(&CString::new(user.name)?, user.gid)?;
                setgid(user.gid)?;
            }
            // This is the case in a container's volume.
            None => {
                setgroups(&[group.into()])?;
                setgid(group.into())?;
            }
        }
        setuid(owner.into())?;
        Ok::<_, anyhow::Error>(())
    };
    become_it().with_context(|| {
        format!("cannot continue as uid {owner}, the owner of {}", state_dir.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit() -> Properties {
        let exec = "{ path=/usr/bin/leafd ; argv[]=/usr/bin/leafd --config /etc/leafd/leafd.toml ; ignore_errors=no ; }";
        [
            ("ExecStart", exec),
            ("Environment", "LEAFD_LOG=debug"),
            ("StateDirectory", "leafd"),
            ("RuntimeDirectory", "leafd"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    #[test]
    fn the_unit_s_settings_count_where_they_are_meant() {
        let file = Some("/etc/leafd/leafd.toml".into());
        let of = |args: &Args, uid: u32| {
            let (mut args, mut env) = (args.clone(), Env { uid, ..Env::default() });
            settings_of(&unit(), &mut args, &mut env);
            (args.config, env.variables.get(&OsString::from("STATE_DIRECTORY")).cloned())
        };
        let its_own = (file.clone(), Some("/var/lib/leafd".into()));
        assert_eq!(of(&Args::default(), 0), its_own);
        assert_eq!(of(&Args { config: file.clone(), ..Args::default() }, 4_711), its_own);
        // A user's own daemon, and another one on the host.
        assert_eq!(of(&Args::default(), 4_711), (None, None));
        let other = Args { config: Some("/srv/leafd.toml".into()), ..Args::default() };
        assert_eq!(of(&other, 0), (other.config.clone(), None));
        let moved =
            Args { config: file.clone(), set: vec!["state_dir=/srv".into()], ..Args::default() };
        assert_eq!(of(&moved, 0), (file, None));
    }
}

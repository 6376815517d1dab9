//! Collects the given values with their sources, at most one for each setting. Unknown names are refused, because a
//! misspelt setting must not silently fall back to its default.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::args::Args;
use super::env::Env;
use super::error::{ConfigError, Source, most_like};
use super::password;
use super::read_regular_file;
use super::settings::{self, Setting, ValueKind};
use super::value::{ConfigNode, parse_document, parse_value};

/// The value of each given setting, by key, with its source.
pub(super) type Inputs = BTreeMap<&'static str, (ConfigNode, Source)>;

const PREFIX: &str = "LEAFD_";

/// Names the file. It is not a setting, because the file can't name itself.
const CONFIG_VARIABLE: &str = "LEAFD_CONFIG";

/// A configuration is small. A larger file is something else (a device, a log).
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Collects file, environment and arguments; later ones replace earlier ones.
pub(super) fn collect(args: &Args, env: &Env) -> Result<Inputs, ConfigError> {
    let mut given = Inputs::new();
    if let Some((path, named_by)) = file_named(args, env) {
        given.extend(from_file(&path, named_by)?);
    }
    given.extend(from_variables(env)?);
    given.extend(from_args(args)?);
    Ok(given)
}

fn file_named(args: &Args, env: &Env) -> Option<(PathBuf, Source)> {
    if let Some(path) = &args.config {
        return Some((path.clone(), Source::Argument("--config")));
    }
    let path = env.variable(CONFIG_VARIABLE)?;
    Some((path.into(), Source::Variable(CONFIG_VARIABLE.to_owned())))
}

fn from_file(path: &Path, named_by: Source) -> Result<Inputs, ConfigError> {
    let (text, _) = read_regular_file(path, FILE_BYTES_MAX).map_err(|cause| {
        let words = format!("the configuration file {} can't be read: {cause}", path.display());
        ConfigError::new(named_by, words)
    })?;
    let entries = parse_document(&text).map_err(|(line, cause)| {
        // Only a known key of the line is shown; the rest may be a secret.
        let key = line.and_then(|line| text.lines().nth(line - 1)?.split('=').next());
        let setting = key.and_then(|key| settings::by_key(key.trim()));
        let key = setting.map_or(String::new(), |setting| format!("{}: ", setting.key));
        let source = Source::File { path: path.to_owned(), line };
        ConfigError::new(source, format!("{key}this is not TOML: {cause}"))
    })?;
    let mut given = Inputs::new();
    for (key, node) in entries {
        let source = Source::File { path: path.to_owned(), line: node.line };
        let setting = known(&key, &source)?;
        given.insert(&setting.key, (node, source));
    }
    Ok(given)
}

fn from_variables(env: &Env) -> Result<Inputs, ConfigError> {
    let mut given = Inputs::new();
    for (name, value) in &env.variables {
        let Some(name) = name.to_str() else { continue };
        let Some(key) = name.strip_prefix(PREFIX) else { continue };
        if name == CONFIG_VARIABLE || is_service_link(key) || is_password(name) {
            continue;
        }
        let source = Source::Variable(name.to_owned());
        let setting = settings::settings().find(|one| one.variable() == name);
        let setting = setting.ok_or_else(|| unknown(name, &source))?;
        let node = untyped(setting, value, &source)?;
        given.insert(&setting.key, (node, source));
    }
    Ok(given)
}

/// Whether this is the variable of a store's password, for any store name. The names are not known yet: see
/// [`check_passwords`].
pub(crate) fn is_password(name: &str) -> bool {
    name.starts_with(password::VARIABLE) && name != "LEAFD_STORE_PASSWORD_FILE"
}

/// Refuses a password variable that must be misspelt, because no store uses it. `stores`: the names of all stores. A
/// variable of the other form (named stores where there is one, or the reverse) is accepted: the same environment may
/// serve both configurations during a change.
///
/// # Errors
/// A variable of neither form.
pub(super) fn check_passwords(env: &Env, stores: &[&str]) -> Result<(), ConfigError> {
    if env.has_other_passwords {
        return Ok(());
    }
    let known: Vec<String> = stores.iter().map(|name| password::variable_of(name)).collect();
    let is_sole = stores == [""];
    let given = env.variables.keys().filter_map(|name| name.to_str());
    for name in given.filter(|name| is_password(name)) {
        if known.iter().any(|one| one == name) {
            continue;
        }
        let of_a_store =
            name.strip_prefix(password::VARIABLE).and_then(|rest| rest.strip_prefix('_'));
        let other_form = match is_sole {
            true => of_a_store.is_some_and(|rest| !rest.is_empty()),
            false => name == password::VARIABLE,
        };
        if !other_form {
            let like = most_like(name, known.iter().map(String::as_str)).map(str::to_owned);
            let allowed = format!("a store's password as {}", known.join(", "));
            let source = Source::Variable(name.to_owned());
            return Err(ConfigError::unknown(source, name, like, &allowed));
        }
    }
    Ok(())
}

/// Kubernetes gives every pod such variables for each Service whose name begins with `leafd`, `LEAFD_SERVICE_HOST` and
/// `LEAFD_PORT_80_TCP` among them. No setting has such a name.
fn is_service_link(rest: &str) -> bool {
    let rest = format!("_{rest}");
    let numbered =
        rest.split("_PORT_").skip(1).any(|after| after.starts_with(|c: char| c.is_ascii_digit()));
    numbered
        || rest.ends_with("_PORT")
        || rest.ends_with("_SERVICE_HOST")
        || rest.contains("_SERVICE_PORT")
}

fn from_args(args: &Args) -> Result<Inputs, ConfigError> {
    let own = [
        ("socket", "--socket", args.socket.as_ref().map(|path| path.as_os_str())),
        ("state_dir", "--state-dir", args.state_dir.as_ref().map(|path| path.as_os_str())),
        ("store", "--store", args.store.as_ref().map(OsStr::new)),
        ("worker", "--worker", args.worker.as_ref().map(OsStr::new)),
    ];
    let mut given = Inputs::new();
    for (key, argument, value) in own {
        if let Some(value) = value {
            insert_argument(&mut given, key, value, Source::Argument(argument))?;
        }
    }
    for pair in &args.set {
        let source = Source::Argument("--set");
        let Some((key, value)) = pair.split_once('=') else {
            return Err(ConfigError::new(source, "it takes KEY=VALUE, such as --set autonomy=30m"));
        };
        insert_argument(&mut given, key.trim(), OsStr::new(value.trim()), source)?;
    }
    Ok(given)
}

fn insert_argument(
    given: &mut Inputs,
    key: &str,
    value: &OsStr,
    source: Source,
) -> Result<(), ConfigError> {
    let setting = known(key, &source)?;
    let node = untyped(setting, value, &source)?;
    if let Some((_, other)) = given.insert(&setting.key, (node, source.clone())) {
        let words = format!("{key} is set twice, also by {other}; remove one of them");
        return Err(ConfigError::new(source, words));
    }
    Ok(())
}

fn known(key: &str, source: &Source) -> Result<&'static Setting, ConfigError> {
    settings::by_key(key).ok_or_else(|| unknown(key, source))
}

fn unknown(name: &str, source: &Source) -> ConfigError {
    let is_variable = matches!(source, Source::Variable(_));
    let bare = name.strip_prefix(PREFIX).filter(|_| is_variable).unwrap_or(name);
    let like = most_like(bare, settings::settings().map(|setting| &*setting.key));
    let meant = like.and_then(settings::by_key).map(|setting| match is_variable {
        true => setting.variable(),
        false => setting.key.clone(),
    });
    let keys = settings::settings().map(|setting| &*setting.key).collect::<Vec<_>>().join(", ");
    let allowed = match is_variable {
        true => {
            format!("{CONFIG_VARIABLE}, and {PREFIX} before one of these in capitals: {keys}")
        }
        false => keys,
    };
    ConfigError::unknown(source.clone(), name, meant, &allowed)
}

/// A value from outside a file: TOML for lists and tables, otherwise bare text.
fn untyped(setting: &Setting, value: &OsStr, source: &Source) -> Result<ConfigNode, ConfigError> {
    let refused = |value: &str, allowed: String| {
        ConfigError::of_value(source.clone(), &setting.key, value, &allowed)
    };
    let text = value
        .to_str()
        .ok_or_else(|| refused("something that is not UTF-8", setting.kind.to_string()))?;
    match setting.kind {
        ValueKind::Toml(_) => parse_value(text)
            .map_err(|cause| refused("read as TOML", format!("{} ({cause})", setting.kind))),
        // Files and messages put text between quotes. Quotes are not part of the value here either.
        _ => Ok(ConfigNode::bare(unquoted(text))),
    }
}

fn unquoted(text: &str) -> &str {
    let inside = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.filter(|inside| !inside.contains('"')).unwrap_or(text)
}

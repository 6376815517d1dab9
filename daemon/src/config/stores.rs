//! The stores of a fleet: one, given by `store`, or several with names.

use std::path::PathBuf;
use std::sync::Arc;

use super::env::Env;
use super::password::{self, StorePassword};
use super::store_url::{self, StoreUrl};
use super::types;
use super::value::{ConfigNode, InvalidValue, Value};

/// One store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSpec {
    /// Its name in the configuration; empty for the only one, given by `store`.
    pub name: Arc<str>,
    /// Where it is.
    pub url: StoreUrl,
    /// The password for its login.
    pub password: StorePassword,
}

/// The maximum number of stores: each takes a thread and a connection in every daemon.
const STORES_MAX: usize = 256;

/// Longest name of a store.
const NAME_BYTES_MAX: usize = 32;

const STORE_KEYS: &str = "url, password_file";

/// Parses `stores`: at least one, ordered by name; several only if there are routes to them. `env` may have their
/// passwords.
pub(super) fn parse(
    node: &ConfigNode,
    routed: bool,
    env: &Env,
) -> Result<Vec<StoreSpec>, InvalidValue> {
    let entries = node.table()?;
    if !(1..=STORES_MAX).contains(&entries.len()) {
        return Err(node.bad_for(format!("1 to {STORES_MAX} stores by name")));
    }
    if entries.len() > 1 && !routed {
        let found = ConfigNode {
            value: Value::Other("table", format!("{} stores without routes", entries.len())),
            line: node.line,
        };
        return Err(found.bad_because(
            "several stores require routes, which say which tags are in which store",
        ));
    }
    let mut stores: Vec<StoreSpec> = Vec::new();
    node.entries(|name, value| {
        check_name(name, value)?;
        let store = parse_store(name, value, env)?;
        // Without its parameters, because a store with other certificate checks is the same store.
        let shown = store.url.to_string();
        if let Some(same) = stores.iter().find(|other| other.url.to_string() == shown) {
            let why = format!("{} is already this store", same.name);
            return Err(value.bad_because(why));
        }
        if store.is_embedded() && entries.len() > 1 {
            return Err(value.bad_because(format!("{NO_SQLITE}; use postgres:// or mysql://")));
        }
        stores.push(store);
        Ok(())
    })?;
    stores.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(stores)
}

/// Why the embedded store is refused beside others.
pub(super) const NO_SQLITE: &str = "sqlite serves only one host, as its only store, because other hosts could not find \
                                    the tags in it";

fn check_name(name: &str, value: &ConfigNode) -> Result<(), InvalidValue> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(plain) {
        let given = ConfigNode { line: value.line, ..ConfigNode::bare(name) };
        return Err(given.bad_because(format!(
            "the name of a store has 1 to {NAME_BYTES_MAX} characters of a-z, 0-9 and -"
        )));
    }
    if name == "file" {
        let variable = password::variable_of(name);
        return Err(value.bad_because(format!(
            "this store needs another name, because the variable for its password, {variable}, is that of the setting \
             store_password_file"
        )));
    }
    Ok(())
}

fn parse_store(name: &str, node: &ConfigNode, env: &Env) -> Result<StoreSpec, InvalidValue> {
    let shape = || node.bad_for("a URL as for store, or a table {url, password_file}");
    let as_url =
        |node: &ConfigNode| store_url::parse(node).map_err(|bad| bad.or_for(store_url::ALLOWED));
    let Value::Table(_) = &node.value else {
        node.text().map_err(|_| shape())?;
        return Ok(StoreSpec::new(name, as_url(node)?, None, env));
    };
    node.only_keys(STORE_KEYS)?;
    let password_file = node.field("password_file", |value| {
        let only = "the path of a file that contains only the password";
        types::path(value).map_err(|bad| bad.node.bad_for(only))
    })?;
    let url = node.field("url", as_url)?.ok_or_else(shape)?;
    Ok(StoreSpec::new(name, url, password_file, env))
}

// === impl StoreSpec ===

impl StoreSpec {
    /// A store with the password that this file, or else the environment, has for it.
    pub(super) fn new(
        name: &str,
        url: StoreUrl,
        password_file: Option<PathBuf>,
        env: &Env,
    ) -> StoreSpec {
        StoreSpec { name: name.into(), url, password: password::find(name, password_file, env) }
    }

    pub(super) fn is_embedded(&self) -> bool {
        matches!(self.url, StoreUrl::Sqlite(_))
    }
}

//! `leafd.toml`, or the same settings as arguments.

use std::cell::OnceCell;
use std::path::PathBuf;

use leafd::config::{Args, Config, ConfigError, Env, Peer};
use leafd_core::Tag;
use tempfile::TempDir;

/// A password where operators put them by mistake.
const SECRET: &str = "hunter2";

/// No message and no rendering is longer than this many times what it is about, and the table of settings.
const TEXT_BYTES_MAX: usize = 64 * 1024;

thread_local! {
    static DIR: OnceCell<TempDir> = const { OnceCell::new() };
}

/// Text that begins with `--` is arguments, one a line.
pub(crate) fn run(input: &[u8]) {
    let args = match input.strip_prefix(b"--\n") {
        Some(lines) => {
            let lines = String::from_utf8_lossy(lines);
            Args { set: lines.lines().map(str::to_owned).collect(), ..Args::default() }
        }
        None => Args { config: Some(file(input)), ..Args::default() },
    };
    let secret = is_secret(input);
    let checked = |text: String| {
        assert!(text.len() <= TEXT_BYTES_MAX + 10 * input.len(), "{} bytes", text.len());
        assert!(!(secret && text.contains(SECRET)), "a password is shown: {text}");
        text
    };
    let config = match load(&args) {
        Ok(config) => config,
        Err(refused) => {
            assert!(!checked(refused.to_string()).is_empty());
            return;
        }
    };
    let shown = checked(config.render());
    let args = Args { config: Some(file(shown.as_bytes())), ..Args::default() };
    let again = load(&args).unwrap_or_else(|refused| panic!("{refused}\n{shown}"));
    let values = |config: &Config| -> Vec<_> {
        config.effective.iter().map(|one| (one.key, one.value.clone())).collect()
    };
    assert_eq!(values(&again), values(&config));
    used(&config);
}

/// What the daemon asks of it for each request.
fn used(config: &Config) {
    let peer = Peer { uid: 1_000, gids: vec![100], is_outside: false };
    for name in ["orders", "snowflake", "a", "é"] {
        let tag = Tag::parse(name.as_bytes()).expect("it is a tag");
        if let Some(placement) = config.routing.placement(&tag) {
            assert!(!config.routing.names(placement).is_empty() || config.routing.is_sole());
        }
        let _ = config.access.may_draw(name, &peer);
        if let Some(quota) = config.access.quota(name, &peer) {
            assert!(quota.ids_per_second >= 1 && quota.burst >= 1);
        }
    }
    for (_, layout) in config.layouts.iter() {
        layout.check().expect("configured layouts are valid");
        assert!(config.worker_range.end <= layout.worker_max() + 1);
    }
    assert!(!config.worker_range.is_empty() && config.connections_max >= 1);
    assert!([false, true].iter().all(|embedded| !config.store_check_interval(*embedded).is_zero()));
    let _ = config.provision();
}

fn load(args: &Args) -> Result<Config, ConfigError> {
    Config::load_from(args, &Env { host: "host-a".to_owned(), ..Env::default() })
}

fn file(text: &[u8]) -> PathBuf {
    DIR.with(|dir| {
        let dir = dir.get_or_init(|| tempfile::tempdir().expect("a folder can be made"));
        let path = dir.path().join("leafd.toml");
        std::fs::write(&path, text).expect("the file can be written");
        path
    })
}

/// Whether the secret stands only where a store's URL has its password.
fn is_secret(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    text.lines().filter(|line| line.contains(SECRET)).all(|line| {
        ["store = \"postgres://leafd:hunter2@", "store = \"mysql://leafd:hunter2@"]
            .iter()
            .any(|begin| line.strip_prefix(begin).is_some_and(|rest| !rest.contains(SECRET)))
    })
}

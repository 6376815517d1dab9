//! Checks the configuration as an operator meets it: given text in, typed values or a sentence out.

use std::path::Path;
use std::time::Duration;

use super::*;

/// Root's surroundings with these variables.
fn root_with(variables: &[(&str, &str)]) -> Surroundings {
    let variables = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
    Surroundings { variables, uid: 0 }
}

fn user_with(variables: &[(&str, &str)]) -> Surroundings {
    Surroundings { uid: 1000, ..root_with(variables) }
}

fn set(pairs: &[&str]) -> Args {
    Args { set: pairs.iter().map(|pair| (*pair).to_owned()).collect(), ..Args::default() }
}

/// Loads a file with this text; the file is called `leafd.toml`.
fn from_text(text: &str) -> Result<Config, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("leafd.toml");
    std::fs::write(&file, text).unwrap();
    let args = Args { config: Some(file), ..Args::default() };
    Config::load_from(&args, &root_with(&[]))
}

fn error_of(text: &str) -> String {
    match from_text(text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    }
}

/// The error for this file has each of these parts.
#[track_caller]
fn check(text: &str, parts: &[&str]) {
    let error = error_of(text);
    for part in parts {
        assert!(error.contains(part), "{text:?} gave {error:?}, which lacks {part:?}");
    }
}

#[test]
fn defaults_are_as_documented() {
    let config = Config::load_from(&Args::default(), &root_with(&[])).unwrap();
    assert_eq!(config.socket, Path::new("/run/leafd/leafd.sock"));
    assert_eq!(config.state_dir, Path::new("/var/lib/leafd"));
    assert_eq!(config.routing.stores[0].url, StoreUrl::Sqlite("/var/lib/leafd/store.db".into()));
    assert_eq!(config.socket_mode, 0o660);
    assert_eq!(config.autonomy, Duration::from_secs(600));
    assert_eq!(config.max_step, 10_000_000);
    assert_eq!((config.connections_max, config.waiters_max), (4096, 10_000));
    assert_eq!(config.worker, WorkerSpec::None);
    assert!(config.polling && config.socket_group.is_none() && config.identity.is_none());
    assert_eq!(config.layouts.get("snowflake"), Some(&leafd_wire::Layout::LEAF));
}

#[test]
fn every_setting_takes_effect_once_and_in_order() {
    let config = Config::load_from(&Args::default(), &root_with(&[])).unwrap();
    let effective: Vec<&str> = config.effective.iter().map(|one| one.key).collect();
    let table: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
    assert_eq!(effective, table);
}

#[test]
fn what_is_shown_can_be_loaded_again() {
    let args = set(&["worker=static:3", "admin_uids=[5]", "autonomy=90s", "polling=false"]);
    let first = Config::load_from(&args, &root_with(&[])).unwrap();
    let again = from_text(&first.render()).unwrap();
    assert_eq!(again.autonomy, Duration::from_secs(90));
    assert_eq!(again.worker, first.worker);
    assert!(!again.polling);
    let values = |config: &Config| -> Vec<Option<String>> {
        config.effective.iter().map(|one| one.value.clone()).collect()
    };
    assert_eq!(values(&again), values(&first));
}

#[test]
fn argument_beats_environment_beats_file_beats_default() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("leafd.toml");
    std::fs::write(&file, "socket = '/file'\nstate_dir = '/file'\nidentity = 'file'\n").unwrap();
    let around = root_with(&[
        ("LEAFD_CONFIG", file.to_str().unwrap()),
        ("LEAFD_SOCKET", "/variable"),
        ("LEAFD_STATE_DIR", "/variable"),
    ]);
    let args = Args { socket: Some("/argument".into()), ..Args::default() };
    let config = Config::load_from(&args, &around).unwrap();
    assert_eq!(config.socket, Path::new("/argument"));
    assert_eq!(config.state_dir, Path::new("/variable"));
    assert_eq!(config.identity.as_deref(), Some("file"));
    let shown = config.render();
    assert!(shown.contains("socket = \"/argument\"  # argument --socket"), "{shown}");
    assert!(shown.contains("# environment variable LEAFD_STATE_DIR"), "{shown}");
    assert!(shown.contains("leafd.toml, line 3"), "{shown}");
    assert!(shown.contains("autonomy = \"10m\"  # default"), "{shown}");
}

#[test]
fn paths_follow_systemd_then_the_user() {
    let paths = |around: &Surroundings| {
        let config = Config::load_from(&Args::default(), around).unwrap();
        (config.socket.display().to_string(), config.state_dir.display().to_string())
    };
    let home = ("HOME", "/home/ann");
    let is = |socket: &str, state: &str| (socket.to_owned(), state.to_owned());
    assert_eq!(
        paths(&user_with(&[home, ("XDG_RUNTIME_DIR", "/run/user/1000")])),
        is("/run/user/1000/leafd/leafd.sock", "/home/ann/.local/state/leafd")
    );
    assert_eq!(
        paths(&user_with(&[home, ("XDG_RUNTIME_DIR", "relative"), ("XDG_STATE_HOME", "/s")])),
        is("/s/leafd/leafd.sock", "/s/leafd")
    );
    let units = [("RUNTIME_DIRECTORY", "/run/a:/run/b"), ("STATE_DIRECTORY", "/var/lib/a")];
    assert_eq!(paths(&user_with(&units)), is("/run/a/leafd.sock", "/var/lib/a"));
    assert_eq!(paths(&root_with(&units)), is("/run/a/leafd.sock", "/var/lib/a"));
    let error = Config::load_from(&Args::default(), &user_with(&[])).unwrap_err().to_string();
    assert!(error.contains("HOME") && error.contains("LEAFD_SOCKET"), "{error}");
}

#[test]
fn bad_files_are_refused_with_place_key_value_and_range() {
    check("autonmy = '10m'", &["leafd.toml, line 1", "\"autonmy\"", "autonomy"]);
    check("\n\nautonomy = 600", &["line 3", "autonomy can't be 600", "1s to 24h"]);
    check("autonomy = '25h'", &["\"25h\"", "1s to 24h"]);
    check("autonomy = '10 m'", &["\"10 m\""]);
    check("autonomy = '99999999999999999999h'", &["99999999999999999999h"]);
    check("mark_ahead = '61s'", &["1s to 1m"]);
    check("max_drift = '2h'", &["0s to 1h"]);
    check("removed_tag_check = '5m'", &["1s to 1m"]);
    check("stop_within = '1ms'", &["100ms to 5m"]);
    check("max_step = 0", &["max_step can't be 0", "1 to 2147483647"]);
    check("max_step = -5", &["-5"]);
    check("max_step = 2147483648", &["2147483648"]);
    check("max_step = 1e6", &["1e6"]);
    check("max_step = '5'", &["\"5\""]);
    check("max_step = 99999999999999999999", &["max_step"]);
    check("connections_max = true", &["true", "1 to 65536"]);
    check("polling = 'yes'", &["\"yes\"", "true or false"]);
    check("polling = 1", &["true or false"]);
    check("socket = ''", &["107 bytes"]);
    check(&format!("socket = '/{}'", "x".repeat(107)), &["107 bytes"]);
    check("socket = \"/a\\u0000b\"", &["107 bytes"]);
    check("socket_mode = 0o660", &["432", "in quotes"]);
    check("socket_mode = '0060'", &["0060"]);
    check("socket_mode = '1777'", &["1777"]);
    check("socket_group = 'no-such-group-here'", &["no-such-group-here", "group of this host"]);
    check("state_dir = 7", &["state_dir can't be 7"]);
    check("worker = 'static'", &["static:N"]);
    check("worker = 'static:-1'", &["static:N"]);
    check("worker = 'static:1024'", &["static:0 to static:1023", "snowflake"]);
    check("identity = ''", &["1 to 128"]);
    check("log = 'inof'", &["inof", "trace"]);
    check("log = 'leafd=loud'", &["leafd=loud"]);
    check("log_format = 'xml'", &["xml", "json"]);
    check("admin_uids = 5", &["[0, 1000]"]);
    check("admin_uids = [5, 'ann']", &["admin_uids[1] can't be \"ann\"", "4294967294"]);
    check("admin_uids = [4294967295]", &["4294967294"]);
    check("socket = '/a'\nsocket = '/b'", &["line 2", "duplicate key"]);
    check("socket = ", &["line 1", "not TOML"]);
}

#[test]
fn bad_stores_are_refused() {
    check("store = 'postgres://h/db'", &["postgres://(not shown)", "USER@HOST"]);
    check("store = 'mysql://a:b@h/db'", &["LEAFD_STORE_PASSWORD"]);
    check("store = 'oracle:x'", &["sqlite:PATH"]);
    check("store = 'sqlite:'", &["path of a file"]);
    check("store = 'sqlite:/a/'", &["path of a file"]);
    check("store = 'sqlite:a?mode=ro'", &["without parameters"]);
    check("store = 'sqlite::memory:'", &["memory"]);
    check("store = 'sqlite://a/b'", &["ABSOLUTE"]);
    let store = from_text("store = 'sqlite:///a/b'").unwrap().routing.stores[0].url.clone();
    assert_eq!(store, StoreUrl::Sqlite("/a/b".into()));
}

#[test]
fn the_store_s_password_comes_from_file_credential_or_variable() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("store_password"), "credential\n").unwrap();
    std::fs::write(path("file"), "file\r\n").unwrap();
    let variable = ("LEAFD_STORE_PASSWORD", "hunter2");
    let credentials = dir.path().to_str().unwrap();
    let load = |args: &[&str], variables: &[(&str, &str)]| {
        let config = Config::load_from(&set(args), &root_with(variables)).unwrap();
        assert!(!format!("{config:?}{}", config.render()).contains("hunter2"));
        config.routing.stores[0].password.read()
    };
    assert_eq!(load(&[], &[]), Ok(None));
    assert_eq!(load(&[], &[variable]).unwrap().as_deref(), Some("hunter2"));
    let both = [variable, ("CREDENTIALS_DIRECTORY", credentials)];
    assert_eq!(load(&[], &both).unwrap().as_deref(), Some("credential"));
    let named = format!("store_password_file={}", path("file"));
    assert_eq!(load(&[&named], &both).unwrap().as_deref(), Some("file"));
    let missing = load(&["store_password_file=/nonexistent/x"], &both).unwrap_err();
    assert!(missing.contains("/nonexistent/x"), "{missing}");
}

#[test]
fn passwords_are_not_shown() {
    for given in [
        "store = 'postgres://ann:hunter2@h/db'",
        "store = 'postgres://ann:hun/hunter2@h@h/db?sslpassword=hunter2'",
        "store = 'ann:hunter2@h/db'",
        "store = ['mysql://ann:hunter2@h']",
        "stroe = 'mysql://ann:hunter2@h'",
        "identity = ['host=a password=hunter2']",
        "store = 'mysql://ann:hunter2@h",
        "[access]\nurl = 'mysql://ann:hunter2@h'",
    ] {
        let error = error_of(given);
        assert!(!error.contains("hunter2"), "{given} gave {error}");
    }
    for around in [
        root_with(&[("LEAFD_STORE", "postgres://ann:hunter2@h/db")]),
        root_with(&[("LEAFD_STROE", "postgres://ann:hunter2@h/db")]),
        root_with(&[("LEAFD_ACCESS", "mysql://ann:hunter2@h")]),
    ] {
        let error = Config::load_from(&Args::default(), &around).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn environment_takes_text_and_toml() {
    let around = root_with(&[
        ("LEAFD_MAX_STEP", "20_000"),
        ("LEAFD_POLLING", "false"),
        ("LEAFD_ADMIN_UIDS", "[7, 1000]"),
        ("LEAFD_ACCESS", "[{tags = ['a*'], gids = [4]}]"),
        (
            "LEAFD_LAYOUTS",
            "{mini = {time_bits = 30, worker_bits = 2, sequence_bits = 8, unit = '1s', epoch = 0}}",
        ),
        ("LEAFD_SERVICE_HOST", "10.0.0.1"),
        ("LEAFD_SERVICE_PORT_HTTP", "80"),
        ("LEAFD_PORT", "tcp://10.0.0.1:80"),
        ("LEAFD_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("LEAFD_EU_SERVICE_HOST", "10.0.0.2"),
        ("UNRELATED", "x"),
    ]);
    let config = Config::load_from(&Args::default(), &around).unwrap();
    assert_eq!(config.max_step, 20_000);
    assert!(!config.polling);
    assert!(config.access.may_administer(&Peer { uid: 1000, gids: vec![] }));
    assert_eq!(config.layouts.worker_max(), (3, "mini"));
    let refused = |name: &str, value: &str| {
        let around = root_with(&[(name, value)]);
        Config::load_from(&Args::default(), &around).unwrap_err().to_string()
    };
    assert!(refused("LEAFD_SOKCET", "/x").contains("environment variable LEAFD_SOKCET"));
    assert!(
        refused("LEAFD_MAX_STEP", "many").contains("LEAFD_MAX_STEP: max_step can't be \"many\"")
    );
    assert!(refused("LEAFD_ADMIN_UIDS", "0, 1").contains("such as [0, 1000]"));
    assert!(refused("LEAFD_ADMIN_UIDS", "[0]\nx = 1").contains("such as [0, 1000]"));
    assert!(
        refused("LEAFD_CONFIG", "/nonexistent/x.toml")
            .contains("environment variable LEAFD_CONFIG")
    );
}

#[test]
fn arguments_by_key() {
    let load = |args: Args| Config::load_from(&args, &root_with(&[]));
    assert_eq!(load(set(&["mark_ahead=2s"])).unwrap().mark_ahead, Duration::from_secs(2));
    let error = load(set(&["mark_ahead"])).unwrap_err().to_string();
    assert!(error.contains("KEY=VALUE"), "{error}");
    let error = load(set(&["mark=2s"])).unwrap_err().to_string();
    assert!(error.contains("argument --set: there is no setting \"mark\""), "{error}");
    let twice = Args { store: Some("sqlite:a".into()), ..set(&["store=sqlite:b"]) };
    let error = load(twice).unwrap_err().to_string();
    assert!(error.contains("given twice, also as argument --store"), "{error}");
}

#[test]
fn files_that_are_not_files_are_refused() {
    for path in ["/nonexistent/leafd.toml", "/dev/zero", "/"] {
        let args = Args { config: Some(path.into()), ..Args::default() };
        let error = Config::load_from(&args, &root_with(&[])).unwrap_err().to_string();
        assert!(error.contains(path) && error.contains("argument --config"), "{error}");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.toml");
    std::fs::write(&file, b"socket = '\xff'").unwrap();
    let args = Args { config: Some(file), ..Args::default() };
    assert!(Config::load_from(&args, &root_with(&[])).unwrap_err().to_string().contains("UTF-8"));
}

#[test]
fn access_rules_decide() {
    let config = from_text(
        "admin_gids = [27]\n\
         [[access]]\ntags = ['orders', 'pay.*']\nuids = [1000]\n\
         [[access]]\ntags = ['pay.eu.*']\ngids = [50]\n\
         [[access]]\ntags = ['closed']\nuids = []\n",
    )
    .unwrap();
    let peer = |uid: u32, gids: &[u32]| Peer { uid, gids: gids.to_vec() };
    let cases = [
        ("free", peer(5, &[]), true),
        ("orders", peer(1000, &[]), true),
        ("orders", peer(5, &[]), false),
        ("orders2", peer(5, &[]), true),
        ("Orders", peer(5, &[]), true),
        ("pay.", peer(5, &[]), false),
        ("pay", peer(5, &[]), true),
        ("pay.us.1", peer(5, &[50]), false),
        ("pay.eu.1", peer(5, &[4, 50]), true),
        ("pay.eu.1", peer(1000, &[]), true),
        ("closed", peer(1000, &[50]), false),
        ("closed", peer(0, &[]), true),
    ];
    for (tag, peer, may) in cases {
        assert_eq!(config.access.may_draw(tag, &peer), may, "{tag} by {peer:?}");
    }
    assert!(config.access.may_administer(&peer(5, &[27])));
    assert!(!config.access.may_administer(&peer(1000, &[])));
}

#[test]
fn the_daemons_own_user_is_trusted() {
    let around = Surroundings { uid: 42, ..root_with(&[("HOME", "/h")]) };
    let args = set(&["access=[{tags = ['*'], uids = []}]"]);
    let config = Config::load_from(&args, &around).unwrap();
    let own = Peer { uid: 42, gids: vec![] };
    assert!(config.access.may_draw("x", &own) && config.access.may_administer(&own));
    assert!(!config.access.may_draw("x", &Peer { uid: 43, gids: vec![] }));
}

#[test]
fn bad_access_rules_are_refused() {
    check("access = 1", &["access can't be 1"]);
    check("[[access]]\nuids = [1]", &["access[0]", "with tags"]);
    check("[[access]]\ntags = ['a']", &["access[0]", "at least one of uids and gids"]);
    check("[[access]]\ntags = []\nuids = []", &["access[0].tags can't be []", "line 2"]);
    check("[[access]]\ntags = ['a', 'b*c']\nuids = []", &["access[0].tags[1] can't be \"b*c\""]);
    check("[[access]]\ntags = ['']\nuids = []", &["access[0].tags[0]"]);
    check("[[access]]\ntags = ['a']\nuids = [-1]", &["access[0].uids[0] can't be -1", "line 3"]);
    check("[[access]]\ntags = ['a']\nusers = [1]", &["access[0].users", "tags, uids, gids"]);
}

#[test]
fn bad_layouts_are_refused() {
    let layout = |rest: &str| {
        format!("[layouts.x]\ntime_bits = 41\nworker_bits = 10\nsequence_bits = 12\n{rest}")
    };
    check(&layout(""), &["layouts.x", "epoch"]);
    check(&layout("epoch = -1"), &["layouts.x.epoch can't be -1", "line 5"]);
    check(&layout("epoch = 'yesterday'"), &["layouts.x.epoch"]);
    check(&layout("epoch = '2025-01-01T00:00:00.0001Z'"), &["whole milliseconds"]);
    check(&layout("epoch = '2025-01-01'"), &["layouts.x.epoch"]);
    check(&layout("epoch = 0\nunit = '0ms'"), &["layouts.x.unit can't be \"0ms\""]);
    check(&layout("epoch = 0\nunit = '2h'"), &["\"1ms\" to \"1h\""]);
    check(&layout("epoch = 0\nbits = 3"), &["layouts.x.bits", "only the keys"]);
    check(&layout("epoch = 9223372036854775807"), &["layouts.x"]);
    let sized = |time: i64, worker: i64, sequence: i64| {
        format!(
            "[layouts.x]\ntime_bits = {time}\nworker_bits = {worker}\nsequence_bits = {sequence}\nepoch = 0"
        )
    };
    check(&sized(42, 10, 12), &["more than 63 bits"]);
    check(&sized(0, 10, 12), &["at least one bit"]);
    check(&sized(300, 10, 12), &["layouts.x.time_bits can't be 300", "0 to 63"]);
    check("[layouts.'']\n", &["at least one character"]);
    check("layouts = 5", &["layouts can't be 5"]);
    check("[layouts]\nx = 5", &["layouts.x can't be 5"]);
    check(&format!("worker = 'static:8'\n{}", sized(41, 3, 12)), &["static:7", "\"x\""]);
    let dated = layout("epoch = 2025-01-01T00:00:00Z");
    assert_eq!(from_text(&dated).unwrap().layouts.get("x").unwrap().epoch_ms, 1_735_689_600_000);
}

#[test]
fn the_shipped_example_is_the_defaults_and_names_every_setting() {
    let shipped = include_str!("../../../systemd/leafd.toml");
    let plain = Config::load_from(&Args::default(), &root_with(&[])).unwrap();
    let values = |config: &Config| -> Vec<Option<String>> {
        config.effective.iter().map(|one| one.value.clone()).collect()
    };
    assert_eq!(values(&from_text(shipped).unwrap()), values(&plain));

    // Prose has a space after its #, a setting has none.
    let in_force = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.starts_with(' ') => rest.to_owned(),
        _ => line.to_owned(),
    };
    let all: Vec<String> = shipped.lines().map(in_force).collect();
    let all = all.join("\n").replace("socket_group = \"leafd\"", "socket_group = \"0\"");
    let config = from_text(&all).unwrap();
    for (shown, default) in config.effective.iter().zip(&plain.effective) {
        assert!(matches!(shown.source, Source::File { .. }), "{} is not named", shown.key);
        let example = ["socket_group", "store_password_file", "identity", "access", "layouts"]
            .contains(&shown.key);
        let plain_text =
            |value: &Option<String>| value.as_deref().map(|text| text.replace('_', ""));
        assert!(
            example || plain_text(&shown.value) == plain_text(&default.value),
            "{} is shown as {:?}, its default is {:?}",
            shown.key,
            shown.value,
            default.value
        );
    }
    let js53 = config.layouts.get("js53").unwrap();
    let largest = leafd_wire::Parts {
        tick: js53.tick_max(),
        worker: js53.worker_max(),
        sequence: js53.sequence_max(),
    };
    assert_eq!(js53.compose(largest), (1 << 53) - 1);
}

#[test]
fn the_listing_has_every_setting() {
    for setting in SETTINGS {
        let row = format!("| `{}` |", setting.key);
        assert!(settings_markdown().contains(&row));
        assert!(settings_help().contains(&setting.variable()));
    }
}

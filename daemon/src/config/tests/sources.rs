//! Which values were given where: file, environment and arguments.

use std::path::Path;

use super::*;

#[test]
fn argument_beats_environment_beats_file_beats_default() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("leafd.toml");
    std::fs::write(&file, "socket = '/file'\nstate_dir = '/file'\nidentity = 'file'\n").unwrap();
    let env = root_with(&[
        ("LEAFD_CONFIG", file.to_str().unwrap()),
        ("LEAFD_SOCKET", "/variable"),
        ("LEAFD_STATE_DIR", "/variable"),
    ]);
    let args = Args { socket: Some("/argument".into()), ..Args::default() };
    let config = Config::load_from(&args, &env).unwrap();
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
fn quotes_as_in_a_file_are_taken_off_outside_of_one() {
    let args = Args { set: vec!["worker=\"static:5\"".to_owned()], ..Args::default() };
    let quoted = Config::load_from(&args, &root_with(&[("LEAFD_AUTONOMY", "\"2m\"")])).unwrap();
    let args = Args { set: vec!["worker=static:5".to_owned()], ..Args::default() };
    let bare = Config::load_from(&args, &root_with(&[("LEAFD_AUTONOMY", "2m")])).unwrap();
    assert_eq!((quoted.worker, quoted.autonomy), (bare.worker, bare.autonomy));
    for odd in ["\"2m", "\"", "\"2\"m\""] {
        let odd = root_with(&[("LEAFD_AUTONOMY", odd)]);
        Config::load_from(&Args::default(), &odd).unwrap_err();
    }
}

#[test]
fn paths_follow_systemd_then_the_user() {
    let paths = |env: &Env| {
        let config = Config::load_from(&Args::default(), env).unwrap();
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
fn environment_takes_text_and_toml() {
    let env = root_with(&[
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
    let config = Config::load_from(&Args::default(), &env).unwrap();
    assert_eq!(config.max_step, 20_000);
    assert!(!config.polling);
    assert!(config.access.may_administer(&Peer { uid: 1000, gids: vec![], is_outside: false }));
    assert_eq!(config.layouts.worker_max(), (3, "mini"));
    let refused = |name: &str, value: &str| {
        let env = root_with(&[(name, value)]);
        Config::load_from(&Args::default(), &env).unwrap_err().to_string()
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
    assert!(error.contains("set twice, also by argument --store"), "{error}");
}

#[test]
fn a_misspelt_setting_is_answered_by_the_one_that_was_meant() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("leafd.toml");
    let error = |args: &Args, env: &[(&str, &str)]| {
        Config::load_from(args, &root_with(env)).unwrap_err().to_string()
    };
    for (misspelt, meant) in
        [("autonmy", "autonomy"), ("max-step", "max_step"), ("Store", "store"), ("stor", "store")]
    {
        let expected = format!("there is no setting {misspelt:?}; did you mean {meant}? allowed: ");
        let said = error(&set(&[&format!("{misspelt}=1")]), &[]);
        assert!(said.contains(&expected), "{said}");
        std::fs::write(&file, format!("{misspelt} = 1\n")).unwrap();
        let said = error(&Args { config: Some(file.clone()), ..Args::default() }, &[]);
        assert!(said.contains(&expected), "{said}");
    }
    let said = error(&Args::default(), &[("LEAFD_SOKCET", "/x")]);
    assert!(said.contains("did you mean LEAFD_SOCKET?"), "{said}");
    let said = error(&Args::default(), &[("LEAFD_STORE_PASSWORDS", "x")]);
    assert!(said.contains("did you mean LEAFD_STORE_PASSWORD?"), "{said}");
    let said = error(&set(&["colour=1"]), &[]);
    assert!(said.contains("there is no setting \"colour\"; allowed: "), "{said}");
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

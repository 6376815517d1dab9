//! Stores: their URLs, names and passwords, and that no password is ever shown.

use super::*;

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
    let store = from_text("store = 'sqlite:///a/b'").unwrap().routing.stores()[0].url.clone();
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
        config.routing.stores()[0].password.read()
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
        "stores = {a = 'ann:hunter2@h/db'}",
        "stores = {a = {url = 'ann:hunter2@h/db'}}",
        "stores = {a = ['ann:hunter2@h/db']}",
        "stores = ['ann:hunter2@h/db']",
        "stores = {a = {urls = 'ann:hunter2@h/db'}}",
        "stores = {A = 'postgres://ann:hunter2@h/db'}",
        "stroe = 'mysql://ann:hunter2@h'",
        "identity = ['host=a password=hunter2']",
        "store = 'mysql://ann:hunter2@h",
        "[access]\nurl = 'mysql://ann:hunter2@h'",
    ] {
        let error = error_of(given);
        assert!(!error.contains("hunter2"), "{given} gave {error}");
    }
    for env in [
        root_with(&[("LEAFD_STORE", "postgres://ann:hunter2@h/db")]),
        root_with(&[("LEAFD_STROE", "postgres://ann:hunter2@h/db")]),
        root_with(&[("LEAFD_ACCESS", "mysql://ann:hunter2@h")]),
    ] {
        let error = Config::load_from(&Args::default(), &env).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn stores_by_name() {
    let config = from_text(
        "store_connect_timeout = '1s'\n\
         routes = [{tags = ['*'], hash = ['b', 'a-1']}]\n\
         [stores]\nb = 'postgres://u@h/d'\na-1 = {url = 'mysql://u@h/d'}\n",
    )
    .unwrap();
    let names: Vec<&str> = config.routing.stores().iter().map(|store| &*store.name).collect();
    assert_eq!(names, ["a-1", "b"]);
    assert_eq!(config.routing.stores()[1].url.to_string(), "postgres://u@h/d");
    let effective = |key: &str| config.effective.iter().find(|one| one.key == key).unwrap();
    assert_eq!(effective("store").value, None);
    let one = from_text("stores = {only = 'sqlite:/x/y'}").unwrap();
    assert_eq!(one.routing.stores()[0].url, StoreUrl::Sqlite("/x/y".into()));
    assert!(one.routing.is_sole());
    let sole = from_text("").unwrap();
    assert_eq!(sole.routing.stores().len(), 1);
    assert_eq!(
        (&*sole.routing.stores()[0].name, &sole.routing.stores()[0].url),
        ("", &StoreUrl::Sqlite("/var/lib/leafd/store.db".into()))
    );
}

#[test]
fn bad_tables_of_stores_are_refused() {
    let named = |rest: &str| format!("[stores]\n{rest}");
    check("stores = 'postgres://u@h/d'", &["stores can't be", "by name"]);
    check("stores = {}", &["stores can't be", "1 to 256"]);
    check(&named("a = 5"), &["line 2", "stores.a can't be 5", "{url, password_file}"]);
    check(&named("a = {}"), &["stores.a can't be", "{url, password_file}"]);
    check(&named("a = {url = 'x:y'}"), &["stores.a.url can't be", "postgres://USER@HOST"]);
    check(&named("a = 'postgres://h/d'"), &["stores.a can't be \"postgres://(not shown)\""]);
    let extra = "a = {url = 'mysql://u@h/d', password = 'hunter2'}";
    check(&named(extra), &["stores.a.password can't be", "url, password_file"]);
    assert!(!error_of(&named(extra)).contains("hunter2"));
    let file = "a = {url = 'mysql://u@h/d', password_file = 7}";
    check(&named(file), &["stores.a.password_file can't be 7", "contains only the password"]);
    for name in ["A", "a b", "a_b", "", "ä", &"x".repeat(33)] {
        let text = named(&format!("'{name}' = 'mysql://u@h/d'"));
        check(&text, &["1 to 32 characters of a-z, 0-9 and -"]);
    }
    check(&named("file = 'mysql://u@h/d'"), &["stores.file", "LEAFD_STORE_PASSWORD_FILE"]);
    let two = "a = 'mysql://u@h/d'\nb = 'mysql://u@h2/d'";
    check(&named(two), &["stores can't be 2 stores without routes"]);
    let all =
        |list: &str| format!("routes = [{{tags = ['*'], hash = ['a', 'b']}}]\n{}", named(list));
    let same = all("a = 'mysql://u@h/d'\nb = 'mysql://u@h/d?sslmode=require'");
    check(&same, &["line 4", "stores.b can't be", "a is already this store"]);
    check(&all("a = 'sqlite:/a'\nb = 'mysql://u@h/d'"), &["stores.a", "serves only one host"]);
    let many: String = (0..257).map(|i| format!("s{i} = 'mysql://u@h{i}/d'\n")).collect();
    check(&named(&many), &["1 to 256"]);
}

#[test]
fn one_store_or_several_but_not_both() {
    let stores = "[stores]\na = 'mysql://u@h/d'";
    let text = format!("store = 'sqlite:x'\n{stores}");
    check(&text, &["line 1", "store can't be set together with stores", "line 2"]);
    check(&format!("store_password_file = '/x'\n{stores}"), &["store_password_file can't be set"]);
    let args = Args { store: Some("sqlite:x".into()), ..set(&["stores={a = 'mysql://u@h/d'}"]) };
    let error = Config::load_from(&args, &root_with(&[])).unwrap_err().to_string();
    assert!(error.contains("argument --store") && error.contains("argument --set"), "{error}");
}

#[test]
fn each_store_has_its_own_password() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("store_password_a-1"), "from a credential").unwrap();
    std::fs::write(path("store_password"), "of the sole store").unwrap();
    std::fs::write(path("file"), "from a file").unwrap();
    let stores = format!(
        "stores={{a-1 = 'mysql://u@a/d', b-2 = 'mysql://u@b/d', \
         c = {{url = 'mysql://u@c/d', password_file = '{}'}}, d = 'mysql://u@d/d'}}",
        path("file")
    );
    let args = set(&[&stores, "routes=[{tags = ['*'], hash = ['a-1', 'b-2', 'c', 'd']}]"]);
    let credentials = dir.path().to_str().unwrap();
    let variables = [
        ("CREDENTIALS_DIRECTORY", credentials),
        ("LEAFD_STORE_PASSWORD_A_1", "hunter1"),
        ("LEAFD_STORE_PASSWORD_B_2", "hunter2"),
        ("LEAFD_STORE_PASSWORD_C", "hunter3"),
    ];
    let config = Config::load_from(&args, &root_with(&variables)).unwrap();
    let read: Vec<Option<String>> =
        config.routing.stores().iter().map(|store| store.password.read().unwrap()).collect();
    let read: Vec<Option<&str>> = read.iter().map(Option::as_deref).collect();
    assert_eq!(read, [Some("from a credential"), Some("hunter2"), Some("from a file"), None]);
    let shown = format!("{config:?}{}", config.render());
    assert!(!shown.contains("hunter"), "{shown}");
    assert!(shown.contains("# store b-2 is mysql://u@b/d, password in the environment"), "{shown}");

    // Misspelt: they name no store and have no valid form.
    let refused = |args: &Args, name: &str| {
        let env = root_with(&[(name, "hunter2")]);
        let error = Config::load_from(args, &env).unwrap_err().to_string();
        assert!(error.contains(name) && !error.contains("hunter2"), "{error}");
        error
    };
    let error = refused(&args, "LEAFD_STORE_PASSWORD_E");
    assert!(error.contains("LEAFD_STORE_PASSWORD_A_1, LEAFD_STORE_PASSWORD_B_2"), "{error}");
    refused(&args, "LEAFD_STORE_PASSWORDS");
    refused(&Args::default(), "LEAFD_STORE_PASSWORDS");
    refused(&Args::default(), "LEAFD_STORE_PASSWORD_");

    // Variables of the other form, from before or for later: the environment may stay the same while stores
    // come and go.
    let accepted = |args: &Args, name: &str| {
        let config = Config::load_from(args, &root_with(&[(name, "hunter2")])).unwrap();
        let mut passwords = config.routing.stores().iter().map(|store| store.password.read());
        assert!(passwords.all(|read| read != Ok(Some("hunter2".to_owned()))));
    };
    accepted(&args, "LEAFD_STORE_PASSWORD");
    accepted(&Args::default(), "LEAFD_STORE_PASSWORD_E");
}

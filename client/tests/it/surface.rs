//! Tests the calls that don't draw ids.

use std::sync::atomic::Ordering;
use std::time::Duration;

use leafd_client::{Client, Layout, Tag, decode};

use crate::checks::{check_unique, client};
use crate::server::Server;

#[test]
fn connect_is_eager_and_build_is_lazy() {
    let server = Server::start();
    let made = || server.shared().connections_made.load(Ordering::SeqCst);
    let lazy = client(&server);
    assert_eq!(made(), 0);
    let eager = Client::connect(server.path()).unwrap();
    assert_eq!(made(), 1);
    check_unique([lazy.next("orders").unwrap(), eager.next("orders").unwrap()]);
    assert_eq!(made(), 2);
    assert_eq!(eager.socket_path(), server.path());
}

#[test]
fn info_layout_and_status_are_told() {
    let server = Server::start();
    let client = client(&server);
    assert_eq!(client.info().unwrap().release, "test");
    assert_eq!(client.layout("snowflake").unwrap(), Layout::LEAF);
    let error = client.layout("other").unwrap_err().to_string();
    assert!(error.contains("\"other\"") && error.contains("snowflake"), "{error}");
    assert_eq!(client.status_json().unwrap(), "{\"fine\":true}");
    assert_eq!(decode(7 << 12, &Layout::LEAF).unwrap().parts.worker, 7);
    assert!(decode(u64::MAX, &Layout::LEAF).is_err());
}

#[test]
fn handles_and_names_share_a_run() {
    let server = Server::start();
    let client = client(&server);
    let tag = client.tag("orders").unwrap();
    assert_eq!(tag.name(), "orders");
    let mut ids = vec![tag.next().unwrap(), client.next("orders").unwrap()];
    assert_eq!(ids[0] + 1, ids[1]);
    ids.push(tag.clone().direct().next().unwrap());
    ids.extend(tag.next_batch(10).unwrap());
    ids.extend(tag.clone().within(Duration::from_secs(1)).next_batch(10).unwrap());
    ids.push(tag.clone().within(Duration::from_secs(1)).next().unwrap());
    ids.push(client.within(Duration::from_secs(1)).next("orders").unwrap());
    drop(client);
    ids.push(tag.next().unwrap());
    assert_eq!(check_unique(ids), 26);
}

#[test]
fn everything_can_be_shared_between_threads() {
    fn check<T: Clone + Send + Sync + 'static>() {}
    check::<Client>();
    check::<Tag>();
}

#[test]
fn a_client_uses_tags_up_to_its_limit() {
    let server = Server::start();
    let client = client(&server);
    for number in 0..leafd_client::TAGS_MAX {
        client.tag(&format!("tag-{number}")).unwrap();
    }
    assert!(client.tag("one-more").is_err());
    check_unique([client.next("tag-0").unwrap(), client.next("tag-65535").unwrap()]);
}

/// The modules that a source file imports, except in its tests.
fn imports(source: &str) -> impl Iterator<Item = &str> {
    let code = source.split("#[cfg(all(test").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| {
        line.split("crate::").skip(1).filter_map(|path| {
            path.split(|one: char| !one.is_ascii_lowercase() && one != '_').next()
        })
    })
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut left: std::collections::BTreeMap<String, String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .filter(|(name, _)| name != "lib")
        .collect();
    assert!(left.len() > 20);
    // Repeatedly removes the modules that import none of the remaining ones.
    loop {
        let names: Vec<String> = left.keys().cloned().collect();
        let others =
            |name: &str, import: &str| import != name && names.iter().any(|one| one == import);
        let before = left.len();
        left.retain(|name, source| imports(source).any(|import| others(name, import)));
        if left.len() == before {
            break;
        }
    }
    let circle: Vec<&String> = left.keys().collect();
    assert!(circle.is_empty(), "{circle:?} import each other in a circle");
}

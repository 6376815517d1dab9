//! Texts about the settings elsewhere match the settings.

use super::documents::{settings_file, settings_markdown};
use super::*;

#[test]
fn the_shipped_example_is_the_defaults_and_names_every_setting() {
    let shipped = include_str!("../../../../systemd/leafd.toml");
    let plain = Config::load_from(&Args::default(), &root_with(&[])).unwrap();
    let values = |config: &Config| -> Vec<Option<String>> {
        config.effective.iter().map(|one| one.value.clone()).collect()
    };
    assert_eq!(values(&from_text(shipped).unwrap()), values(&plain));

    // Prose has a space after its #; a setting has none.
    let in_force = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.starts_with(' ') => rest.to_owned(),
        _ => line.to_owned(),
    };
    // The last part excludes `store` and its password.
    let (one, _) = shipped.split_once("# --- Several stores").unwrap();
    let load = |text: &str, without: &[&str]| {
        let lines = text.lines().map(in_force);
        let lines = lines.filter(|line| !without.iter().any(|start| line.starts_with(start)));
        let all = lines.collect::<Vec<String>>().join("\n");
        from_text(&all.replace("socket_group = \"leafd\"", "socket_group = \"0\"")).unwrap()
    };
    let config = load(one, &[]);
    let several = load(shipped, &["store = \"sqlite", "store_password_file", "worker = \""]);
    assert!(several.routing.stores().len() > 1);
    let shown = config.effective.iter().zip(&several.effective);
    for ((one, several), default) in shown.zip(&plain.effective) {
        let shown = if ["stores", "routes"].contains(&one.key) { several } else { one };
        assert!(matches!(shown.source, Source::File { .. }), "{} is not named", shown.key);
        let examples = [
            "socket_group",
            "store_password_file",
            "mask_key_file",
            "stores",
            "routes",
            "identity",
            "http",
            "leaf_http",
            "leaf_http_token_file",
            "leaf_http_requests_per_second",
            "worker_range",
            "zookeeper",
            "zookeeper_auth_file",
            "leaf_name",
            "workers",
            "access",
            "layouts",
        ];
        let example = examples.contains(&shown.key);
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
    assert_eq!(*js53, leafd_wire::Layout::JS53);
    let largest = leafd_wire::Parts {
        tick: js53.tick_max(),
        worker: js53.worker_max(),
        sequence: js53.sequence_max(),
    };
    assert_eq!(js53.compose(largest), (1 << 53) - 1);
}

/// Files of the repository that are made from the table of settings. After a change of the table
/// run `LEAFD_WRITE_SETTINGS=1 cargo test -p leafd --lib shipped`.
#[test]
fn the_documents_of_the_settings_are_fresh() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (name, made) in [
        ("docs/reference/settings.md", settings_markdown()),
        ("systemd/leafd.toml", settings_file()),
    ] {
        let file = root.join(name);
        if std::env::var_os("LEAFD_WRITE_SETTINGS").is_some() {
            std::fs::write(&file, &made).unwrap();
        }
        let committed = std::fs::read_to_string(&file).unwrap();
        assert!(committed == made, "{name} is stale: run this test with LEAFD_WRITE_SETTINGS=1");
    }
}

#[test]
fn every_description_names_every_setting() {
    for setting in settings() {
        let heading = format!("\n### `{}`\n", setting.key);
        assert!(settings_markdown().contains(&heading), "{heading}");
        assert!(settings_help().contains(&setting.variable()));
    }
}

#[test]
fn each_setting_in_the_table_has_one_kind_and_no_unknown_key() {
    let table: toml::Table = include_str!("../settings.toml").parse().unwrap();
    let kinds = ["text", "toml", "integer", "time", "boolean"];
    let others = ["key", "help", "default", "found", "example", "reload"];
    for section in table["section"].as_array().unwrap() {
        for setting in section["setting"].as_array().unwrap() {
            let keys: Vec<&str> = setting.as_table().unwrap().keys().map(String::as_str).collect();
            let of_kind = keys.iter().filter(|key| kinds.contains(key)).count();
            let known = keys.iter().filter(|key| others.contains(key)).count();
            assert_eq!((of_kind, known), (1, keys.len() - 1), "{setting}");
            let (default, found) = (keys.contains(&"default"), keys.contains(&"found"));
            assert!(default != found || !default, "{setting}");
            assert!(default || keys.contains(&"example"), "{setting}");
        }
    }
}

#[test]
fn texts_of_settings_are_sentences() {
    for setting in settings() {
        let Setting { key, help, .. } = setting;
        assert!(help.ends_with('.') && !help.contains("  "), "{key}: {help}");
        assert_eq!(help.split('`').count() % 2, 1, "{key}: a backtick is not closed: {help}");
    }
}

#[test]
fn the_examples_of_several_stores_are_in_force_as_their_page_says() {
    let page = include_str!("../../../../docs/operate/several-stores.md");
    let (_, example) = page.split_once("```toml\n").unwrap();
    let (routed, after) = example.split_once("```").unwrap();
    let routing = from_text(routed).unwrap().routing;
    let role = routing.role(2);
    assert!(after.contains(&role), "the page does not show {role:?}");

    let (_, example) = after.split_once("```toml\n").unwrap();
    let (primaries, after) = example.split_once("```").unwrap();
    let routing = from_text(primaries).unwrap().routing;
    let role = routing.role(0);
    assert!(after.contains(&role), "the page does not show {role:?}");
}

//! Routes: where each tag belongs, what stores record about it, and which rules are refused.

use std::collections::{BTreeSet, HashMap};

use super::*;
use leafd_core::Tag;
use leafd_core::store::Shard;

/// Stores a to e, and these routes.
fn with_routes(routes: &str) -> String {
    let stores: Vec<String> =
        ["a", "b", "c", "d", "e"].map(|name| format!("{name} = 'mysql://u@{name}/d'")).into();
    format!("stores = {{{}}}\nroutes = [{routes}]", stores.join(", "))
}

fn routing(routes: &str) -> Routing {
    from_text(&with_routes(routes)).unwrap().routing
}

fn tag(name: &str) -> Tag {
    Tag::parse(name.as_bytes()).unwrap()
}

/// The name of the only store that a tag is in.
fn store_of(routing: &Routing, name: &str) -> Option<String> {
    let [store] = routing.placement(&tag(name))? else { panic!("{name} has primaries") };
    Some(routing.stores()[*store].name.to_string())
}

const ALL: &str = "{tags = ['orders', 'pay.eu', 'pay.us.*'], store = 'a'},
    {tags = ['pay.*'], store = 'b'},
    {tags = ['ticket.*', 'seat'], primaries = ['d', 'c'], era = 3},
    {tags = ['*'], hash = ['a', 'e']}";

/// A rule for all other tags, which uses every store.
const REST: &str = "{tags = ['*'], hash = ['a', 'b', 'c', 'd', 'e']}";

#[test]
fn the_first_rule_that_matches_decides() {
    let routing = routing(ALL);
    for (name, store) in [
        ("orders", "a"),
        ("pay.eu", "a"),
        ("pay.eu.1", "b"),
        ("pay.us.", "a"),
        ("pay.us.7", "a"),
        ("pay.us", "b"),
        ("pay.", "b"),
        // By the hash, which never changes.
        ("a", "e"),
        ("b", "a"),
        ("orders.1", "a"),
        ("Bestellung ä", "a"),
    ] {
        assert_eq!(store_of(&routing, name).as_deref(), Some(store), "{name}");
    }
    let seat = routing.placement(&tag("seat"));
    assert_eq!(seat, Some(&[3, 2][..]));
    assert_eq!(routing.placement(&tag("ticket.x")), seat);
}

#[test]
fn a_tag_that_no_rule_names_has_no_home() {
    let routing = routing("{tags = ['x.*', 'y'], hash = ['a', 'b', 'c', 'd', 'e']}");
    assert_eq!(routing.placement(&tag("z")), None);
    assert_eq!(routing.placement(&tag("y1")), None);
    assert!(store_of(&routing, "x.1").is_some());
}

#[test]
fn one_store_has_every_tag_and_records_nothing() {
    for routes in [
        "",
        "\nroutes = [{tags = ['*'], store = 's'}]",
        "\nroutes = [{tags = ['b', 'a*'], store = 's'}, {tags = ['*'], store = 's'}]",
    ] {
        let text = format!("stores = {{s = 'postgres://u@h/d'}}{routes}");
        let routing = from_text(&text).unwrap().routing;
        assert_eq!(routing.placement(&tag("any")), Some(&[0][..]), "{text}");
        assert_eq!((routing.role(0), routing.is_sole()), (String::new(), true), "{text}");
    }
    let unnamed = from_text("store = 'postgres://u@h/d'").unwrap().routing;
    assert_eq!(unnamed.placement(&tag("any")), Some(&[0][..]));
    assert_eq!((unnamed.role(0), unnamed.is_sole()), (String::new(), true));
    let some = "stores = {s = 'postgres://u@h/d'}\nroutes = [{tags = ['a*'], store = 's'}]";
    let routing = from_text(some).unwrap().routing;
    assert_eq!((routing.role(0), routing.is_sole()), ("store s, of: a*->s".to_owned(), false));
}

#[test]
fn roles_are_readable_and_those_of_primaries_are_read() {
    let routing = routing(ALL);
    let all =
        "orders,pay.eu,pay.us.*->a; pay.*->b; *->hash(a,e); seat,ticket.*->primaries(d,c) era 3";
    let roles: Vec<String> = (0..5).map(|store| routing.role(store)).collect();
    assert_eq!(roles[0], format!("store a, of: {all}"));
    assert_eq!(roles[2], format!("primary 1 of 2, era 3, of: {all}"));
    let place = |index| Some(PrimaryRole { shard: Shard { index, of: 2 }, era: 3 });
    let read: Vec<Option<PrimaryRole>> = roles.iter().map(|role| parse_primary(role)).collect();
    assert_eq!(read, [None, None, place(1), place(0), None]);
    for text in [
        "",
        "primary 0 of 2, era 1",
        "primary 2 of 2, era 1, of: x",
        "primary 0 of 1, era 1, of: x",
        "primary 0 of 65, era 1, of: x",
        "primary 0 of 2, era 0, of: x",
        "primary 00 of 2, era 1, of: x",
        "primary +0 of 2, era 1, of: x",
        "primary -1 of 2, era 1, of: x",
        "primary 0 of 2, era 4294967296, of: x",
        "store primary, of: primary 0 of 2, era 1, of: x",
    ] {
        assert_eq!(parse_primary(text), None, "{text}");
    }
}

#[test]
fn roles_are_the_same_for_the_same_meaning() {
    let role = |routes: &str| routing(&format!("{routes} {REST}")).role(0);
    let reference = role("{tags = ['x', 'y.*'], store = 'a'},");
    for same in [
        "{tags = ['y.*', 'x'], store = 'a'},",
        "{tags = ['y.*'], store = 'a'}, {tags = ['x'], store = 'a'},",
        "{tags = ['y.1', 'x', 'y.2*'], store = 'a'}, {tags = ['y.*'], store = 'a'},",
    ] {
        assert_eq!(role(same), reference, "{same}");
    }
    let whole = |routes: &str| routing(routes).role(0);
    let different = [
        reference.clone(),
        role(""),
        role("{tags = ['x', 'y.*'], store = 'b'},"),
        role("{tags = ['x*', 'y.*'], store = 'a'},"),
        role("{tags = ['x,y.*'], store = 'a'},"),
        role("{tags = ['x', 'y.'], store = 'a'},"),
        role("{tags = ['y.1'], store = 'b'}, {tags = ['x', 'y.*'], store = 'a'},"),
        whole(
            "{tags = ['x', 'y.*'], store = 'a'}, {tags = ['*'], hash = ['b', 'a', 'c', 'd', 'e']}",
        ),
        whole(
            "{tags = ['x', 'y.*'], store = 'a'}, {tags = ['z*'], hash = ['a', 'b', 'c', 'd', 'e']}",
        ),
        whole("{tags = ['*'], primaries = ['a', 'b', 'c', 'd', 'e'], era = 1}"),
        whole("{tags = ['*'], primaries = ['a', 'b', 'c', 'd', 'e'], era = 2}"),
        whole("{tags = ['*'], primaries = ['a', 'c', 'b', 'd', 'e'], era = 1}"),
    ];
    let distinct: BTreeSet<&String> = different.iter().collect();
    assert_eq!(distinct.len(), different.len(), "{different:#?}");
}

#[test]
fn tags_that_could_be_taken_for_something_else_are_quoted() {
    let hashed = "{tags = ['z'], hash = ['a', 'b', 'c', 'd', 'e']}";
    let routes = format!(
        r#"{{tags = ['a,b->c; ', 'say "\', 'x y*', 'blüte', '"'], store = 'a'}}, {hashed}"#
    );
    let tags = r#""\"","a,b->c; ","blüte","say \"\\","x y"*->a"#;
    assert_eq!(routing(&routes).role(0), format!("store a, of: {tags}; z->hash(a,b,c,d,e)"));
}

/// Every word of these letters up to this length, the shorter ones first.
fn words(letters: &str, longest: usize) -> Vec<String> {
    let (mut all, mut last) = (Vec::new(), vec![String::new()]);
    for _ in 0..longest {
        let longer =
            |word: &String| letters.chars().map(|c| format!("{word}{c}")).collect::<Vec<_>>();
        last = last.iter().flat_map(longer).collect();
        all.extend(last.clone());
    }
    all
}

#[test]
fn the_first_match_is_the_home_and_roles_are_equal_just_where_homes_are() {
    let seed: u64 = std::env::var("LEAFD_TEST_SEED")
        .map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("LEAFD_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    // The tags have a letter and a length that the patterns lack, so that they distinguish all
    // patterns.
    let (tags, fixed) = (words("xyv", 4), words("xy", 3));
    let mut homes_by_role: HashMap<String, Vec<Option<String>>> = HashMap::new();
    let mut accepted = 0;
    for _ in 0..3_000 {
        let rules: Vec<(String, &str)> = (0..random.usize(1..5))
            .map(|_| {
                let word = &fixed[random.usize(..fixed.len())];
                let star = if random.bool() { "*" } else { "" };
                (format!("{word}{star}"), ["a", "b"][random.usize(..2)])
            })
            .collect();
        let rule =
            |(tag, store): &(String, &str)| format!("{{tags = ['{tag}'], store = '{store}'}}");
        let text: Vec<String> = rules.iter().map(rule).collect();
        let rest = "{tags = ['z'], hash = ['a', 'b', 'c', 'd', 'e']}";
        let Ok(config) = from_text(&with_routes(&format!("{}, {rest}", text.join(", ")))) else {
            continue;
        };
        accepted += 1;
        let homes: Vec<Option<String>> =
            tags.iter().map(|tag| store_of(&config.routing, tag)).collect();
        for (tag, home) in tags.iter().zip(&homes) {
            let first = rules.iter().find(|(pattern, _)| match pattern.strip_suffix('*') {
                Some(prefix) => tag.starts_with(prefix),
                None => tag == pattern,
            });
            assert_eq!(home.as_deref(), first.map(|(_, store)| *store), "{tag} in {rules:?}");
        }
        let known = homes_by_role.entry(config.routing.role(0)).or_insert_with(|| homes.clone());
        assert_eq!(*known, homes, "{rules:?}");
    }
    let meanings: BTreeSet<&Vec<Option<String>>> = homes_by_role.values().collect();
    assert_eq!(meanings.len(), homes_by_role.len());
    assert!(accepted > 500 && meanings.len() > 100, "{accepted}, {}", meanings.len());
}

#[test]
fn bad_routes_are_refused() {
    let bad = |routes: &str, parts: &[&str]| check(&with_routes(routes), parts);
    let one_of = "one of store, hash and primaries";
    check("routes = [{tags = ['*'], store = 'a'}]", &["routes can't be", "routes require stores"]);
    check("stores = {a = 'mysql://u@h/d'}\nroutes = 5", &["routes can't be 5"]);
    bad("", &["routes can't be []", "at least one rule"]);
    bad("7", &["routes[0] can't be 7", one_of]);
    bad("{store = 'a'}", &["routes[0]", one_of]);
    bad("{tags = ['x']}", &["routes[0]", one_of]);
    bad("{tags = [], store = 'a'}", &["routes[0].tags can't be []"]);
    bad("{tags = ['a*b'], store = 'a'}", &["routes[0].tags[0] can't be \"a*b\""]);
    bad("{tags = ['x'], store = 'a', hash = ['a', 'b']}", &["only one of store, hash"]);
    bad("{tags = ['x'], store = 'f'}", &["routes[0].store can't be \"f\"", "a, b, c, d, e"]);
    bad(
        "{tags = ['x'], stores = 'a'}",
        &["routes[0].stores can't be", "only the keys tags, store"],
    );
    bad("{tags = ['x'], hash = 'a'}", &["routes[0].hash can't be \"a\"", "2 to 5"]);
    bad("{tags = ['x'], hash = ['a']}", &["routes[0].hash can't be [\"a\"]", "2 to 5"]);
    bad("{tags = ['x'], hash = ['a', 'a']}", &["routes[0].hash[1] can't be \"a\"", "once"]);
    bad("{tags = ['x'], hash = ['a', 3]}", &["routes[0].hash[1] can't be 3"]);
    bad("{tags = ['x'], primaries = ['a'], era = 1}", &["routes[0].primaries", "2 to 64"]);
    bad("{tags = ['x'], primaries = ['a', 'b']}", &["routes[0]", "primaries require an era"]);
    for era in ["0", "-1", "4294967296", "'1'", "1.5"] {
        let rule = format!("{{tags = ['x'], primaries = ['a', 'b'], era = {era}}}");
        bad(&rule, &["routes[0].era can't be", "1 to 4294967295"]);
    }
    bad("{tags = ['x'], store = 'a', era = 1}", &["routes[0]", "an era requires primaries"]);
    bad("{tags = ['x'], hash = ['a', 'b', 'd', 'e']}", &["no rule uses \"c\""]);
    for tag in ["y", "x.*", "x.1", "x.1*", "x."] {
        let first = "{tags = ['y', 'x.*'], store = 'a'}";
        let rules = format!("{first}, {{tags = ['ok', '{tag}'], store = 'b'}}, {REST}");
        let shown = format!("routes[1].tags[1] can't be \"{tag}\"");
        bad(&rules, &[&shown, "routes[0] already matches all of these"]);
    }
    bad(&format!("{REST}, {{tags = ['x'], store = 'a'}}"), &["routes[1].tags[0]", "routes[0]"]);
    let primaries = "{tags = ['p'], primaries = ['a', 'b'], era = 1}";
    bad(&format!("{primaries}, {REST}"), &["routes[1] can't be", "\"a\" is also in routes[0]"]);
    let again = "{tags = ['q'], primaries = ['b', 'c'], era = 1}";
    bad(&format!("{primaries}, {again}"), &["routes[1] can't be", "\"b\" is also in routes[0]"]);
    let alone = "stores = {a = 'sqlite:/x'}\nroutes = [{tags = ['*'], store = 'a'}]";
    check(alone, &["routes[0].store can't be \"a\"", "serves only one host"]);
}

#[test]
fn routes_that_are_too_many_are_refused() {
    let routes = |count: usize, length: usize| {
        let tags: Vec<String> = (0..count).map(|i| format!("'{i:0length$}'")).collect();
        with_routes(&format!("{{tags = [{}], store = 'a'}}, {REST}", tags.join(",")))
    };
    let longest = from_text(&routes(400, 9)).unwrap().routing.role(0);
    assert!((4_000..=ROLE_BYTES_MAX).contains(&longest.len()), "{}", longest.len());
    check(&routes(420, 9), &["line 2", "bytes to record", "4096 bytes", "pay.*"]);
    check(&routes(2_000, 4), &["routes[0]", "at most 1000 tags"]);
}

#[test]
fn the_settling_time_and_how_often_stores_are_looked_at() {
    let times = |text: &str| {
        let config = from_text(text).unwrap();
        let of = |embedded| config.store_check_interval(embedded).as_millis();
        (config.failover_settle.as_millis(), of(false), of(true))
    };
    assert_eq!(times(""), (10_000, 2_500, 15_000));
    assert_eq!(times("failover_settle = '10m'"), (600_000, 150_000, 900_000));
    assert_eq!(times("failover_settle = '0s'"), (0, 100, 100));
    check("failover_settle = '11m'", &["failover_settle can't be \"11m\"", "0s to 10m"]);
}

#[test]
fn what_is_shown_of_stores_and_routes_can_be_loaded_again() {
    let first = from_text(&with_routes(ALL)).unwrap();
    let shown = first.render();
    let again = from_text(&shown).unwrap();
    for store in 0..5 {
        assert_eq!(again.routing.role(store), first.routing.role(store));
        assert_eq!(again.routing.stores()[store], first.routing.stores()[store]);
    }
    let c = "# store c is mysql://u@c/d, no password; it records \"primary 1 of 2, era 3, of: ";
    assert!(shown.contains(c), "{shown}");
}

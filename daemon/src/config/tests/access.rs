//! The access rules: who may draw, mask and administer.

use super::*;

#[test]
fn access_rules_decide() {
    let config = from_text(
        "admin_gids = [27]\n\
         [[access]]\ntags = ['orders', 'pay.*']\nuids = [1000]\n\
         [[access]]\ntags = ['pay.eu.*']\ngids = [50]\n\
         [[access]]\ntags = ['closed']\nuids = []\n",
    )
    .unwrap();
    let peer = |uid: u32, gids: &[u32]| Peer { uid, gids: gids.to_vec(), is_outside: false };
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
fn unmasking_is_apart_from_drawing() {
    let config = from_text(
        "admin_uids = [7]\n\
         [[access]]\ntags = ['orders', 'pay.*']\nunmask_uids = [33]\nunmask_gids = [34]\n\
         [[access]]\ntags = ['orders']\nuids = [1000]\n",
    )
    .unwrap();
    let peer = |uid: u32, gids: &[u32]| Peer { uid, gids: gids.to_vec(), is_outside: false };
    let access = &config.access;
    for (tag, peer, may) in [
        ("orders", peer(33, &[]), true),
        ("pay.eu", peer(5, &[34]), true),
        ("orders", peer(1000, &[]), false),
        ("free", peer(33, &[34]), false),
        ("free", peer(7, &[]), true),
        ("free", peer(0, &[]), true),
    ] {
        assert_eq!(access.may_unmask(tag, &peer), may, "{tag} by {peer:?}");
    }
    assert!(!access.may_draw("orders", &peer(33, &[])), "it is reserved by the other rule");
    assert!(access.may_draw("pay.eu", &peer(5, &[])), "no rule reserves it");
    check("[[access]]\ntags = ['a']\nunmask_uids = 1", &["access[0].unmask_uids"]);
}

#[test]
fn the_daemons_own_user_is_trusted() {
    let env = Env { uid: 42, ..root_with(&[("HOME", "/h")]) };
    let args = set(&["access=[{tags = ['*'], uids = []}]"]);
    let config = Config::load_from(&args, &env).unwrap();
    let own = Peer { uid: 42, gids: vec![], is_outside: false };
    assert!(config.access.may_draw("x", &own) && config.access.may_administer(&own));
    assert!(!config.access.may_draw("x", &Peer { uid: 43, gids: vec![], is_outside: false }));
}

#[test]
fn bad_access_rules_are_refused() {
    check("access = 1", &["access can't be 1"]);
    check("[[access]]\nuids = [1]", &["access[0]", "with tags"]);
    check("[[access]]\ntags = ['a']", &["access[0]", "at least one of uids, gids, ids_per_second"]);
    check("[[access]]\ntags = []\nuids = []", &["access[0].tags can't be []", "line 2"]);
    check("[[access]]\ntags = ['a', 'b*c']\nuids = []", &["access[0].tags[1] can't be \"b*c\""]);
    check("[[access]]\ntags = ['']\nuids = []", &["access[0].tags[0]"]);
    check("[[access]]\ntags = ['a']\nuids = [-1]", &["access[0].uids[0] can't be -1", "line 3"]);
    check("[[access]]\ntags = ['a']\nburst = 1", &["burst requires ids_per_second"]);
    check("[[access]]\ntags = ['a']\nids_per_second = 0", &["access[0].ids_per_second"]);
    check("[[access]]\ntags = ['a']\nusers = [1]", &["access[0].users", "tags, uids, gids"]);
}

#[test]
fn root_of_another_container_is_trusted_unless_that_is_turned_off() {
    for (text, trusts) in [("", true), ("trust_containers = false\nadmin_uids = [7]", false)] {
        let access = from_text(text).unwrap().access;
        let administers =
            |uid, is_outside| access.may_administer(&Peer { uid, gids: vec![], is_outside });
        assert!(administers(0, false), "{text}");
        assert_eq!(administers(0, true), trusts, "{text}");
        assert_eq!(access.looks_at_namespace(0), !trusts);
        assert_eq!(administers(7, true), !trusts, "who is named is trusted anywhere");
    }
}

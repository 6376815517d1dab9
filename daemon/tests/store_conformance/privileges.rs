//! Exactly the privileges that the documents name, for whoever makes the tables and for the daemon; and what is said
//! when some are missing.

use std::time::Duration;

use ::mysql::prelude::Queryable as _;
use leafd::store::sql::Target;
use leafd::store::{Store, mysql as on_mysql, postgres as on_postgres};
use leafd_core::registry::{CompareAndSet, Holder, LeaseRecord, Mode};
use leafd_core::store::{CheckIn, ClaimWish, ClaimedBy, HostId, Role, StartToken, StoreError};
use leafd_core::{Tag, WorkerId};

use crate::mysqld::Engine;
use crate::{claim, create, mysql, new_tag, postgres, raise, tag};

/// Leaf's own table, to the letter but for the character set.
const LEAF_ON_MYSQL: &str = "CREATE TABLE leaf_alloc (
    biz_tag varchar(128) NOT NULL DEFAULT '',
    max_id bigint(20) NOT NULL DEFAULT '1',
    step int(11) NOT NULL,
    description varchar(256) DEFAULT NULL,
    update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (biz_tag)
    ) ENGINE=InnoDB DEFAULT CHARACTER SET latin1;
    INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('leaf', 1, 100)";

const LEAF_ON_POSTGRES: &str =
    "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY DEFAULT '',
    max_id bigint NOT NULL DEFAULT 1, step int NOT NULL, description varchar(256),
    update_time timestamp NOT NULL DEFAULT now());
    INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('leaf', 1, 100)";

/// Everything that a daemon does with a store.
fn all_calls_work(store: &mut Store) {
    let created = create(store, &new_tag("t", 1, 10)).unwrap();
    let under = store.identity().unwrap();
    let by = ClaimedBy { host: HostId("h".into()), name: "n".into(), holds_from: None };
    let claim_as = store.claim(Some(&by), &under, &tag("t"), ClaimWish::new(1, 1000), None);
    assert_eq!(claim_as.unwrap().run.range(), 1..11);
    assert_eq!(store.claims_after(&tag("t"), 0, 9).unwrap().len(), 1);
    assert_eq!(store.forget_claims(Duration::from_secs(9), 9).unwrap(), 0);
    assert!(raise(store, "t", 500));
    let under = store.identity().unwrap();
    store.is_settled(&under).unwrap();
    let (host, start) = (HostId("h".into()), StartToken("s".into()));
    assert_eq!(store.check_in(&under, &host, &[], &start).unwrap(), CheckIn::New);
    let known = store.hosts("", 9).unwrap();
    assert!(known.iter().any(|known| known.host == "h"), "{known:?}");
    store.take_role(&under, &Role("1 of 2".into())).unwrap();
    assert_eq!(claim(store, "t", 1).run.range(), 500..510);
    store.delete(&tag("t"), created.generation).unwrap();
    assert_eq!(store.ends(None, 9).unwrap(), [(tag("t"), 510)]);
    let layouts = [(Tag::parse(b"snowflake").unwrap(), leafd_wire::Layout::LEAF)];
    store.workers(Mode::Leased).register_layouts(&layouts).unwrap();
    let look = store.workers(Mode::Leased).snapshot(0..9).unwrap();
    assert!(look.entries.is_empty());
    let holder = Holder { id: "h".into(), name: "n".into(), incarnation: StartToken("i".into()) };
    let swap = CompareAndSet {
        worker: WorkerId(3),
        expected: None,
        next: LeaseRecord { holder: Some(holder), expires: look.now },
        seen: look.now,
        ahead_max: Duration::from_secs(60),
    };
    store.workers(Mode::Leased).compare_and_set(&look.registry, &swap).unwrap();
    let former = store.workers(Mode::Leased).former(WorkerId(3), look.now).unwrap();
    assert!(former.unwrap().taking.is_some());
    let under = store.identity().unwrap();
    assert!(store.renew(&under, None).unwrap());
}

#[track_caller]
fn refused(result: Result<Vec<&'static str>, StoreError>, parts: &[&str]) {
    match result {
        Err(StoreError::Refused(words)) => {
            for part in parts {
                assert!(words.contains(part), "{words:?} lacks {part:?}");
            }
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_documented_privileges_are_enough_on_mariadb() {
    the_documented_privileges_are_enough(Engine::MariaDb);
}

#[test]
fn the_documented_privileges_are_enough_on_mysql() {
    if Engine::Mysql.is_tested() {
        the_documented_privileges_are_enough(Engine::Mysql);
    }
}

/// With a binary log, and without SUPER or `log_bin_trust_function_creators`.
fn the_documented_privileges_are_enough(engine: Engine) {
    let server = mysql::new_server(engine, &["--log-bin=binlog"]);
    let mut client = mysql::client(&server, "ids").unwrap();
    let target = |user: &str| mysql::target(&server, user, "ids");
    let mut run = |sql: &str| {
        for one in sql.split(';').filter(|one| !one.trim().is_empty()) {
            client.query_drop(one).unwrap();
        }
    };
    run("CREATE USER owner@localhost; CREATE USER leafd@localhost;
         GRANT SELECT, INSERT ON ids.* TO owner@localhost");
    let named =
        ["nothing was done", "CREATE on leaf_alloc", "UPDATE on leafd_meta", "ALTER on leaf_alloc"];
    refused(on_mysql::ENGINE.apply(&target("owner")), &named);
    run("GRANT CREATE, ALTER, UPDATE ON ids.* TO owner@localhost");
    on_mysql::ENGINE.apply(&target("owner")).unwrap();
    run("GRANT SELECT, INSERT, UPDATE, DELETE ON ids.leaf_alloc TO leafd@localhost;
         GRANT SELECT ON ids.leaf_workerid_alloc TO leafd@localhost");
    for table in ["leafd_meta", "leafd_tag", "leafd_host", "leafd_worker", "leafd_layout"] {
        run(&format!("GRANT SELECT, INSERT, UPDATE ON ids.{table} TO leafd@localhost"));
    }
    run("GRANT SELECT, INSERT, DELETE ON ids.leafd_claim TO leafd@localhost;
         GRANT SELECT, INSERT ON ids.leafd_worker_taken TO leafd@localhost");
    all_calls_work(&mut on_mysql::ENGINE.open(target("leafd")));
}

#[test]
fn the_documented_privileges_are_enough_on_postgres() {
    let mut database = postgres::Database::without_tables();
    let name = database.target("postgres").url.database;
    database.execute(&format!(
        "DO $$ BEGIN CREATE ROLE owner LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
         DO $$ BEGIN CREATE ROLE leafd LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
         GRANT CONNECT ON DATABASE {name} TO owner, leafd"
    ));
    refused(
        on_postgres::ENGINE.apply(&database.target("owner")),
        &["nothing was done", "CREATE on schema public"],
    );
    database.execute("GRANT CREATE ON SCHEMA public TO owner");
    on_postgres::ENGINE.apply(&database.target("owner")).unwrap();
    database.execute(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON leaf_alloc TO leafd;
         GRANT SELECT, INSERT, UPDATE ON leafd_meta, leafd_tag, leafd_host, leafd_worker, leafd_layout TO leafd;
         GRANT SELECT, INSERT, DELETE ON leafd_claim TO leafd;
         GRANT SELECT, INSERT ON leafd_worker_taken TO leafd;
         GRANT SELECT ON leaf_workerid_alloc TO leafd",
    );
    all_calls_work(&mut on_postgres::ENGINE.open(database.target("leafd")));
}

/// A host that used Leaf's table alone stays with the same store when leafd's tables are made beside it.
fn becomes_full(target: &Target, open: impl Fn(Target) -> Box<Store>, apply: impl Fn(&Target)) {
    let mut plain = open(Target { leaf_only: true, ..target.clone() });
    let was = plain.identity().unwrap();
    assert_eq!(claim(&mut plain, "leaf", 1).run.range(), 1..101);
    apply(target);
    let mut full = open(target.clone());
    let is = full.identity().unwrap();
    assert_eq!(is.id, was.id);
    // It may have lost commits in between, for all that is known: whoever has seen more says so first.
    assert_ne!(is.history, was.history);
    assert_eq!(claim(&mut full, "leaf", 1).run.range(), 101..201);
}

#[test]
fn leafs_table_alone_becomes_a_full_store() {
    let mut on_mariadb = mysql::Database::without_tables();
    on_mariadb.execute(LEAF_ON_MYSQL);
    becomes_full(
        &on_mariadb.target("root"),
        |target| Box::new(on_mysql::ENGINE.open(target)),
        |target| drop(on_mysql::ENGINE.apply(target).unwrap()),
    );
    let mut database = postgres::Database::without_tables();
    database.execute(LEAF_ON_POSTGRES);
    becomes_full(
        &database.target("postgres"),
        |target| Box::new(on_postgres::ENGINE.open(target)),
        |target| drop(on_postgres::ENGINE.apply(target).unwrap()),
    );
}

/// It is the same store, if with another history: nobody has to adopt it.
#[test]
fn leafs_table_alone_survives_being_altered() {
    let mut database = mysql::Database::without_tables();
    database.execute(LEAF_ON_MYSQL);
    let mut store = on_mysql::ENGINE.open(Target { leaf_only: true, ..database.target("root") });
    let was = store.identity().unwrap();
    assert_eq!(claim(&mut store, "leaf", 1).run.range(), 1..101);
    // The server tells the time at which a table was altered in seconds.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    database.execute("ALTER TABLE leaf_alloc ADD COLUMN owner varchar(64) DEFAULT NULL");
    assert_eq!(store.identity().unwrap().id, was.id);
    assert_eq!(claim(&mut store, "leaf", 1).run.range(), 101..201);
}

/// There is no such row, and the rows that there are go on.
#[test]
fn a_name_that_the_tables_character_set_cant_hold_is_an_unknown_tag() {
    let mut database = mysql::Database::without_tables();
    database.execute(LEAF_ON_MYSQL);
    on_mysql::ENGINE.apply(&database.target("root")).unwrap();
    let mut store = on_mysql::ENGINE.open(database.target("root"));
    let name = tag("\u{8ba2}\u{5355}");
    let under = store.identity().unwrap();
    let wish = ClaimWish::new(1, 1_000);
    for result in
        [store.claim(None, &under, &name, wish, None).map(drop), store.show(&name).map(drop)]
    {
        assert!(matches!(result, Err(StoreError::UnknownTag { .. })), "{result:?}");
    }
    let terms = store.look_up(&under, &[name.clone(), tag("leaf")]).unwrap();
    assert!(terms[0].is_none() && terms[1].is_some(), "{terms:?}");
    let raised = store.raise(&under, &[(name.clone(), 9), (tag("leaf"), 700)], false).unwrap();
    assert_eq!(raised, [false, true]);
    let refused = create(&mut store, &new_tag(name.as_str(), 1, 10)).unwrap_err().to_string();
    assert!(refused.contains("can't store this name"), "{refused}");
    assert_eq!(claim(&mut store, "leaf", 1).run.range(), 700..800);
}

//! What making leafd's tables takes on a MariaDB that keeps a binary log.

use ::mysql::prelude::Queryable as _;
use leafd::store::{Store, StoreError, mysql as on_mysql};

use crate::{claim, mysql, new_tag};

#[test]
fn with_a_binary_log_triggers_need_the_server_s_leave() {
    let server = mysql::new_server(&["--log-bin=binlog"]);
    let mut client = mysql::client(&server, "mysql").unwrap();
    client.query_drop("CREATE USER 'owner'@'localhost'").unwrap();
    client.query_drop("GRANT ALL ON ids.* TO 'owner'@'localhost'").unwrap();
    let target = || mysql::target(&server, "owner", "ids");
    match on_mysql::apply(&target()) {
        Err(StoreError::Refused(words)) => {
            assert!(words.contains("log_bin_trust_function_creators"), "{words}");
        }
        other => panic!("{other:?}"),
    }
    // Half of it is no store.
    assert!(matches!(on_mysql::open(target()).identity(), Err(StoreError::Refused(_))));
    client.query_drop("SET GLOBAL log_bin_trust_function_creators = 1").unwrap();
    on_mysql::apply(&target()).unwrap();
    client.query_drop("SET GLOBAL log_bin_trust_function_creators = 0").unwrap();
    on_mysql::apply(&target()).unwrap();
    let mut store = on_mysql::open(target());
    store.create(&new_tag("t", 1, 10)).unwrap();
    assert_eq!(claim(&mut store, "t", 1).numbers, 1..11);
}

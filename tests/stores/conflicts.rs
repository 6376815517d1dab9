//! Claims that conflict with concurrent writes of others, as clusters report it at the commit: they are retried
//! immediately, counted, and not logged one by one.

use leafd_tests::host::Host;
use leafd_tests::load::Drawn;
use leafd_tests::servers::mysqld::Kind;
use leafd_tests::servers::{Mysqld, Postgres, Server};
use mysql::prelude::Queryable as _;

use crate::scene::{create, store};

/// The number of claims of the tag that fail first.
const CONFLICTS: u64 = 5;

/// A sequence keeps its value when a transaction is rolled back.
fn of_postgres() -> String {
    format!(
        "CREATE SEQUENCE tries; GRANT ALL ON tries TO PUBLIC;
         CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF nextval('tries') <= {CONFLICTS} THEN
                 RAISE EXCEPTION 'somebody was faster' USING ERRCODE = '40001';
             END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER conflict BEFORE UPDATE ON leaf_alloc FOR EACH ROW EXECUTE FUNCTION conflict()"
    )
}

/// So does a variable.
fn of_mysql(code: u16) -> String {
    format!(
        "CREATE TRIGGER conflict BEFORE UPDATE ON leaf_alloc FOR EACH ROW BEGIN
             SET @tries = COALESCE(@tries, 0) + 1;
             IF @tries <= {CONFLICTS} THEN
                 SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = {code}, MESSAGE_TEXT = 'somebody was faster';
             END IF;
         END"
    )
}

fn are_tried_again_and_counted<S: Server>(server: &S, provoke: impl FnOnce(&S)) {
    let mut host = Host::on_store(&server.url());
    host.start();
    create(&host, "orders", 10);
    assert_eq!(store(&host)["conflicts"], 0);
    provoke(server);
    let mut drawn = Drawn::default();
    drawn.add_ids("orders", &host.raw().draw("orders", 100));
    assert_eq!(store(&host)["conflicts"], CONFLICTS);
    let log = host.log();
    let said = log.matches("somebody was faster").count();
    assert_eq!(said, 1, "{log}");
    drawn.assert_sound();
}

#[test]
fn conflicts_are_tried_again_and_counted_on_postgres() {
    are_tried_again_and_counted(&Postgres::new(), |server| {
        server.sql(&of_postgres());
    });
}

on_both!(conflicts_are_tried_again_and_counted);

fn conflicts_are_tried_again_and_counted<K: Kind>() {
    for code in [1213, 1205] {
        are_tried_again_and_counted(&Mysqld::<K>::new(), |server| {
            let mut connection = server.connection().unwrap();
            for statement in ["USE ids", &of_mysql(code)] {
                connection.query_drop(statement).unwrap();
            }
        });
    }
}

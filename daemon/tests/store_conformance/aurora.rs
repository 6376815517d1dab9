//! PostgreSQL as Aurora has it.

use leafd_core::store::ClaimWish;

use crate::engines::Engine as _;
use crate::identity::changed;
use crate::postgres::Database;
use crate::{create, new_tag, tag};

const WISH: ClaimWish = ClaimWish::new(1, 1000);

/// As on Aurora with its default settings, where the functions for the write-ahead log fail.
#[test]
fn functions_that_an_engine_lacks_are_done_without() {
    let mut database = Database::new();
    let name = database.target("postgres").url.database;
    database.grant("aurora", &[("ALL", "ALL TABLES IN SCHEMA public")]);
    database.execute(&format!(
        "CREATE SCHEMA shim; GRANT USAGE ON SCHEMA shim TO aurora;
         CREATE FUNCTION shim.pg_current_wal_lsn() RETURNS pg_lsn LANGUAGE plpgsql AS $$ BEGIN
             RAISE EXCEPTION 'WAL control functions cannot be executed' USING ERRCODE = '55000';
         END $$;
         ALTER ROLE aurora IN DATABASE {name} SET search_path = shim, pg_catalog, public"
    ));
    let mut store = database.connect_as("aurora");
    // The administrator, who made the tables, is told more by the server.
    let made = store.identity().unwrap();
    assert!(made.history.is_in_doubt() && store.renew(&made, None).unwrap());
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    let was = store.identity().unwrap();
    assert_eq!(store.claim(None, &was, &tag("t"), WISH, None).unwrap().run.range(), 1..11);
    // What is left of the history shows a table that was filled anew.
    database.execute("CREATE TABLE backup AS SELECT * FROM leafd_tag; DELETE FROM leafd_tag");
    database.execute("INSERT INTO leafd_tag SELECT * FROM backup");
    let is = store.identity().unwrap();
    assert_ne!(is.history, was.history);
    changed(store.claim(None, &was, &tag("t"), WISH, None), &was, &is);
}

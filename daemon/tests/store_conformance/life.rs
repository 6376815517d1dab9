//! A store's lives: a note in its own tables, compared in every transaction with what the engine says and with what a
//! host knows.

use leafd::store::Store;
use leafd_core::store::{CheckIn, ClaimWish, HostId, Identity, StartToken};

use crate::identity::changed;
use crate::{Backend, claim, create, new_tag, tag};

const WISH: ClaimWish = ClaimWish::new(1, 1000);

/// A host's connection, once it has checked in.
fn host(backend: &mut dyn Backend, name: &str) -> (Box<Store>, Identity) {
    let mut store = backend.connect();
    let under = store.identity().unwrap();
    let (host, start) = (HostId(name.into()), StartToken(format!("start of {name}").into()));
    assert_eq!(store.check_in(&under, &host, &[], &start).unwrap(), CheckIn::New);
    (store, under)
}

/// The note says what the engine says no more: nothing is claimed until a host has noted a new life.
pub fn a_note_that_is_not_true_is_renewed_once(backend: &mut dyn Backend) {
    let (mut one, was) = host(backend, "one");
    let (mut other, _) = host(backend, "other");
    create(&mut one, &new_tag("t", 1, 10)).unwrap();
    assert_eq!(one.is_settled(&was).unwrap(), Some(true), "the tables were just made");
    // As a promoted standby has it, whose server says something else about itself.
    backend.execute("UPDATE leafd_meta SET value = REPLACE(value, '\"engine\":\"', '\"engine\":\"0') WHERE name = 'history'");
    let doubt = one.identity().unwrap();
    assert!(doubt.history.is_in_doubt());
    changed(one.claim(None, &was, &tag("t"), WISH, None), &was, &doubt);
    assert_eq!(other.identity().unwrap(), doubt);
    assert!(one.renew(&doubt, Some(&was.history)).unwrap());
    let is = one.identity().unwrap();
    changed(other.renew(&doubt, Some(&was.history)), &doubt, &is);
    assert!(was.history.is_former_of(&is.history), "{is}");
    assert_eq!((&is.id, &is.role), (&was.id, &was.role));
    // It is settled by the first claim, for every host, and not by anything else.
    for store in [&mut one, &mut other] {
        assert_eq!(store.is_settled(&is).unwrap(), Some(false));
    }
    assert_eq!(one.claim(None, &is, &tag("t"), WISH, None).unwrap().run.range(), 1..11);
    assert_eq!(other.is_settled(&is).unwrap(), Some(true));
    assert_eq!(other.claim(None, &is, &tag("t"), WISH, None).unwrap().run.range(), 11..21);
    assert_eq!(other.identity().unwrap(), is);
}

/// A backup is put in place of the data, and the server says of itself what it said before.
pub fn a_host_whose_last_write_is_gone_claims_nothing(backend: &mut dyn Backend) {
    let (mut one, was) = host(backend, "one");
    let (mut other, _) = host(backend, "other");
    create(&mut one, &new_tag("t", 1, 10)).unwrap();
    one.claim(None, &was, &tag("t"), WISH, None).unwrap();
    backend.execute("CREATE TABLE backup AS SELECT * FROM leafd_host");
    one.claim(None, &was, &tag("t"), WISH, None).unwrap();
    backend.execute("DELETE FROM leafd_host; INSERT INTO leafd_host SELECT * FROM backup");
    // Nothing of the other host's is gone.
    assert_eq!(other.identity().unwrap(), was);
    let doubt = one.identity().unwrap();
    assert!(doubt.history.is_in_doubt());
    changed(one.claim(None, &was, &tag("t"), WISH, None), &was, &doubt);
    assert!(one.renew(&doubt, Some(&was.history)).unwrap());
    let is = other.identity().unwrap();
    // Claims may have gone on meanwhile, so every host that trusted the former life has missed something.
    assert!(is.history.was_missed_by(&was.history, &[], false), "{is}");
    assert_eq!(
        [&mut one, &mut other].map(|store| store.is_settled(&is).unwrap()),
        [Some(false); 2]
    );
    for store in [&mut one, &mut other] {
        store.claim(None, &is, &tag("t"), WISH, None).unwrap();
    }
    // In the new life the same is found again.
    backend.execute("UPDATE leafd_host SET written = written - 1 WHERE host = 'one'");
    assert!(one.identity().unwrap().history.is_in_doubt());
    backend.execute("DELETE FROM leafd_host WHERE host = 'other'");
    assert!(other.identity().unwrap().history.is_in_doubt());
}

/// A host starts again, and a backup was put in place of the data meanwhile: the store is old, not the host's journal.
pub fn a_start_that_the_store_has_lost_begins_a_new_life(backend: &mut dyn Backend) {
    let (mut one, was) = host(backend, "one");
    create(&mut one, &new_tag("t", 1, 10)).unwrap();
    backend.execute("CREATE TABLE backup AS SELECT * FROM leafd_host");
    one.claim(None, &was, &tag("t"), WISH, None).unwrap();
    let written = one.written(&was.history);
    backend.execute("DELETE FROM leafd_host; INSERT INTO leafd_host SELECT * FROM backup");
    let mut again = backend.connect();
    again.trust(&was.history, written);
    let (known, next) = (StartToken("start of one".into()), StartToken("next".into()));
    let checked_in =
        again.check_in(&was, &HostId("one".into()), std::slice::from_ref(&known), &next);
    let is = again.identity().unwrap();
    changed(checked_in, &was, &is);
    assert!(is.history.was_missed_by(&was.history, &[], false), "{is}");
    let checked_in = again.check_in(&is, &HostId("one".into()), &[known], &next);
    assert_eq!(checked_in.unwrap(), CheckIn::Current);
}

/// Another store has made a host go on as a new one: the numbers in its journal are the former host's.
pub fn a_new_host_has_lost_nothing(backend: &mut dyn Backend) {
    let (mut one, was) = host(backend, "one");
    create(&mut one, &new_tag("t", 1, 10)).unwrap();
    one.claim(None, &was, &tag("t"), WISH, None).unwrap();
    let mut anew = backend.connect();
    anew.trust(&was.history, one.written(&was.history));
    let next = StartToken("next".into());
    let checked_in = anew.check_in(&was, &HostId("anew".into()), &[], &next);
    assert_eq!(checked_in.unwrap(), CheckIn::New);
    assert_eq!(anew.identity().unwrap(), was);
}

/// Two daemons run with copies of one state directory: the later start has the name.
pub fn a_copy_of_a_host_stops_the_earlier_start(backend: &mut dyn Backend) {
    let (mut one, under) = host(backend, "one");
    create(&mut one, &new_tag("t", 1, 10)).unwrap();
    let mut copy = backend.connect();
    let [known, next] = ["start of one", "later"].map(|start| StartToken(start.into()));
    let checked_in = copy.check_in(&under, &HostId("one".into()), &[known], &next);
    assert_eq!(checked_in.unwrap(), CheckIn::Current);
    copy.claim(None, &under, &tag("t"), WISH, None).unwrap();
    let error = one.claim(None, &under, &tag("t"), WISH, None).unwrap_err();
    assert!(error.to_string().contains("another daemon runs with a copy"), "{error}");
    claim(&mut copy, "t", 1);
}

/// A former primary takes over again. It has writes of this host's earlier start that its successor had lost.
pub fn a_write_of_an_earlier_start_that_comes_back_is_a_loss(backend: &mut dyn Backend) {
    let (mut one, was) = host(backend, "one");
    create(&mut one, &new_tag("t", 1, 10)).unwrap();
    for _ in 0..5 {
        one.claim(None, &was, &tag("t"), WISH, None).unwrap();
    }
    backend.execute("CREATE TABLE former AS SELECT * FROM leafd_host");
    backend.execute("UPDATE leafd_host SET written = written - 4");
    let mut again = backend.connect();
    let [known, next] = ["start of one", "next"].map(|start| StartToken(start.into()));
    let checked_in = again.check_in(&was, &HostId("one".into()), &[known], &next);
    assert_eq!(checked_in.unwrap(), CheckIn::Current);
    assert_eq!(again.identity().unwrap(), was);
    backend.execute("DELETE FROM leafd_host; INSERT INTO leafd_host SELECT * FROM former");
    let doubt = again.identity().unwrap();
    assert!(doubt.history.is_in_doubt(), "{doubt}");
    changed(again.claim(None, &was, &tag("t"), WISH, None), &was, &doubt);
    assert!(again.renew(&doubt, Some(&was.history)).unwrap());
    let is = again.identity().unwrap();
    again.claim(None, &is, &tag("t"), WISH, None).unwrap();
}

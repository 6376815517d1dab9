//! How often a claim, and a renewal of a worker, waits for the server, because other hosts wait for its locks
//! meanwhile. Also a transaction whose connection breaks.

use std::time::Duration;

use leafd::config::{StorePassword, StoreUrl};
use leafd::store::sql::Target;
use leafd::store::{Store, mysql, postgres};
use leafd_core::registry::{CompareAndSet, Holder, LeaseRecord, Mode};
use leafd_core::store::{
    CEILING_MAX, ClaimWish, ClaimedBy, HoldWish, HostId, Identity, NewTag, StartToken, StoreError,
};
use leafd_core::{Tag, UnixMs, WorkerId};
use leafd_tests::relay::{AtCommit, Relay};
use leafd_tests::servers::{DATABASE, PASSWORD, Server};
use tempfile::NamedTempFile;

on_each_server!(
    a_claim_waits_for_the_server_as_rarely_as_it_can,
    a_renewal_asks_together,
    what_may_be_committed_is_not_tried_again,
);

/// The number of calls that are counted. The first calls prepare statements.
const CALLS: u32 = 20;

const LIMIT: Duration = Duration::from_secs(30);

/// A store behind a relay, after it has recorded this host's start.
struct Counted<S> {
    _server: S,
    _password: NamedTempFile,
    relay: Relay,
    store: Store,
    under: Identity,
    host: HostId,
}

impl<S: Server> Counted<S> {
    fn new() -> Self {
        let server = S::new();
        let relay = Relay::to(server.port());
        let (engine, url) = match S::url_of(&[relay.port()], DATABASE).parse() {
            Ok(StoreUrl::Postgres(url)) => (&postgres::ENGINE, url),
            Ok(StoreUrl::Mysql(url)) => (&mysql::ENGINE, url),
            other => panic!("{other:?}"),
        };
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), PASSWORD).unwrap();
        let mut store = engine.open(Target {
            url,
            password: StorePassword::File(file.path().to_owned()),
            connect_timeout: LIMIT,
            patience_max: LIMIT,
            statement_timeout: LIMIT,
            leaf_only: false,
            untested_engine: false,
        });
        let under = store.identity().unwrap();
        let host = HostId("0123456789abcdef".into());
        store.check_in(&under, &host, &[], &StartToken("start".into())).unwrap();
        Counted { _server: server, _password: file, relay, store, under, host }
    }

    /// The average number of round trips of a call.
    fn count(&mut self, what: &str, mut call: impl FnMut(&mut Store, &Identity)) -> f64 {
        for _ in 0..3 {
            call(&mut self.store, &self.under);
        }
        let before = self.relay.round_trips();
        for _ in 0..CALLS {
            call(&mut self.store, &self.under);
        }
        let each = f64::from(self.relay.round_trips() - before) / f64::from(CALLS);
        println!("{}: {each} round trips for {what}", S::NAME);
        each
    }
}

/// PostgreSQL can run the last statements and the commit in one round trip, because it skips the commit after an error.
/// MySQL doesn't know that a statement must change a row, so the commit follows the answer.
fn a_claim_waits_for_the_server_as_rarely_as_it_can<S: Server>() {
    let mut counted = Counted::<S>::new();
    let at_most = if S::SCHEME == "postgres" { 2.0 } else { 3.0 };
    let by =
        ClaimedBy { host: counted.host.clone(), name: "it's \\ here".into(), holds_from: None };
    for strict in [false, true] {
        let name = if strict { "strict" } else { "plain" };
        let tag = Tag::parse(name.as_bytes()).unwrap();
        counted.store.create(&counted.under, &NewTag { strict, ..new_tag(&tag) }).unwrap();
        let mut end = 1;
        let each = counted.count(&format!("a claim of a {name} tag"), |store, under| {
            // Every second claim of the strict tag records that this host holds it.
            let hold = HoldWish { own_end: end, over: 0, ms: (end % 2) * 1_000 };
            let wish = ClaimWish { hold, ..ClaimWish::new(1, 1) };
            let claim = store.claim(Some(&by), under, &tag, wish, None).unwrap();
            assert_eq!(claim.run.range(), end..end + 1);
            end += 1;
        });
        assert!(each <= at_most, "{}: {each}", S::NAME);
    }
}

fn a_renewal_asks_together<S: Server>() {
    let mut counted = Counted::<S>::new();
    // MySQL is first asked for its position, and both are asked for the store's identity.
    let at_most = if S::SCHEME == "postgres" { 3.0 } else { 6.0 };
    let holder = Holder {
        id: counted.host.0.clone(),
        name: "here".into(),
        incarnation: StartToken("start".into()),
    };
    let at = |expires| LeaseRecord { holder: Some(holder.clone()), expires: UnixMs(expires) };
    let mut expected = None;
    let each = counted.count("a renewal of a worker", |store, under| {
        let next = at(expected.as_ref().map_or(1, |last: &LeaseRecord| last.expires.0 + 1));
        let swap = CompareAndSet {
            worker: WorkerId(3),
            expected: expected.take(),
            next: next.clone(),
            seen: UnixMs(7),
            ahead_max: LIMIT,
        };
        let under = under.clone().into();
        store.workers(Mode::Leased).compare_and_set(&under, &swap).unwrap();
        expected = Some(next);
    });
    assert!(each <= at_most, "{}: {each}", S::NAME);
}

/// A connection that broke before the call is replaced without an error. If it breaks at the commit, it is unknown
/// whether the tag was created, and a second attempt would find the tag.
fn what_may_be_committed_is_not_tried_again<S: Server>() {
    let Counted { relay, mut store, under, _server, _password, .. } = Counted::<S>::new();
    for (name, breaks_before) in [("first", false), ("second", true)] {
        let tag = Tag::parse(name.as_bytes()).unwrap();
        if breaks_before {
            relay.cut();
        }
        let met = relay.commits_met();
        relay.at_commit_of(name, AtCommit::CutAnswer);
        let lost = store.create(&under, &new_tag(&tag));
        assert_eq!(relay.commits_met(), met + 1);
        assert!(matches!(lost, Err(StoreError::Unavailable { .. })), "{lost:?}");
        let again = store.create(&under, &new_tag(&tag));
        assert!(matches!(again, Err(StoreError::TagExists { .. })), "{again:?}");
        relay.cut();
        let claim = store.claim(None, &under, &tag, ClaimWish::new(1, 1), None).unwrap();
        assert_eq!(claim.run.first, 1);
    }
}

fn new_tag(tag: &Tag) -> NewTag {
    NewTag {
        tag: tag.clone(),
        start: 1,
        step: 1,
        ceiling: CEILING_MAX,
        strict: false,
        masked: None,
        description: None,
    }
}

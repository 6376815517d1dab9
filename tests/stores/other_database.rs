//! The store's URL leads to another database than before: an unrelated one, an older state of it, or one whose table
//! was recreated. Held ids of the old database never mix with those that the new one grants.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::{Draw, Drawn, Load};
use leafd_tests::raw::{Raw, ids_request};
use leafd_tests::relay::Relay;
use leafd_tests::servers::{DATABASE, Server, apply_schema};
use leafd_wire::{Status, opcode};
use nix::sys::signal::Signal;

use crate::scene::{DRY, HELD, RESUMES_WITHIN, Route, Scene, create, first_of, report, store};

/// A step so small that draws need many claims.
const STEP: u64 = 500;

/// An older state of a database is handled like a fail-over to it. Claims are small, so that draws need many.
const SETTINGS: [(&str, &str); 2] = [("failover_settle", "2s"), ("max_step", "1000")];

/// How long claims from an older state may take: the settling time, and the rest for a busy machine.
const CLAIMS_WITHIN: Duration = Duration::from_secs(60);

/// Where staging's numbers begin: far above production's.
const STAGING: u64 = 1_000_000_000;

on_each_server!(
    staging_takes_productions_place_while_daemons_run,
    staging_takes_productions_place_while_a_daemon_is_off,
    another_identity_is_told_when_it_adopts,
    a_backup_is_restored,
    the_table_is_made_anew,
    the_tables_are_made_anew_under_connections_that_stay,
    a_backup_is_restored_under_connections_that_stay,
    a_host_that_leaves_its_embedded_store_raises_its_tags_first,
    an_identity_that_leafd_did_not_write_is_refused,
    ; but for MySQL:
    // MySQL doesn't record that a row was inserted again, so only a host that has written since the dump notices.
    the_rows_are_restored_under_connections_that_stay,
);

/// A host that used its own embedded store gets a database: its ids don't start over there.
fn a_host_that_leaves_its_embedded_store_raises_its_tags_first<S: Server>() {
    let server = S::new();
    let url = S::url_of(&[server.port()], DATABASE);
    let mut host = Host::on_store(&url);
    let embedded = format!("sqlite:{}", host.path("store.db").display());
    host.change("store", &embedded);
    host.start();
    host.create(HELD);
    let last = *host.raw().draw(HELD, 5).last().unwrap();
    host.stop();
    host.change("store", &url);
    host.start();
    create(&host, HELD, STEP);
    create(&host, DRY, STEP);
    for _ in 0..2 {
        let mut raw = host.raw();
        raw.send(&ids_request(HELD, 1, 1, 20_000));
        let reply = raw.reply();
        assert_eq!(reply.status(), Status::StoreRefused, "{}", reply.text());
        let told = reply.text();
        assert!(told.contains(&embedded) && told.contains("leafctl tag raise"), "{told}");
    }
    assert_eq!(host.raw().draw_until(DRY, RESUMES_WITHIN), 1, "a tag that was never used there");
    let mut raw = host.raw();
    raw.send(&ids_request(HELD, 1, 1, 20_000));
    let told = raw.reply().text();
    let to: u64 = told.rsplit(' ').next().and_then(|to| to.parse().ok()).expect("a number");
    host.admin(opcode::TAG_RAISE, &serde_json::json!({ "tag": HELD, "to": to }));
    assert!(host.raw().draw_until(HELD, RESUMES_WITHIN) > last);
    host.stop();
    host.start();
    assert!(host.raw().draw_until(HELD, RESUMES_WITHIN) > to, "its ids are this store's now");
}

/// A staging server with the same tags.
fn staging<S: Server>() -> S {
    let staging = S::new();
    for tag in [HELD, DRY] {
        staging.sql(&format!(
            "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('{tag}', {STAGING}, {STEP})"
        ));
    }
    staging
}

/// Checks that nothing was claimed from it.
#[track_caller]
fn assert_untouched<S: Server>(staging: &S) {
    for tag in [HELD, DRY] {
        assert_eq!(staging.max_id(tag), STAGING, "{tag}");
    }
}

/// Checks that the answer to a request that can't be served says that the database is another one.
#[track_caller]
fn assert_told(raw: &mut Raw, tag: &str, drawn: &mut Drawn) {
    raw.send(&ids_request(tag, 1, 1, 5_000));
    let reply = raw.reply();
    let (status, text) = (reply.status(), reply.text());
    let statuses = [Status::StoreRefused, Status::StoreUnavailable, Status::Deadline];
    assert!(statuses.contains(&status), "{status}: {text}");
    assert!(
        text.contains("is not the database that") || text.contains("has changed: it was"),
        "{status}: {text}"
    );
    *drawn.errors.entry(format!("{status}: {text}")).or_default() += 1;
}

fn staging_takes_productions_place_while_daemons_run<S: Server>() {
    let scene = Scene::<S>::new(Route::ThroughRelay);
    let staging = staging::<S>();
    let load = scene.load();
    let before = load.issued();
    scene.relay.lead_to(staging.port());
    let mut raws: Vec<Raw> = scene.hosts.iter().map(Host::raw).collect();
    let mut denied = Drawn::default();
    raws.iter_mut().for_each(|raw| assert_told(raw, DRY, &mut denied));
    load.each_draws(Duration::from_secs(30));
    let issued = load.issued() - before;
    scene.relay.lead_to(scene.server.port());
    // No request waits for a store that is refused, so requests are answered immediately until it is the right store
    // again.
    for host in &scene.hosts {
        eventually("the right store again", RESUMES_WITHIN, || {
            (store(host)["ready"] == true).then_some(())
        });
    }
    let (ids, recovered) = first_of(&mut raws, DRY);
    load.each_draws(Duration::from_secs(30));
    let mut drawn = load.stop();
    let load_errors = std::mem::take(&mut drawn.errors);
    drawn.add_ids(DRY, &ids);
    drawn.errors = denied.errors;
    report::<S>("staging behind the URL for a while", issued, &drawn, Some(recovered));
    drawn.assert_sound();
    assert!(load_errors.is_empty(), "of what is held: {load_errors:?}");
    assert!(drawn.ids.values().flatten().all(|id| *id < STAGING));
    assert_untouched(&staging);
}

fn staging_takes_productions_place_while_a_daemon_is_off<S: Server>() {
    let (production, staging) = (S::new(), staging::<S>());
    let relay = Relay::to(production.port());
    let mut host = Host::on_store(&S::url_of(&[relay.port()], DATABASE));
    host.start();
    create(&host, HELD, STEP);
    let mut of_production = Drawn::default();
    of_production.add_ids(HELD, &host.raw().draw(HELD, 100));
    host.stop();

    relay.lead_to(staging.port());
    host.start();
    let mut denied = Drawn::default();
    assert_told(&mut host.raw(), HELD, &mut denied);
    assert!(denied.errors.keys().all(|text| text.contains("adopt-store")), "{:?}", denied.errors);
    assert_untouched(&staging);
    host.stop();
    let (code, said) = host.run("adopt-store");
    assert_eq!(code, Some(0), "{said}");
    host.start();
    let ids = host.raw().draw(HELD, 2_000);
    assert!(ids.iter().all(|id| *id >= STAGING), "left from production: {:?}", &ids[..5]);
    denied.add_ids(HELD, &ids);
    host.stop();

    relay.lead_to(production.port());
    let (code, said) = host.run("adopt-store");
    assert_eq!(code, Some(0), "{said}");
    host.start();
    of_production.add_ids(HELD, &host.raw().draw(HELD, 2_000));
    of_production.assert_sound();
    assert!(of_production.ids[HELD].iter().all(|id| *id < STAGING));
    report::<S>("staging behind the URL at a start", 0, &denied, None);
    denied.assert_sound();
}

fn another_identity_is_told_when_it_adopts<S: Server>() {
    let server = S::new();
    let mut host = Host::on_store(&server.url());
    host.start();
    create(&host, HELD, STEP);
    let mut drawn = Drawn::default();
    drawn.add_ids(HELD, &host.raw().draw(HELD, 100));
    host.stop();
    let (code, said) = host.run("adopt-store");
    assert!(code == Some(0) && !said.contains("set aside"), "{said}");
    host.change("identity", "another");
    let (code, said) = host.run("adopt-store");
    assert!(code == Some(0) && said.contains("set aside as"), "{said}");
    host.start();
    drawn.add_ids(HELD, &host.raw().draw(HELD, 100));
    assert!(drawn.ids[HELD][100] > STEP, "what it held is skipped: {:?}", &drawn.ids[HELD][98..]);
    drawn.assert_sound();
}

fn a_backup_is_restored<S: Server>() {
    let save = |server: &S| server.dump(DATABASE);
    over_a_change("backup restored", save, |server, dump| server.restore(DATABASE, &dump));
}

fn the_table_is_made_anew<S: Server>() {
    over_a_change(
        "leaf_alloc dropped and made anew",
        |_: &S| (),
        |server, ()| {
            server.sql("DROP TABLE leaf_alloc");
            apply_schema(&server.url());
            for tag in [HELD, "orders"] {
                server.sql(&format!(
                    "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('{tag}', 1, {STEP})"
                ));
            }
        },
    );
}

/// One host runs, and another one that holds numbers is stopped, while the database is reset to an earlier state. The
/// running host has seen the end of the claims.
fn over_a_change<S: Server, T>(
    fault: &str,
    save: impl FnOnce(&S) -> T,
    change: impl FnOnce(&S, T),
) {
    let mut scene = Scene::<S>::with(Route::Direct, &[], &SETTINGS);
    create(&scene.hosts[0], "orders", STEP);
    let mut others = Drawn::default();
    draw(&mut others, &scene.hosts[1], 5);
    let saved = save(&scene.server);
    let saved_end = scene.server.max_id("orders");
    draw(&mut others, &scene.hosts[1], 20);
    scene.hosts[1].stop();
    draw(&mut others, &scene.hosts[0], 40);
    // The draws are so slow that the held ids last.
    let pause = Duration::from_millis(50);
    let slow = Draw { ids: 1, pause, ..Draw::steady(&scene.hosts[0].socket(), HELD) };
    let load = Load::start(vec![slow]);
    load.under_way();
    let (before, claimed) = (load.issued(), claimed_end(&scene.server));
    unseen_by(&scene.hosts[..1], || change(&scene.server, saved));
    assert!(saved_end < claimed, "{fault}: no claim is lost by it");
    let begun = Instant::now();
    // Draws until the store has granted new claims.
    let mut raw = scene.hosts[0].raw();
    raw.stream.set_read_timeout(Some(CLAIMS_WITHIN)).unwrap();
    while *others.ids["orders"].last().unwrap() < claimed {
        assert!(begun.elapsed() < CLAIMS_WITHIN, "{fault}: nothing is claimed any more");
        raw.ask("orders", 90, 1);
        let reply = raw.reply();
        match reply.status() {
            Status::Ok => others.add_ids("orders", &reply.ids()),
            _ => *others.errors.entry(reply.text()).or_default() += 1,
        }
    }
    let recovered = begun.elapsed();
    let issued = load.issued() - before;
    scene.hosts[1].start();
    others.add_ids("orders", &[scene.hosts[1].raw().draw_until("orders", CLAIMS_WITHIN)]);
    draw(&mut others, &scene.hosts[1], 40);
    draw(&mut others, &scene.hosts[0], 40);
    load.each_draws(Duration::from_secs(30));
    let mut drawn = load.stop();
    let load_errors = std::mem::take(&mut drawn.errors);
    drawn.add(others);
    report::<S>(fault, issued, &drawn, Some(recovered));
    drawn.assert_sound();
    assert!(load_errors.is_empty(), "of what is held: {load_errors:?}");
}

fn a_backup_is_restored_under_connections_that_stay<S: Server>() {
    let save = |server: &S| server.dump(DATABASE);
    let restore = |server: &S, dump: PathBuf| server.restore_over(DATABASE, &dump);
    under_open_connections("backup restored under open connections", save, restore);
}

fn the_tables_are_made_anew_under_connections_that_stay<S: Server>() {
    let change = |server: &S, ()| {
        server.sql("DROP TABLE leaf_alloc; DROP TABLE leafd_tag");
        apply_schema(&server.url());
        server.sql(&format!(
            "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 1, {STEP})"
        ));
    };
    under_open_connections("tables made anew under open connections", |_| (), change);
}

/// The tables remain the same; only their rows are reset.
fn the_rows_are_restored_under_connections_that_stay<S: Server>() {
    let save = |server: &S| server.dump_rows(DATABASE);
    let restore = |server: &S, dump: PathBuf| server.restore_rows(DATABASE, &dump);
    under_open_connections("rows restored under open connections", save, restore);
}

/// No connection breaks, and the tables don't contain the last claims, so a host that has seen fewer claims than the
/// others would claim their held ids.
fn under_open_connections<S: Server, T>(
    fault: &str,
    save: impl FnOnce(&S) -> T,
    change: impl FnOnce(&S, T),
) {
    let scene = Scene::<S>::with(Route::Direct, &[], &SETTINGS);
    create(&scene.hosts[0], "orders", STEP);
    let mut drawn = Drawn::default();
    draw(&mut drawn, &scene.hosts[1], 10);
    let saved = save(&scene.server);
    let saved_end = scene.server.max_id("orders");
    draw(&mut drawn, &scene.hosts[0], 40);
    let claimed = claimed_end(&scene.server);
    unseen_by(&scene.hosts, || change(&scene.server, saved));
    assert!(saved_end < claimed, "{fault}: no claim is lost by it");
    let begun = Instant::now();
    let mut recovered = None;
    let mut raws = [scene.hosts[1].raw(), scene.hosts[0].raw()];
    let (mut issued, mut rests) = (0, 0);
    let goes_on = |recovered: Option<Duration>| {
        let long = if recovered.is_some() { Duration::from_secs(6) } else { CLAIMS_WITHIN };
        begun.elapsed() < long
    };
    while goes_on(recovered) {
        // The first requests follow each other immediately, so that the held ids run out before any probe.
        rests += 1;
        std::thread::sleep(Duration::from_millis(if rests > 50 { 50 } else { 0 }));
        for raw in &mut raws {
            raw.send(&ids_request("orders", 90, 1, 500));
            let reply = raw.reply();
            match reply.status() {
                Status::Ok => {
                    let ids = reply.ids();
                    issued += ids.len() as u64;
                    if ids.iter().any(|id| *id >= claimed) {
                        recovered.get_or_insert_with(|| begun.elapsed());
                    }
                    drawn.add_ids("orders", &ids);
                }
                status => {
                    *drawn.errors.entry(format!("{status}: {}", reply.text())).or_default() += 1;
                }
            }
        }
    }
    report::<S>(fault, issued, &drawn, recovered);
    drawn.assert_sound();
    assert!(recovered.is_some(), "nothing is claimed any more");
}

/// Prevents hosts from seeing an intermediate state: to a host that sees a table without its rows, its tags were
/// deleted.
fn unseen_by(hosts: &[Host], change: impl FnOnce()) {
    hosts.iter().for_each(|host| host.signal(Signal::SIGSTOP));
    change();
    hosts.iter().for_each(|host| host.signal(Signal::SIGCONT));
}

/// The end of what is claimed, once the claims ahead of need have ended.
fn claimed_end<S: Server>(server: &S) -> u64 {
    let mut before = 0;
    eventually("claims ahead end", CLAIMS_WITHIN, || {
        let end = server.max_id("orders");
        let ended = end == before;
        before = end;
        std::thread::sleep(Duration::from_millis(200));
        ended.then_some(end)
    })
}

/// Draws 90 ids this many times.
#[track_caller]
fn draw(drawn: &mut Drawn, host: &Host, times: u32) {
    let mut raw = host.raw();
    for _ in 0..times {
        drawn.add_ids("orders", &raw.draw("orders", 90));
    }
}

/// Such an identity would reach logs and terminals.
fn an_identity_that_leafd_did_not_write_is_refused<S: Server>() {
    let server = S::new();
    let mut host = Host::on_store(&server.url());
    host.start();
    server.sql("UPDATE leafd_meta SET value = '\u{1b}[2J owned\u{7}' WHERE name = 'identity'");
    eventually("the store is refused", Duration::from_secs(60), || {
        store(&host).to_string().contains("it has control characters").then_some(())
    });
    let shown = [host.log(), store(&host).to_string()].concat();
    assert!(!shown.contains(['\u{1b}', '\u{7}']) && !shown.contains("owned"), "{shown:?}");
}

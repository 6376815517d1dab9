//! Rows that others wrote or damaged: nobody gets a number that may be in use.

use leafd_core::registry::{Entry, LeaseRecord, Mode};
use leafd_core::{UnixMs, WorkerId};

use crate::tables::Tables;
use crate::{entry, free, held, holding, refused, snapshot, take};

/// What a worker looks like that nobody can take.
fn for_ever(worker: u64) -> Entry {
    let holding = LeaseRecord { holder: None, expires: UnixMs(i64::MAX as u64) };
    Entry { worker: WorkerId(worker), holding, seen: UnixMs(0), written: UnixMs(0) }
}

/// Each is an update of one column, and how the error begins with it.
fn damage(backend: &mut impl Tables, damages: &[(&str, &str)]) {
    let mut registry = backend.connect(Mode::Leased);
    for (worker, (update, odd)) in (1..).zip(damages) {
        take(&mut *registry, worker, None, &held("a", 100)).unwrap();
        backend.sql(&format!("UPDATE leafd_worker SET {update} WHERE worker = {worker}"));
        assert_eq!(entry(&mut *registry, worker), Some(for_ever(worker)), "{update}");
        let parts = [*odd, &format!("worker {worker} ")];
        let seen = for_ever(worker).holding;
        for expected in [None, Some(&seen), Some(&held("a", 100))] {
            refused(take(&mut *registry, worker, expected, &held("b", 200)), &parts);
        }
    }
    let after = damages.len() as u64 + 1;
    take(&mut *registry, after, None, &held("a", 100)).unwrap();
    assert_eq!(snapshot(&mut *registry, 0..1024).entries.len() as u64, after);
    backend.sql("UPDATE leafd_worker SET holder = NULL, name = NULL, bound = 300, seen = 0, written = 0 WHERE worker = 1");
    take(&mut *registry, 1, Some(&free(300)), &held("b", 400)).unwrap();
}

pub fn damaged_rows_count_as_held_for_ever(backend: &mut impl Tables) {
    let long = format!("holder = '{}'", "h".repeat(255));
    damage(
        backend,
        &[
            ("bound = -1", "its bound is \"-1\""),
            ("bound = -9223372036854775808", "its bound is \"-9223372036854775808\""),
            ("seen = -5", "its seen is"),
            ("written = -5", "its written is"),
            ("holder = ''", "its holder is \"\""),
            ("holder = 'a b'", "its holder is \"a b\""),
            ("name = NULL", "its name is empty"),
            ("name = ''", "its name is \"\""),
            ("incarnation = NULL", "its incarnation is empty"),
            ("incarnation = 'x y'", "its incarnation is"),
        ],
    );
    // As odd as it is, that is a holder.
    let mut registry = backend.connect(Mode::Leased);
    take(&mut *registry, 700, None, &held("a", 1)).unwrap();
    backend.sql(&format!("UPDATE leafd_worker SET {long} WHERE worker = 700"));
    assert_eq!(holding(&mut *registry, 700).unwrap().holder.unwrap().id.len(), 255);
}

/// SQLite's columns take anything.
pub fn columns_of_any_type_count_as_held_for_ever(backend: &mut impl Tables) {
    let long = format!("holder = '{}'", "h".repeat(256));
    damage(
        backend,
        &[
            ("bound = 'soon'", "its bound is \"soon\""),
            ("bound = 1.5", "its bound is \"1.5\""),
            ("bound = 1e300", "its bound is \"1e300\""),
            ("bound = x'00'", "its bound is \"1 bytes\""),
            ("holder = x'ff'", "its holder is \"1 bytes\""),
            ("holder = 'Überall'", "its holder is"),
            ("holder = CAST(x'ff' AS text)", "its holder is"),
            (&long, "its holder is"),
        ],
    );
}

pub fn workers_outside_are_left_alone(backend: &mut impl Tables) {
    let row = |worker: &str| {
        format!(
            "INSERT INTO leafd_worker (worker, bound, seen, written) VALUES ({worker}, 1, 1, 1)"
        )
    };
    let mut registry = backend.connect(Mode::Leased);
    snapshot(&mut *registry, 0..0);
    for worker in ["-9223372036854775808", "-1", "5", "1024", "9223372036854775807"] {
        backend.sql(&row(worker));
    }
    let seen =
        |entries: Vec<Entry>| entries.into_iter().map(|entry| entry.worker.0).collect::<Vec<_>>();
    assert_eq!(seen(snapshot(&mut *registry, 0..1024).entries), [5]);
    assert_eq!(seen(snapshot(&mut *registry, 6..u64::MAX).entries), [1024]);
    refused(take(&mut *registry, 1 << 63, None, &held("a", 1)), &["9223372036854775808"]);
    refused(take(&mut *registry, u64::MAX, None, &held("a", 1)), &["18446744073709551615"]);
    let mut permanent = backend.connect(Mode::Permanent);
    let under = snapshot(&mut *permanent, 0..0).registry;
    // Where a leased host may be, no number is given.
    let given: Vec<u64> = (0..6)
        .map(|host| {
            permanent.assign(&under, 0..1024, &held(&host.to_string(), 5)).unwrap().worker.0
        })
        .collect();
    assert_eq!(given, [1, 2, 3, 4, 6, 7]);
}

pub fn a_layout_that_others_wrote_is_another(backend: &mut impl Tables) {
    let mut registry = backend.connect(Mode::Leased);
    let snowflake = [(leafd_core::Tag::parse(b"snowflake").unwrap(), leafd_wire::Layout::LEAF)];
    registry.register_layouts(&snowflake).unwrap();
    for definition in ["", "nonsense", "time_bits=41"] {
        backend.sql(&format!("UPDATE leafd_layout SET definition = '{definition}'"));
        refused(registry.register_layouts(&snowflake), &["\"snowflake\"", definition]);
    }
    backend.sql("DELETE FROM leafd_layout");
    registry.register_layouts(&snowflake).unwrap();
}

//! What every registry of workers must do, run against every backend. A backend is added by implementing
//! [`Backend`] and one line of `conformance!`.
#![allow(clippy::unwrap_used, reason = "the lint's exception for tests misses their helpers")]

mod bounds;
mod faults;
mod giving;
mod layouts;
mod leaf_sql;
#[path = "../store_conformance/mysql.rs"]
mod mysql;
#[path = "../../../tests/servers/mysqld.rs"]
mod mysqld;
mod odd_rows;
mod pools;
#[path = "../store_conformance/postgres.rs"]
mod postgres;
mod racing;
#[path = "../../../tests/servers/process.rs"]
mod server;
use server as process;
mod swapping;
mod tables;
mod takings;
mod together;
mod zookeeper;

use std::ops::Range;
use std::time::Duration;

use leafd::registry::Registry;
use leafd_core::registry::{
    CompareAndSet, Entry, Holder, LeaseRecord, Mode, RegistryError, Snapshot,
};
use leafd_core::store::StartToken;
use leafd_core::{UnixMs, WorkerId};

/// A throwaway registry, empty at first.
trait Backend {
    /// A new connection to it.
    fn connect(&mut self, mode: Mode) -> Box<dyn Registry>;

    /// Enters these workers as leased once and given back, with a bound of 1.
    fn fill(&mut self, workers: Range<u64>) {
        let mut registry = self.connect(Mode::Leased);
        for worker in workers {
            take(&mut *registry, worker, None, &free(1)).unwrap();
        }
    }
}

/// Makes a test of each check for a backend.
macro_rules! conformance {
    ($name:ident, $make:expr, if $runs:expr, $($module:ident :: $check:ident),+ $(,)?) => {
        mod $name {
            $(#[test]
            fn $check() {
                if $runs {
                    crate::$module::$check(&mut $make);
                }
            })+
        }
    };
    ($name:ident, $make:expr, $($module:ident :: $check:ident),+ $(,)?) => {
        conformance!($name, $make, if true, $($module::$check),+);
    };
    ($name:ident, $make:expr $(, if $runs:expr)?) => {
        conformance!($name, $make, $(if $runs,)?
            swapping::an_empty_registry_knows_nobody,
            swapping::a_worker_is_taken_once,
            swapping::only_who_knows_all_of_a_holding_replaces_it,
            swapping::a_worker_given_back_keeps_its_bound,
            swapping::a_repeated_swap_finds_itself,
            swapping::nothing_is_done_under_another_history,
            swapping::what_was_written_outlives_connections,
            swapping::holders_out_of_range_are_refused,
            swapping::numbers_are_not_given_where_they_are_leased,
            bounds::a_bound_is_judged_by_the_registrys_clock,
            bounds::bounds_reach_to_both_ends,
            bounds::a_conflict_is_told_before_a_bound,
            bounds::the_clock_goes_on,
            pools::a_look_shows_the_pool_in_order,
            pools::small_pools_are_seen_whole,
            pools::large_pools_are_seen_whole,
            racing::one_of_many_takes_a_worker,
            racing::no_renewal_is_lost,
            racing::one_definition_of_a_layout_wins,
            layouts::layouts_are_agreed_upon,
            layouts::a_layout_that_differs_records_nothing,
            giving::a_number_is_given_for_good,
            giving::hosts_at_once_get_numbers_of_their_own,
            giving::a_used_up_pool_is_told,
            giving::only_its_owner_renews_a_number,
            giving::nothing_is_given_under_another_history,
        );
    };
}

conformance!(on_sqlite, crate::tables::Embedded::new());
conformance!(on_mariadb, crate::mysql::Database::new());
conformance!(on_postgres, crate::postgres::Database::new());
conformance!(on_mysql, crate::mysql::Mysql::new(), if crate::mysqld::Engine::Mysql.is_tested());
conformance!(on_zookeeper, crate::zookeeper::Paths::new());

/// What every store is beside that: tables that others write to as well.
macro_rules! on_tables {
    ($name:ident, $make:expr, if $runs:expr $(, $module:ident :: $check:ident)*) => {
        conformance!($name, $make, if $runs,
            odd_rows::damaged_rows_count_as_held_for_ever,
            odd_rows::workers_outside_are_left_alone,
            odd_rows::a_layout_that_others_wrote_is_another,
            leaf_sql::numbers_given_for_good_are_not_leased,
            leaf_sql::numbers_that_the_forks_next_hosts_get_are_not_leased,
            leaf_sql::a_host_of_the_fork_is_taken_over_in_place,
            leaf_sql::numbers_count_on_from_the_highest,
            leaf_sql::odd_numbers_are_not_used,
            leaf_sql::leased_numbers_are_not_given,
            takings::former_holders_are_remembered,
            takings::a_number_given_for_good_is_remembered,
            takings::only_who_got_a_worker_is_remembered,
            faults::a_role_changes_nothing,
            faults::claims_and_swaps_share_a_connection,
            $($module::$check),*
        );
    };
    ($name:ident, $make:expr $(, $module:ident :: $check:ident)*) => {
        on_tables!($name, $make, if true $(, $module::$check)*);
    };
}

on_tables!(
    tables_of_sqlite,
    crate::tables::Embedded::new(),
    odd_rows::columns_of_any_type_count_as_held_for_ever
);
on_tables!(
    tables_of_mariadb,
    crate::mysql::Database::new(),
    faults::a_declared_loss_changes_the_history
);
on_tables!(
    tables_of_mysql,
    crate::mysql::Mysql::new(),
    if crate::mysqld::Engine::Mysql.is_tested(),
    faults::a_declared_loss_changes_the_history
);
on_tables!(
    tables_of_postgres,
    crate::postgres::Database::new(),
    faults::a_declared_loss_changes_the_history
);

/// More than any of the checks needs.
const HOUR: Duration = Duration::from_secs(3600);

fn holder(name: &str) -> Holder {
    Holder {
        id: format!("10.0.0.1:{name}").into(),
        name: name.into(),
        incarnation: StartToken(format!("life-of-{name}").into()),
    }
}

fn held(name: &str, bound: u64) -> LeaseRecord {
    LeaseRecord { holder: Some(holder(name)), expires: UnixMs(bound) }
}

fn free(bound: u64) -> LeaseRecord {
    LeaseRecord { holder: None, expires: UnixMs(bound) }
}

/// A swap that no clock stands in the way of.
fn compare_and_set(
    worker: u64,
    expected: Option<&LeaseRecord>,
    next: &LeaseRecord,
) -> CompareAndSet {
    CompareAndSet {
        worker: WorkerId(worker),
        expected: expected.cloned(),
        next: next.clone(),
        seen: UnixMs(7),
        ahead_max: HOUR,
    }
}

/// Swaps under whatever the registry says it is.
fn take(
    registry: &mut dyn Registry,
    worker: u64,
    expected: Option<&LeaseRecord>,
    next: &LeaseRecord,
) -> Result<UnixMs, RegistryError> {
    let under = snapshot(registry, 0..0).registry;
    registry.compare_and_set(&under, &compare_and_set(worker, expected, next))
}

fn snapshot(registry: &mut dyn Registry, pool: Range<u64>) -> Snapshot {
    registry.snapshot(pool).unwrap()
}

/// What is recorded of a worker.
fn entry(registry: &mut dyn Registry, worker: u64) -> Option<Entry> {
    let mut entries = snapshot(registry, worker..worker + 1).entries;
    assert!(entries.len() <= 1, "{entries:?}");
    entries.pop()
}

fn holding(registry: &mut dyn Registry, worker: u64) -> Option<LeaseRecord> {
    entry(registry, worker).map(|entry| entry.holding)
}

/// The swap found this instead of what it expected.
#[track_caller]
fn conflict(result: Result<UnixMs, RegistryError>, worker: u64, is: Option<&Entry>) {
    match result {
        Err(RegistryError::Conflict { worker: of, found }) => {
            assert_eq!((of, found.as_deref()), (WorkerId(worker), is));
        }
        other => panic!("{other:?}"),
    }
}

/// The call was refused with these words.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, RegistryError>, parts: &[&str]) {
    match result {
        Err(RegistryError::Refused(words)) => {
            for part in parts {
                assert!(words.contains(part), "{words:?} lacks {part:?}");
            }
        }
        other => panic!("{other:?}"),
    }
}

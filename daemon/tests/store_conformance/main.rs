//! What every store must do, run against every backend. A backend is added by implementing
//! [`Backend`] and one line of `conformance!`.
#![allow(clippy::unwrap_used, reason = "the lint's exception for tests misses their helpers")]

mod claims;
mod hosts;
mod mysql;
mod mysql_faults;
mod odd_rows;
mod postgres;
mod postgres_faults;
#[path = "../../../tests/servers/process.rs"]
mod server;
mod sqlite;
mod tags;
mod thread;
mod tls;

use leafd::id::Tag;
use leafd::store::{CEILING_MAX, Claim, ClaimWish, NewTag, Store};

/// A throwaway store, empty at first.
trait Backend {
    /// A new connection to it.
    fn connect(&mut self) -> Box<dyn Store>;

    /// Runs SQL as another program would that knows only Leaf's table.
    fn execute(&mut self, sql: &str);

    /// Whether its keys take names for the same that differ in trailing spaces only.
    fn folds_trailing_spaces(&self) -> bool {
        false
    }
}

/// Makes a test of each check for a backend.
macro_rules! conformance {
    ($name:ident, $make:expr, $($module:ident :: $check:ident),+ $(,)?) => {
        mod $name {
            $(#[test]
            fn $check() {
                crate::$module::$check(&mut $make);
            })+
        }
    };
    ($name:ident, $make:expr) => {
        conformance!($name, $make,
            claims::a_row_seeded_with_1_issues_1_first,
            claims::sizes_follow_want_step_and_step_max,
            claims::a_claim_is_cut_at_the_ceiling,
            claims::numbers_end_before_the_last_one,
            claims::connections_get_disjoint_numbers,
            claims::claims_outlive_connections,
            claims::a_row_set_back_gives_nothing_twice,
            claims::a_claim_by_another_program_is_respected,
            claims::raise_lifts_and_never_lowers,
            tags::unknown_tags_are_said_so,
            tags::a_created_tag_is_shown_as_created,
            tags::a_tag_is_created_once,
            tags::values_out_of_range_are_refused,
            tags::set_changes_only_what_it_names,
            tags::lists_come_in_pages,
            tags::tags_are_told_apart_byte_for_byte,
            tags::the_longest_tag_fits,
            tags::a_deleted_tag_comes_back_as_another,
            tags::generations_are_answered_in_order,
            tags::a_row_by_another_program_is_a_tag,
            hosts::a_host_checks_in,
            hosts::a_stale_journal_is_told,
            hosts::a_repeated_check_in_is_current,
            hosts::identity_stays,
            odd_rows::max_id_below_1_is_claimed_from_1,
            odd_rows::max_id_near_the_end_never_wraps,
            odd_rows::odd_steps_count_as_1,
            odd_rows::odd_rows_are_listed_as_they_are,
        );
    };
}

conformance!(on_sqlite, crate::sqlite::Throwaway::new());
conformance!(on_mariadb, crate::mysql::Database::new());
conformance!(on_postgres, crate::postgres::Database::new());

fn tag(name: &str) -> Tag {
    Tag::parse(name.as_bytes()).unwrap()
}

fn new_tag(name: &str, start: u64, step: u64) -> NewTag {
    NewTag { tag: tag(name), start, step, ceiling: CEILING_MAX, description: None }
}

/// Claims `want` numbers, with the tag's step counting up to 1,000.
fn claim(store: &mut dyn Store, name: &str, want: u64) -> Claim {
    store.claim(&tag(name), ClaimWish { want, step_max: 1000 }).unwrap()
}

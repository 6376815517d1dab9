//! What every store must do, run against every backend. A backend is added by implementing
//! [`Backend`] and one line of `conformance!`.
#![allow(clippy::unwrap_used, reason = "the lint's exception for tests misses their helpers")]

mod aurora;
mod claims;
mod engines;
mod faults;
mod history;
mod hosts;
mod identity;
mod life;
mod mysql;
#[path = "../../../tests/servers/mysqld.rs"]
mod mysqld;
mod odd_rows;
mod postgres;
mod privileges;
mod raising;
#[path = "../../../tests/servers/process.rs"]
mod server;
use server as process;
mod sqlite;
mod standbys;
mod strict;
mod tags;
mod thread;
mod tls;

use leafd::store::Store;
use leafd_core::Tag;
use leafd_core::store::{
    CEILING_MAX, CheckIn, Claim, ClaimWish, Generation, HostId, NewTag, StartToken, StoreError,
    TagRow, TagTerms,
};

/// A throwaway store, empty at first.
trait Backend {
    /// A new connection to it.
    fn connect(&mut self) -> Box<Store>;

    /// Runs SQL as another program would that knows only Leaf's table.
    fn execute(&mut self, sql: &str);

    /// Whether its keys take names for the same that differ in trailing spaces only.
    fn folds_trailing_spaces(&self) -> bool {
        false
    }
}

impl<K: mysqld::Kind> Backend for mysql::On<K> {
    fn connect(&mut self) -> Box<Store> {
        self.connect_as("root")
    }

    fn execute(&mut self, sql: &str) {
        mysql::On::execute(self, sql);
    }

    fn folds_trailing_spaces(&self) -> bool {
        true
    }
}

impl Backend for postgres::Database {
    fn connect(&mut self) -> Box<Store> {
        self.connect_as("postgres")
    }

    fn execute(&mut self, sql: &str) {
        postgres::Database::execute(self, sql);
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
            claims::a_row_seeded_with_1_issues_1_first,
            claims::sizes_follow_want_step_and_step_max,
            claims::a_claim_is_cut_at_the_ceiling,
            claims::numbers_end_before_the_last_one,
            claims::connections_get_disjoint_numbers,
            claims::claims_outlive_connections,
            claims::a_row_set_back_is_refused_in_words,
            claims::a_row_made_anew_by_sql_is_refused_until_a_command_helps,
            claims::a_claim_by_another_program_is_respected,
            claims::a_step_changed_by_another_program_counts,
            raising::raise_lifts_and_never_lowers,
            raising::many_are_raised_at_once,
            raising::the_higher_of_two_ends_counts,
            raising::what_a_missing_tag_was_raised_to_is_remembered,
            raising::daemons_raise_at_once,
            raising::ends_are_told_of_rows_and_of_names_alone,
            raising::look_up_knows_where_the_next_claim_starts,
            strict::a_strict_tag_gives_what_is_wanted,
            strict::a_strict_tag_that_one_host_holds_is_kept_from_others,
            strict::a_strict_tag_is_told_from_others,
            strict::a_masked_tag_tells_its_mask_with_each_claim,
            strict::the_mask_of_a_tag_without_a_row_is_not_guessed,
            strict::a_host_with_mask_keys_says_that_a_lost_tag_may_have_been_masked,
            identity::under_another_identity_nothing_is_done,
            identity::a_role_is_taken_once,
            identity::one_of_many_roles_is_taken,
            identity::a_role_is_replaced_by_who_knows_it,
            identity::no_claim_outlasts_its_role,
            identity::roles_out_of_range_are_refused,
            tags::unknown_tags_are_said_so,
            tags::a_created_tag_is_shown_as_created,
            tags::a_tag_is_created_once,
            tags::an_unfinished_tag_gives_no_ids_until_it_has_a_ceiling,
            tags::values_out_of_range_are_refused,
            tags::set_changes_only_what_it_names,
            tags::lists_come_in_pages,
            tags::tags_are_told_apart_byte_for_byte,
            tags::the_longest_tag_fits,
            tags::a_deleted_tag_comes_back_as_another,
            tags::a_tag_is_deleted_by_who_has_seen_it,
            tags::what_is_left_of_a_deleted_tag_is_another_s,
            tags::look_ups_are_answered_in_order,
            tags::a_row_by_another_program_is_a_tag,
            hosts::a_host_checks_in,
            hosts::a_stale_journal_is_told,
            hosts::a_repeated_check_in_is_current,
            hosts::identity_stays,
            hosts::the_first_host_s_mask_key_counts,
            hosts::who_uses_a_static_worker_number_is_told_of_the_others,
            history::a_claim_is_remembered_with_who_made_it,
            history::ids_of_independent_primaries_are_told_from_their_neighbours,
            history::odd_claims_are_told_as_they_were,
            history::claims_of_strict_tags_are_not_remembered,
            history::old_claims_are_forgotten_in_batches,
            history::hosts_forget_at_once,
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
conformance!(on_mysql, crate::mysql::Mysql::new(), if crate::mysqld::Engine::Mysql.is_tested());
conformance!(
    life_on_mariadb,
    crate::mysql::Database::new(),
    identity::set_back_in_place_it_has_another_history,
    life::a_note_that_is_not_true_is_renewed_once,
    life::a_host_whose_last_write_is_gone_claims_nothing,
    life::a_copy_of_a_host_stops_the_earlier_start,
    life::a_write_of_an_earlier_start_that_comes_back_is_a_loss,
    life::a_start_that_the_store_has_lost_begins_a_new_life,
    life::a_new_host_has_lost_nothing,
);
conformance!(
    life_on_mysql,
    crate::mysql::Mysql::new(),
    if crate::mysqld::Engine::Mysql.is_tested(),
    life::a_note_that_is_not_true_is_renewed_once,
    life::a_host_whose_last_write_is_gone_claims_nothing,
    life::a_copy_of_a_host_stops_the_earlier_start,
    life::a_write_of_an_earlier_start_that_comes_back_is_a_loss,
    life::a_start_that_the_store_has_lost_begins_a_new_life,
    life::a_new_host_has_lost_nothing,
);
conformance!(
    life_on_postgres,
    crate::postgres::Database::new(),
    identity::set_back_in_place_it_has_another_history,
    life::a_note_that_is_not_true_is_renewed_once,
    life::a_host_whose_last_write_is_gone_claims_nothing,
    life::a_copy_of_a_host_stops_the_earlier_start,
    life::a_write_of_an_earlier_start_that_comes_back_is_a_loss,
    life::a_start_that_the_store_has_lost_begins_a_new_life,
    life::a_new_host_has_lost_nothing,
);

fn tag(name: &str) -> Tag {
    Tag::parse(name.as_bytes()).unwrap()
}

fn new_tag(name: &str, start: u64, step: u64) -> NewTag {
    NewTag {
        tag: tag(name),
        start,
        step,
        ceiling: CEILING_MAX,
        strict: false,
        masked: None,
        description: None,
    }
}

/// Claims `want` numbers, with the tag's step counting up to 1,000.
fn claim(store: &mut Store, name: &str, want: u64) -> Claim {
    try_claim(store, &tag(name), ClaimWish::new(want, 1000)).unwrap()
}

// Calls under whatever the store says it is.

fn try_claim(store: &mut Store, tag: &Tag, wish: ClaimWish) -> Result<Claim, StoreError> {
    let under = store.identity()?;
    store.claim(None, &under, tag, wish, None)
}

fn create(store: &mut Store, new: &NewTag) -> Result<TagRow, StoreError> {
    let under = store.identity()?;
    store.create(&under, new)
}

fn look_up(store: &mut Store, tags: &[Tag]) -> Vec<Option<TagTerms>> {
    let under = store.identity().unwrap();
    store.look_up(&under, tags).unwrap()
}

fn generations(store: &mut Store, tags: &[Tag]) -> Vec<Option<Generation>> {
    look_up(store, tags).into_iter().map(|terms| Some(terms?.generation)).collect()
}

/// A claim is refused, in words that name these.
#[track_caller]
fn refused_in_words(store: &mut Store, name: &str, parts: &[&str]) {
    match try_claim(store, &tag(name), ClaimWish::new(1, 1000)) {
        Err(StoreError::Refused(words)) => {
            for part in parts {
                assert!(words.contains(part), "{words:?} lacks {part:?}");
            }
        }
        other => panic!("{other:?}"),
    }
}

fn raise(store: &mut Store, name: &str, end: u64) -> bool {
    let under = store.identity().unwrap();
    store.raise(&under, &[(tag(name), end)], false).unwrap()[0]
}

fn check_in(store: &mut Store, host: &HostId, known: &[StartToken], next: &StartToken) -> CheckIn {
    let under = store.identity().unwrap();
    store.check_in(&under, host, known, next).unwrap()
}

//! A dialect of SQL: its statements and its tables.

use super::tables::Layout;
use super::{history, leases};

/// What distinguishes one kind of store from another, but for how to connect to it.
#[derive(Debug)]
pub struct Dialect {
    /// The statements for tags.
    pub sql: Statements,
    /// The statements for the tables of workers.
    pub workers: &'static leases::Statements,
    /// The statements for the records of past claims and workers.
    pub history: &'static history::Statements,
    /// The tables, Leaf's first, and for each column the types that leafd accepts.
    pub tables: &'static [Layout],
    /// What stands before the number of a parameter. The driver takes parameters under such names.
    pub placeholder_prefix: &'static str,
    /// Whether only one host uses the store. Then no other host has to learn of commits that the store lost, and other
    /// means distinguish a copy from the original.
    pub embedded: bool,
}

/// The statements in one dialect. Their parameters are in the order that each one's comment gives.
#[derive(Debug)]
pub struct Statements {
    pub begin: &'static str,
    /// The cells for the store's name, its role and its note, and the number of the last write of the host that is the
    /// first parameter, with the start token under which it was made.
    pub head: &'static str,
    /// NULLs in their place.
    pub head_plain: &'static str,
    /// What `head` is selected from.
    pub meta_rows: &'static str,
    /// The eleven columns that `rows` reads.
    pub row: &'static str,
    /// The same from Leaf's table alone.
    pub row_plain: &'static str,
    /// Follows `meta_rows`, and ends before a list of tags in parentheses: a row for each tag, or one row without a tag
    /// if none exists.
    pub tag_rows: &'static str,
    /// What the eleven columns of Leaf's table alone are selected from; ends like `tag_rows`.
    pub tag_rows_plain: &'static str,
    /// Ends before a list of tags in parentheses. Keeps others from changing the rows that `find` then finds. This is
    /// a statement of its own, because a query that waits for a lock sees the tables that it joins as they were before
    /// the wait.
    pub lock: &'static str,
    /// Follows the list of `lock`. It locks in the key's order, so that two daemons never wait for each other.
    pub locking: &'static str,
    /// Keeps others from changing the role. Empty, as is `lock`, in a dialect in which only one transaction can write at
    /// a time.
    pub lock_role: &'static str,
    /// Selects the eleven columns; ends before the conditions.
    pub list: &'static str,
    /// Like `list`, from Leaf's table alone.
    pub list_plain: &'static str,
    /// (tag, old `max_id`, new `max_id`): changes one row, if it is still as it was found.
    pub set_max_id: &'static str,
    /// Follows a list of columns that change, if the table doesn't update the time of the change by itself.
    pub touch: &'static str,
    /// (tag, step)
    pub set_step: &'static str,
    /// (tag, description)
    pub set_description: &'static str,
    /// (tag, start, step, description)
    pub insert_row: &'static str,
    /// (tag): the end of what was ever claimed under a name, and how its ids were masked.
    pub claimed_end: &'static str,
    /// (name, limit): names after this one in the order of their bytes, each with the end that the store remembers.
    pub ends: &'static str,
    /// (tag, end, version of the right to claim, version that the row has): what a claim writes to leafd's row of the
    /// tag. It changes one row, unless the right to claim was taken away.
    pub record_claim: &'static str,
    /// (tag, end, version of the right to claim, version that the row has, number of the host's write, host, number of
    /// its last write): the same, and enters a write of the host. It changes nothing if the host's last write is
    /// another one.
    pub record_claim_of_host: &'static str,
    /// (number of the host's write, host, number of its last write): enters a write of the host.
    pub prove: &'static str,
    /// (tag, end, version of the right to claim): the same as `record_claim` if leafd has no row of the tag.
    pub enter_claim: &'static str,
    /// (value, pattern that the old value must match): writes the row that every change of the right to claim writes,
    /// see `Session`.
    pub take_right: &'static str,
    /// (value): the same, whatever the old value was.
    pub set_right: &'static str,
    /// (version, former version): changes the version of the rights in leafd's rows of the tags.
    pub move_rights: &'static str,
    /// Ends before a list of (tag, end, masked), each in parentheses.
    pub remember_ends: &'static str,
    /// Follows that list. In a row that exists it leaves the mask as it is.
    pub remembering: &'static str,
    /// (tag, generation, ceiling, strict, masked)
    pub enter_tag: &'static str,
    /// (tag): makes a row for the name, if it has none.
    pub enter_name: &'static str,
    /// (tag)
    pub delete_row: &'static str,
    /// (tag, generation of the next tag of the name, end)
    pub leave_tombstone: &'static str,
    /// (tag, ceiling)
    pub set_ceiling: &'static str,
    /// (host): its start token and the number of its last write; locks its row.
    pub host_token: &'static str,
    /// (host, token, number of the write)
    pub enter_host: &'static str,
    /// Table, column and type of every column in the tables that leafd knows.
    pub columns: &'static str,
    /// A row of words for each reason why claims from Leaf's table would not be safe.
    pub defects: &'static str,
    /// (role)
    pub set_role: &'static str,
    /// (new text, old text): replaces the note in `leafd_meta`.
    pub swap_note: &'static str,
    /// The setting with which a server acknowledges commits that are not on disk, and its value, if it has that.
    pub lax: &'static str,
    /// The server's clock, in milliseconds of Unix time.
    pub now_ms: &'static str,
    /// (name, value): makes a row of `leafd_meta`, if there is none of this name.
    pub enter_meta: &'static str,
    /// (name, value): changes a row of `leafd_meta` that exists.
    pub set_meta: &'static str,
    /// Name and value of every row in `leafd_meta`.
    pub meta: &'static str,
}

impl Dialect {
    /// How a statement refers to the parameter with this number. The first is 1.
    pub fn placeholder(&self, number: usize) -> String {
        format!("{}{number}", self.placeholder_prefix)
    }
}

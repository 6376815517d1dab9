//! The privileges that leafd needs in a database, which `leafd doctor` checks.

/// The purpose of a privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To claim ids.
    Claims,
    /// To delete the records of old claims.
    Forgetting,
    /// To create and delete tags. The database's owner may do that instead.
    Tags,
    /// To lease workers.
    Workers,
    /// To assign permanent workers.
    Permanent,
}

/// Privileges, as a GRANT names them, on tables.
type Grant = (Purpose, &'static [&'static str], &'static [&'static str]);

/// All required privileges. leafd's own tables among them may not exist.
const GRANTS: [Grant; 9] = [
    (Purpose::Claims, &["SELECT", "UPDATE"], &["leaf_alloc"]),
    (Purpose::Claims, &["SELECT", "INSERT", "UPDATE"], &["leafd_meta", "leafd_tag", "leafd_host"]),
    (Purpose::Claims, &["SELECT", "INSERT"], &["leafd_claim"]),
    (Purpose::Forgetting, &["DELETE"], &["leafd_claim"]),
    (Purpose::Tags, &["INSERT", "DELETE"], &["leaf_alloc"]),
    (Purpose::Workers, &["SELECT", "INSERT", "UPDATE"], &["leafd_worker", "leafd_layout"]),
    (Purpose::Workers, &["SELECT", "INSERT"], &["leafd_worker_taken"]),
    (Purpose::Workers, &["SELECT"], &["leaf_workerid_alloc"]),
    (Purpose::Permanent, &["INSERT", "UPDATE"], &["leaf_workerid_alloc"]),
];

/// The privileges that leafd needs on a table, with their purposes.
pub(super) fn on(table: &str) -> impl Iterator<Item = (&'static str, Purpose)> {
    let grants = GRANTS.iter().filter(move |(_, _, tables)| tables.contains(&table));
    grants.flat_map(|&(purpose, privileges, _)| {
        privileges.iter().map(move |&privilege| (privilege, purpose))
    })
}

//! The rights that leafd needs in a database: what it asks for when it is denied one, and what `leafd doctor` tries.

/// What leafd needs a right for.
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
    /// To have permanent workers.
    Permanent,
}

/// Rights, as a GRANT names them, on tables.
type Grant = (Purpose, &'static [&'static str], &'static [&'static str]);

/// All that are needed. Of the tables that a purpose needs, those of leafd may not be there.
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

/// The rights that leafd needs on a table, and what for.
pub(super) fn on(table: &str) -> impl Iterator<Item = (&'static str, Purpose)> {
    let grants = GRANTS.iter().filter(move |(_, _, tables)| tables.contains(&table));
    grants.flat_map(|&(purpose, rights, _)| rights.iter().map(move |&right| (right, purpose)))
}

/// All of them in words.
pub(super) fn in_words() -> String {
    let needs = |purpose| {
        let grants = GRANTS.iter().filter(|(of, ..)| *of == purpose);
        let words =
            grants.map(|(_, rights, tables)| format!("{} on {}", list(rights), list(tables)));
        words.collect::<Vec<_>>().join("; ")
    };
    format!(
        "Claims need {}, where they exist. To forget old ones needs {}. To create and delete tags needs {} as well. \
         Snowflake workers need {}; permanent workers also need {}",
        needs(Purpose::Claims),
        needs(Purpose::Forgetting),
        needs(Purpose::Tags),
        needs(Purpose::Workers),
        needs(Purpose::Permanent)
    )
}

fn list(names: &[&str]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => names.concat(),
    }
}

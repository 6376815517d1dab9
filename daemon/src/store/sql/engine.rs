//! The database engines that speak PostgreSQL's or MySQL's protocol: how leafd recognises each, and whether it can be
//! used as a store. An engine that is missing here identifies itself as PostgreSQL, MySQL or MariaDB, and is treated as
//! that.

/// The engine that answers at a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Its name in messages.
    name: &'static str,
    /// How it differs from what claims rely on, if leafd was not tested on it. The others are tested, or documented as
    /// a tested engine on different storage or replication.
    untested: Option<&'static str>,
}

const NO_XMIN: &str = "it has no xmin, which leafd needs to detect a reloaded table";

/// Group Replication whose servers all accept writes.
const GROUP_OF_PRIMARIES: Engine = Engine::untested(
    "Group Replication with several primaries",
    "hosts on different servers see different histories, and get no workers: use a single primary \
     (group_replication_single_primary_mode = ON)",
);

impl Engine {
    /// A cluster of MariaDB servers, or Percona XtraDB Cluster.
    pub const GALERA: Engine = Engine::tested("Galera");

    const fn tested(name: &'static str) -> Engine {
        Engine { name, untested: None }
    }

    const fn untested(name: &'static str, why: &'static str) -> Engine {
        Engine { name, untested: Some(why) }
    }

    /// Recognises a server by the result of `version()`, and by whether it has the function `aurora_version`.
    pub fn of_postgres(version: &str, is_aurora: bool) -> Engine {
        match version {
            _ if version.contains("CockroachDB") => Engine::untested("CockroachDB", NO_XMIN),
            _ if version.contains("-YB-") => Engine::untested("YugabyteDB", NO_XMIN),
            _ if is_aurora => Engine::tested("Aurora PostgreSQL"),
            _ => Engine::tested("PostgreSQL"),
        }
    }

    /// Recognises a server by those of the variables `version`, `version_comment`, `wsrep_on`, `aurora_version`,
    /// `group_replication_group_name` and `group_replication_single_primary_mode` that it has.
    pub fn of_mysql(variables: &[(String, String)]) -> Engine {
        let value = |name: &str| {
            let found = variables.iter().find(|(is, _)| is.eq_ignore_ascii_case(name));
            found.map_or("", |(_, value)| value.as_str())
        };
        let says = |word: &str| {
            let words = format!("{} {}", value("version"), value("version_comment"));
            words.to_ascii_lowercase().contains(word)
        };
        match () {
            () if says("tidb") => {
                Engine::untested("TiDB", "each of its servers reports its own identity")
            }
            () if says("vitess") || says("planetscale") => {
                Engine::untested("Vitess", "its tablets report different identities in turn")
            }
            () if says("oceanbase") => {
                Engine::untested("OceanBase", "its row locks differ from MySQL's")
            }
            () if !value("aurora_version").is_empty() => Engine::tested("Aurora MySQL"),
            () if value("wsrep_on").eq_ignore_ascii_case("on") => Engine::GALERA,
            () if !value("group_replication_group_name").is_empty() => {
                match value("group_replication_single_primary_mode") {
                    "OFF" => GROUP_OF_PRIMARIES,
                    _ => Engine::tested("Group Replication"),
                }
            }
            () if says("mariadb") => Engine::tested("MariaDB"),
            () => Engine::tested("MySQL"),
        }
    }

    /// Whether its servers together are one store that loses no acknowledged commit. If so, a switch from one server to
    /// another is not a fail-over.
    pub fn is_one_store(self) -> bool {
        self == Engine::GALERA
    }

    /// Refuses an engine that leafd was not tested on, unless the setting `untested_engine` allows it.
    ///
    /// # Errors
    /// A text that names the engine, says why it is refused, and which setting allows it.
    pub fn check(self, untested_engine: bool) -> Result<(), String> {
        match self.untested {
            Some(why) if !untested_engine => Err(format!(
                "it is {}, on which leafd is not tested: {why}. Ids could be issued twice there; if you have tested \
                 it, set untested_engine = true",
                self.name
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_told_by_what_they_say() {
        let postgres = [
            ("PostgreSQL 15.8 (Debian 15.8-0+deb12u1) on x86_64-pc-linux-gnu", "PostgreSQL"),
            ("CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu)", "CockroachDB"),
            ("PostgreSQL 11.2-YB-2.20.0.0-b0 on x86_64", "YugabyteDB"),
        ];
        for (version, engine) in postgres {
            assert_eq!(Engine::of_postgres(version, false).name, engine, "{version}");
        }
        let aurora = Engine::of_postgres("PostgreSQL 15.4 on aarch64-unknown-linux-gnu", true);
        assert_eq!(aurora.name, "Aurora PostgreSQL");
        let mysql: [(&[(&str, &str)], &str); 11] = [
            (&[("version", "8.0.36"), ("wsrep_on", "OFF")], "MySQL"),
            (&[("version", "10.11.6-MariaDB-0+deb12u1")], "MariaDB"),
            (&[("version", "10.11.6-MariaDB"), ("wsrep_on", "ON")], "Galera"),
            (&[("version", "8.0.35-27.1"), ("wsrep_on", "ON")], "Galera"),
            (&[("version", "8.0.28"), ("aurora_version", "3.04.0")], "Aurora MySQL"),
            (&[("version", "8.0.11-TiDB-v8.5.0")], "TiDB"),
            (&[("version", "8.0.30-Vitess")], "Vitess"),
            (&[("version", "5.7.25-OceanBase-v4.2.1.0")], "OceanBase"),
            (
                &[("version", "8.0.36"), ("group_replication_group_name", "3e11fa47")],
                "Group Replication",
            ),
            (
                &[
                    ("group_replication_group_name", "3e11fa47"),
                    ("group_replication_single_primary_mode", "ON"),
                ],
                "Group Replication",
            ),
            (
                &[
                    ("group_replication_group_name", "3e11fa47"),
                    ("group_replication_single_primary_mode", "OFF"),
                ],
                "Group Replication with several primaries",
            ),
        ];
        for (variables, engine) in mysql {
            let variables: Vec<(String, String)> = variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            assert_eq!(Engine::of_mysql(&variables).name, engine, "{variables:?}");
        }
    }

    #[test]
    fn an_untested_engine_is_refused_by_name_until_it_is_let_in() {
        let cockroach = Engine::of_postgres("CockroachDB CCL v24.1.0", false);
        let words = cockroach.check(false).unwrap_err();
        assert!(
            words.contains("CockroachDB") && words.contains("untested_engine = true"),
            "{words}"
        );
        assert_eq!(cockroach.check(true), Ok(()));
        let words = GROUP_OF_PRIMARIES.check(false).unwrap_err();
        assert!(words.contains("group_replication_single_primary_mode = ON"), "{words}");
        assert_eq!(Engine::GALERA.check(false), Ok(()));
    }
}

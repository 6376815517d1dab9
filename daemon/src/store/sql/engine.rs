//! The database engines that speak PostgreSQL's or MySQL's protocol: how leafd recognises each, and how far it can be
//! used as a store. The list is closed: an engine that is missing here calls itself PostgreSQL, MySQL or MariaDB, and
//! is treated as that.

/// The engine that answers at a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    PostgreSql,
    AuroraPostgreSql,
    CockroachDb,
    YugabyteDb,
    MySql,
    MariaDb,
    /// A cluster of MariaDB servers, or Percona XtraDB Cluster.
    Galera,
    GroupReplication,
    /// Group Replication whose servers all take writes.
    GroupOfPrimaries,
    AuroraMySql,
    TiDb,
    Vitess,
    OceanBase,
}

impl Engine {
    /// Recognises a server by what `version()` says, and whether it has the function `aurora_version`.
    pub fn of_postgres(version: &str, is_aurora: bool) -> Engine {
        match version {
            _ if version.contains("CockroachDB") => Engine::CockroachDb,
            _ if version.contains("-YB-") => Engine::YugabyteDb,
            _ if is_aurora => Engine::AuroraPostgreSql,
            _ => Engine::PostgreSql,
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
            () if says("tidb") => Engine::TiDb,
            () if says("vitess") || says("planetscale") => Engine::Vitess,
            () if says("oceanbase") => Engine::OceanBase,
            () if !value("aurora_version").is_empty() => Engine::AuroraMySql,
            () if value("wsrep_on").eq_ignore_ascii_case("on") => Engine::Galera,
            () if !value("group_replication_group_name").is_empty() => {
                match value("group_replication_single_primary_mode") {
                    "OFF" => Engine::GroupOfPrimaries,
                    _ => Engine::GroupReplication,
                }
            }
            () if says("mariadb") => Engine::MariaDb,
            () => Engine::MySql,
        }
    }

    /// Its name in messages.
    fn name(self) -> &'static str {
        match self {
            Engine::PostgreSql => "PostgreSQL",
            Engine::AuroraPostgreSql => "Aurora PostgreSQL",
            Engine::CockroachDb => "CockroachDB",
            Engine::YugabyteDb => "YugabyteDB",
            Engine::MySql => "MySQL",
            Engine::MariaDb => "MariaDB",
            Engine::Galera => "Galera",
            Engine::GroupReplication => "Group Replication",
            Engine::GroupOfPrimaries => "Group Replication with several primaries",
            Engine::AuroraMySql => "Aurora MySQL",
            Engine::TiDb => "TiDB",
            Engine::Vitess => "Vitess",
            Engine::OceanBase => "OceanBase",
        }
    }

    /// In what an engine that leafd was not tested on differs from what claims rely on. The others are tested, or
    /// according to their documentation a tested engine with another storage or replication below.
    fn untested(self) -> Option<&'static str> {
        match self {
            Engine::CockroachDb | Engine::YugabyteDb => {
                Some("it has no xmin, which leafd needs to notice a table that was filled again")
            }
            Engine::TiDb => Some("each of its servers reports an identity of its own"),
            Engine::GroupOfPrimaries => Some(
                "hosts on different servers see different histories, and get no workers: have one primary \
                 (group_replication_single_primary_mode = ON)",
            ),
            Engine::Vitess => Some("its tablets report different identities in turn"),
            Engine::OceanBase => Some("its row locks differ from MySQL's"),
            Engine::PostgreSql
            | Engine::AuroraPostgreSql
            | Engine::MySql
            | Engine::MariaDb
            | Engine::Galera
            | Engine::GroupReplication
            | Engine::AuroraMySql => None,
        }
    }

    /// Whether its servers together are one store that loses no acknowledged commit. Then it is no fail-over when
    /// leafd moves from one server to another.
    pub fn is_one_store(self) -> bool {
        self == Engine::Galera
    }

    /// Refuses an engine that leafd was not tested on, unless the setting `untested_engine` allows it.
    ///
    /// # Errors
    /// A text that names the engine, says why it is refused, and which setting allows it.
    pub fn check(self, untested_engine: bool) -> Result<(), String> {
        match self.untested() {
            Some(why) if !untested_engine => Err(format!(
                "it is {}, on which leafd was not tested: {why}. Ids could be issued twice there; if you have tested \
                 it, set untested_engine = true",
                self.name()
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
            ("PostgreSQL 15.8 (Debian 15.8-0+deb12u1) on x86_64-pc-linux-gnu", Engine::PostgreSql),
            ("CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu)", Engine::CockroachDb),
            ("PostgreSQL 11.2-YB-2.20.0.0-b0 on x86_64", Engine::YugabyteDb),
        ];
        for (version, engine) in postgres {
            assert_eq!(Engine::of_postgres(version, false), engine, "{version}");
        }
        let aurora = Engine::of_postgres("PostgreSQL 15.4 on aarch64-unknown-linux-gnu", true);
        assert_eq!(aurora, Engine::AuroraPostgreSql);
        let mysql: [(&[(&str, &str)], Engine); 11] = [
            (&[("version", "8.0.36"), ("wsrep_on", "OFF")], Engine::MySql),
            (&[("version", "10.11.6-MariaDB-0+deb12u1")], Engine::MariaDb),
            (&[("version", "10.11.6-MariaDB"), ("wsrep_on", "ON")], Engine::Galera),
            (&[("version", "8.0.35-27.1"), ("wsrep_on", "ON")], Engine::Galera),
            (&[("version", "8.0.28"), ("aurora_version", "3.04.0")], Engine::AuroraMySql),
            (&[("version", "8.0.11-TiDB-v8.5.0")], Engine::TiDb),
            (&[("version", "8.0.30-Vitess")], Engine::Vitess),
            (&[("version", "5.7.25-OceanBase-v4.2.1.0")], Engine::OceanBase),
            (
                &[("version", "8.0.36"), ("group_replication_group_name", "3e11fa47")],
                Engine::GroupReplication,
            ),
            (
                &[
                    ("group_replication_group_name", "3e11fa47"),
                    ("group_replication_single_primary_mode", "ON"),
                ],
                Engine::GroupReplication,
            ),
            (
                &[
                    ("group_replication_group_name", "3e11fa47"),
                    ("group_replication_single_primary_mode", "OFF"),
                ],
                Engine::GroupOfPrimaries,
            ),
        ];
        for (variables, engine) in mysql {
            let variables: Vec<(String, String)> = variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            assert_eq!(Engine::of_mysql(&variables), engine, "{variables:?}");
        }
    }

    #[test]
    fn an_untested_engine_is_refused_by_name_until_it_is_let_in() {
        let words = Engine::TiDb.check(false).unwrap_err();
        assert!(words.contains("TiDB") && words.contains("untested_engine = true"), "{words}");
        assert_eq!(Engine::TiDb.check(true), Ok(()));
        let words = Engine::GroupOfPrimaries.check(false).unwrap_err();
        assert!(words.contains("group_replication_single_primary_mode = ON"), "{words}");
        assert_eq!(Engine::Galera.check(false), Ok(()));
    }
}

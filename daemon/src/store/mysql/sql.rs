//! The dialect of MySQL and MariaDB, and the queries for their identity.

use crate::store::sql::{ColumnKind, Dialect, Param, Signs, with_params};

/// The comment of Leaf's table.
pub(super) const REMARK: &str = "SELECT TABLE_COMMENT FROM information_schema.TABLES
    WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'leaf_alloc'";

/// What distinguishes a server from others. Each kind of server has some of these variables.
pub(super) const SERVER: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN
    ('server_uuid', 'server_uid', 'hostname', 'port', 'server_id')";

/// The same for a Galera cluster, whose nodes all give the same answer.
pub(super) const CLUSTER: &str = "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_state_uuid'";

/// A server's position: how far its storage engine has written to disk. It only increases while its files remain.
pub(super) const POSITION: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN
    ('Innodb_lsn_flushed', 'Innodb_redo_log_flushed_to_disk_lsn')";

/// The same for a Galera cluster: how often its members have changed. A cluster that is bootstrapped again begins at 1.
pub(super) const CLUSTER_POSITION: &str = "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_conf_id'";

/// The members of a Galera cluster, as a node knows them.
pub(super) const MEMBERS: &str = "SHOW GLOBAL STATUS LIKE 'wsrep_incoming_addresses'";

/// The query for a server's identity. `server` are the names and values of the variables above.
///
/// `life` is what distinguishes the tables from others that replace them. For Leaf's table: its comment, which contains
/// the mark, and when it was created or last altered. For `leafd_tag`, which remembers what was claimed if Leaf's table
/// is rolled back: when it was created, and when its row without a name was inserted, see [`DIALECT`]. NULL when one of
/// these is missing. Every claim runs this query, which takes about 50 microseconds. Once a claim has locked its row,
/// the table can't be recreated until the claim ends.
///
/// In a cluster that is one store, the nodes differ in their variables and in the tables' creation times. There the
/// query returns the cluster's name as of the opening of the connection, and omits those times.
pub(super) fn signs(is_one_store: bool, server: &[(String, String)]) -> Signs {
    let server = server.iter().map(|(name, value)| match is_one_store {
        true => format!("'{}={}'", name, value.replace(['\'', '\\'], "")),
        false => format!("CONCAT('{name}=', @@GLOBAL.{name})"),
    });
    let server: Vec<String> = server.collect();
    let made = |table: &str, before: &str| {
        let time = if is_one_store { "''" } else { "CREATE_TIME" };
        format!(
            "(SELECT CONCAT_WS(' ', {before}{time}) FROM information_schema.TABLES
              WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{table}')"
        )
    };
    let life_plain = made("leaf_alloc", "LEFT(SHA2(TABLE_COMMENT, 256), 16), ");
    let life = format!(
        "CONCAT({life_plain}, ' ', {}, ' ', (SELECT row_start FROM leafd_tag WHERE tag = ''))",
        made("leafd_tag", "")
    );
    Signs {
        kind: "mysql",
        server: format!("CONCAT_WS(' ', {}, CONCAT('database=', DATABASE()))", server.join(", ")),
        life,
        life_plain,
        position: "NULL",
        read_only: "@@GLOBAL.read_only",
    }
}

/// A rendered statement with its values in the places of its parameters.
pub(super) fn with_values(sql: &str, params: &[Param<'_>]) -> String {
    with_params(sql, DIALECT.parameter, |number| match params[number - 1] {
        Param::Integer(Some(number)) => number.to_string(),
        Param::Text(Some(text)) => literal(text),
        Param::Integer(None) | Param::Text(None) => "NULL".to_owned(),
    })
}

/// A literal that no character in the text can terminate, whatever the server's `sql_mode` is.
fn literal(text: &str) -> String {
    if !text.contains(['\'', '\\']) {
        return format!("'{text}'");
    }
    let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("_utf8mb4 x'{digits}'")
}

/// Marks begin with this. A mark distinguishes a table from another one that replaces it. It is kept in the table's
/// comment, because that is dropped with the table and is replicated.
const MARK: &str = "leafd-";

/// Whether a table's comment contains a mark.
pub(super) fn has_mark(comment: &str) -> bool {
    comment.split(' ').any(|word| word.strip_prefix(MARK).is_some_and(|mark| !mark.is_empty()))
}

/// A table's comment with a new mark at its end.
pub(super) fn marked(comment: &str, mark: u64) -> String {
    format!("{comment} {MARK}{mark:016x}").trim().to_owned()
}

pub static DIALECT: Dialect = Dialect {
    parameter: ":p",
    embedded: false,
    words: &[
        ("age_index", ""),
        ("age_key", ",\n    KEY leafd_claim_age (claimed_ms)"),
        ("bytes", "CAST(# AS BINARY)"),
        ("conflict", "ON DUPLICATE KEY UPDATE"),
        ("counted", " AUTO_INCREMENT"),
        ("ignore", " IGNORE"),
        ("join", "t.tag = CAST(CONVERT(a.biz_tag USING utf8mb4) AS BINARY)"),
        (
            "leaf_row",
            "a.biz_tag, a.max_id, a.step, left(a.description, 257), DATE_FORMAT(a.update_time, '%Y-%m-%dT%H:%i:%sZ')",
        ),
        ("leaf_table", " ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
        ("new", "VALUES(#)"),
        ("now_ms", "CAST(FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000) AS SIGNED)"),
        ("on_update", " ON UPDATE CURRENT_TIMESTAMP"),
        ("own_table", " ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin"),
        ("row_start", " /*!80000 , row_start datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) */"),
        // Leaf's table changes its update_time by itself.
        ("touch", ""),
        ("unless", ""),
        ("unversioned", " /*M!100303 WITHOUT SYSTEM VERSIONING */"),
        ("uuid", "UUID()"),
        // MariaDB records when a row of a versioned table was inserted, and no backup contains that time. Only names
        // are versioned, so claims leave no former rows. MySQL has no versioned tables: there only a backup that
        // recreates the table is detected.
        ("versioned", " /*M!100303 WITH SYSTEM VERSIONING */"),
    ],
    types: |kind| match kind {
        ColumnKind::Bytes => ("varbinary(512)", &["varbinary"]),
        ColumnKind::Word(_) => ("varchar(#)", &["varchar"]),
        ColumnKind::Text(_) => ("varchar(#)", &["varchar", "text"]),
        ColumnKind::Long => ("bigint", &["bigint"]),
        ColumnKind::Int => ("int", &["int", "bigint"]),
        ColumnKind::Counter => ("bigint", &["bigint", "int"]),
        ColumnKind::Time | ColumnKind::Unread => ("timestamp", &["timestamp", "datetime"]),
    },
    forget_claims: "DELETE FROM leafd_claim WHERE claimed_ms < {now_ms} - ?1 ORDER BY claimed_ms LIMIT ?2",
    columns: "SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS
        WHERE TABLE_SCHEMA = DATABASE()
        AND TABLE_NAME IN ('leaf_alloc', 'leafd_meta', 'leafd_tag', 'leafd_host', 'leafd_claim', 'leafd_worker',
                           'leafd_worker_taken', 'leafd_layout', 'leaf_workerid_alloc')",
    defects: "SELECT CONCAT(TABLE_NAME, ' has the engine ', COALESCE(ENGINE, 'of a view'), ' instead of InnoDB')
        FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()
        AND TABLE_NAME IN ('leaf_alloc', 'leafd_meta', 'leafd_tag', 'leafd_host', 'leafd_claim')
        AND COALESCE(ENGINE, '') <> 'InnoDB'
        UNION ALL
        SELECT 'leaf_alloc.biz_tag is not unique: make it the primary key' FROM DUAL
        WHERE NOT EXISTS (
            SELECT INDEX_NAME FROM information_schema.STATISTICS
            WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'leaf_alloc' AND NON_UNIQUE = 0
            GROUP BY INDEX_NAME
            HAVING COUNT(*) = 1 AND MAX(COLUMN_NAME) = 'biz_tag' AND MAX(SUB_PART) IS NULL)",
    worker_defects: "SELECT CONCAT(TABLE_NAME, ' has the engine ', COALESCE(ENGINE, 'of a view'), ' instead of InnoDB')
        FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()
        AND TABLE_NAME IN ('leafd_worker', 'leafd_worker_taken', 'leafd_layout', 'leaf_workerid_alloc')
        AND COALESCE(ENGINE, '') <> 'InnoDB'",
    // With a binary log, a crash recovery rolls back what that log lacks.
    lax: "SELECT CONCAT('innodb_flush_log_at_trx_commit is ', @@GLOBAL.innodb_flush_log_at_trx_commit) FROM DUAL
        WHERE @@GLOBAL.innodb_flush_log_at_trx_commit <> 1
        UNION ALL
        SELECT CONCAT('sync_binlog is ', @@GLOBAL.sync_binlog) FROM DUAL
        WHERE @@GLOBAL.log_bin = 1 AND @@GLOBAL.sync_binlog <> 1",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_text_to_the_server_whatever_is_in_them() {
        let params = ["plain".into(), i64::MIN.into(), Param::Text(None), r"\' OR 1".into()];
        assert_eq!(
            with_values("SELECT :p2, :p1 WHERE :p3 = :p4 AND DATE('%H:%i')", &params),
            "SELECT -9223372036854775808, 'plain' WHERE NULL = _utf8mb4 x'5c27204f522031' AND DATE('%H:%i')"
        );
    }
}

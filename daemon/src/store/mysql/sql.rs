//! The statements for MySQL and MariaDB.

use crate::store::sql::{Layout, Signs, Statements};

/// The tables, and for each column the types that leafd accepts.
pub(super) static TABLES: &[Layout] = &[
    Layout {
        table: "leaf_alloc",
        columns: &[
            ("biz_tag", &["varchar"]),
            ("max_id", &["bigint"]),
            ("step", &["int", "bigint"]),
            ("description", &["varchar", "text"]),
            ("update_time", &["timestamp", "datetime"]),
        ],
    },
    Layout { table: "leafd_meta", columns: &[("name", &["varchar"]), ("value", &["varchar"])] },
    Layout {
        table: "leafd_tag",
        columns: &[
            ("tag", &["varbinary"]),
            ("generation", &["bigint"]),
            ("ceiling", &["bigint"]),
            ("strict", &["int"]),
            ("masked", &["varbinary"]),
            ("highest_end", &["bigint"]),
            ("role_version", &["bigint"]),
        ],
    },
    Layout {
        table: "leafd_host",
        columns: &[
            ("host", &["varchar"]),
            ("start_token", &["varchar"]),
            ("started", &["timestamp", "datetime"]),
            ("written", &["bigint"]),
        ],
    },
    Layout {
        table: "leafd_claim",
        columns: &[
            ("tag", &["varbinary"]),
            ("end_id", &["bigint"]),
            ("claimed_ms", &["bigint"]),
            ("first_id", &["bigint"]),
            ("stride", &["int"]),
            ("generation", &["bigint"]),
            ("host", &["varchar"]),
            ("name", &["varchar"]),
            ("holds_from", &["bigint"]),
        ],
    },
];

/// The comment of Leaf's table.
pub(super) const REMARK: &str = "SELECT TABLE_COMMENT FROM information_schema.TABLES
    WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'leaf_alloc'";

/// What distinguishes a server from others. Each kind of server has some of these variables.
pub(super) const SERVER: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN
    ('server_uuid', 'server_uid', 'hostname', 'port', 'server_id')";

/// The same for a Galera cluster; every node gives the same answer.
pub(super) const CLUSTER: &str = "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_state_uuid'";

/// How far a server has come: what its storage engine has on disk. It only rises, as long as its files stay.
pub(super) const POSITION: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN
    ('Innodb_lsn_flushed', 'Innodb_redo_log_flushed_to_disk_lsn')";

/// The same for a Galera cluster: how often its members have changed. A cluster that is started anew begins at 1.
pub(super) const CLUSTER_POSITION: &str = "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_conf_id'";

/// The members of a Galera cluster, as a node knows them.
pub(super) const MEMBERS: &str = "SHOW GLOBAL STATUS LIKE 'wsrep_incoming_addresses'";

/// How to ask a server who it is. `server` are the names and values of the variables above.
///
/// `life` is what distinguishes the tables from others that take their place. For Leaf's table: its comment, which
/// contains the mark, and when it was made or last altered. For `leafd_tag`, which remembers what was claimed if
/// somebody sets Leaf's table back: when it was made, and when its row without a name was entered, see
/// [`SIDE_TABLES`]. NULL when one of these is missing. Every claim asks this, which takes about 50 microseconds. Once
/// a claim has locked its row, nobody can make the table anew until the claim ends.
///
/// In a cluster that is one store, the nodes differ in their variables and in when the tables were made. So there the
/// cluster's name is told as it was when the connection was opened, and those times are left out.
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

/// Marks begin with this. A mark distinguishes a table from another one that takes its place. It is kept in the
/// table's comment, because that is dropped with the table and is replicated.
const MARK: &str = "leafd-";

/// Whether a table's comment contains a mark.
pub(super) fn has_mark(comment: &str) -> bool {
    comment.split(' ').any(|word| word.strip_prefix(MARK).is_some_and(|mark| !mark.is_empty()))
}

/// A table's comment with a new mark at its end.
pub(super) fn marked(comment: &str, mark: u64) -> String {
    format!("{comment} {MARK}{mark:016x}").trim().to_owned()
}

/// The columns that `sql::rows` reads, with the columns of leafd's table or with NULLs in their place.
macro_rules! row {
    (side) => {
        "a.biz_tag, a.max_id, a.step, a.description, DATE_FORMAT(a.update_time, '%Y-%m-%dT%H:%i:%sZ'),
         t.generation, t.ceiling, t.highest_end, t.strict,
         t.role_version, t.masked"
    };
    (plain) => {
        "a.biz_tag, a.max_id, a.step, a.description, DATE_FORMAT(a.update_time, '%Y-%m-%dT%H:%i:%sZ'),
         NULL, NULL, NULL, NULL, NULL, NULL"
    };
}

/// Rows of Leaf's table, joined with leafd's rows of the same tags.
macro_rules! tables {
    () => {
        "leaf_alloc AS a LEFT JOIN leafd_tag AS t ON t.tag = CAST(CONVERT(a.biz_tag USING utf8mb4) AS BINARY)"
    };
}

pub(super) const STATEMENTS: Statements = Statements {
    begin: "START TRANSACTION",
    head: "i.value, r.value, n.value, (SELECT CONCAT(written, ' ', start_token) FROM leafd_host WHERE host = :p1)",
    head_plain: "NULL, NULL, NULL, NULL",
    meta_rows: "leafd_meta AS i JOIN leafd_meta AS r ON i.name = 'identity' AND r.name = 'role'
        LEFT JOIN leafd_meta AS n ON n.name = 'history'",
    row: row!(side),
    row_plain: row!(plain),
    tag_rows: concat!("LEFT JOIN (", tables!(), ") ON a.biz_tag IN"),
    tag_rows_plain: "(SELECT 1) AS one LEFT JOIN leaf_alloc AS a ON a.biz_tag IN",
    lock: "SELECT biz_tag FROM leaf_alloc WHERE biz_tag IN",
    locking: "ORDER BY biz_tag FOR UPDATE",
    lock_role: "SELECT value FROM leafd_meta WHERE name = 'role' FOR UPDATE",
    list: concat!("SELECT ", row!(side), " FROM ", tables!()),
    list_plain: concat!("SELECT ", row!(plain), " FROM leaf_alloc AS a"),
    set_max_id: "UPDATE leaf_alloc SET max_id = :p3 WHERE biz_tag = :p1 AND max_id = :p2",
    touch: "",
    set_step: "UPDATE leaf_alloc SET step = :p2 WHERE biz_tag = :p1",
    set_description: "UPDATE leaf_alloc SET description = :p2 WHERE biz_tag = :p1",
    insert_row: "INSERT INTO leaf_alloc (biz_tag, max_id, step, description)
        VALUES (:p1, :p2, :p3, :p4)",
    claimed_end: "SELECT highest_end, masked FROM leafd_tag WHERE tag = CAST(:p1 AS BINARY) FOR UPDATE",
    ends: "SELECT tag, highest_end FROM leafd_tag WHERE tag > CAST(:p1 AS BINARY) ORDER BY tag LIMIT :p2",
    record_claim: "UPDATE leafd_tag SET highest_end = :p2, role_version = :p3
        WHERE tag = CAST(:p1 AS BINARY) AND role_version = :p4",
    record_claim_of_host: "UPDATE leafd_tag AS t, leafd_host AS h
        SET t.highest_end = :p2, t.role_version = :p3, h.written = :p5
        WHERE t.tag = CAST(:p1 AS BINARY) AND t.role_version = :p4 AND h.host = :p6 AND h.written = :p7",
    prove: "UPDATE leafd_host SET written = :p1 WHERE host = :p2 AND written = :p3",
    enter_claim: "INSERT INTO leafd_tag (tag, highest_end, role_version) VALUES (:p1, :p2, :p3)",
    take_right: "UPDATE leafd_meta SET value = :p1 WHERE name = 'right' AND value LIKE :p2",
    set_right: "UPDATE leafd_meta SET value = :p1 WHERE name = 'right'",
    move_rights: "UPDATE leafd_tag SET role_version = :p1 WHERE role_version = :p2",
    remember_ends: "INSERT INTO leafd_tag (tag, highest_end, masked) VALUES",
    remembering: "ON DUPLICATE KEY UPDATE highest_end = GREATEST(highest_end, VALUES(highest_end))",
    enter_name: "INSERT INTO leafd_tag (tag) VALUES (:p1) ON DUPLICATE KEY UPDATE tag = leafd_tag.tag",
    enter_tag: "INSERT INTO leafd_tag (tag, generation, ceiling, strict, masked) VALUES (:p1, :p2, :p3, :p4, :p5)
        ON DUPLICATE KEY UPDATE generation = VALUES(generation), ceiling = VALUES(ceiling), strict = VALUES(strict),
        masked = VALUES(masked)",
    delete_row: "DELETE FROM leaf_alloc WHERE biz_tag = :p1",
    leave_tombstone: "INSERT INTO leafd_tag (tag, generation, highest_end) VALUES (:p1, :p2, :p3)
        ON DUPLICATE KEY UPDATE generation = VALUES(generation), ceiling = NULL, strict = 0,
        highest_end = GREATEST(highest_end, VALUES(highest_end))",
    set_ceiling: "INSERT INTO leafd_tag (tag, ceiling) VALUES (:p1, :p2)
        ON DUPLICATE KEY UPDATE ceiling = VALUES(ceiling)",
    host_token: "SELECT start_token, written FROM leafd_host WHERE host = :p1 FOR UPDATE",
    enter_host: "INSERT INTO leafd_host (host, start_token, started, written) VALUES (:p1, :p2, CURRENT_TIMESTAMP, :p3)
        ON DUPLICATE KEY UPDATE start_token = VALUES(start_token), started = VALUES(started), written = VALUES(written)",
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
    set_role: "UPDATE leafd_meta SET value = :p1 WHERE name = 'role'",
    swap_note: "UPDATE leafd_meta SET value = :p1 WHERE name = 'history' AND value = :p2",
    lax: "SELECT CONCAT('innodb_flush_log_at_trx_commit is ', @@GLOBAL.innodb_flush_log_at_trx_commit) FROM DUAL
        WHERE @@GLOBAL.innodb_flush_log_at_trx_commit <> 1",
    now_ms: "SELECT CAST(FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000) AS CHAR)",
    enter_meta: "INSERT IGNORE INTO leafd_meta (name, value) VALUES (:p1, :p2)",
    set_meta: "UPDATE leafd_meta SET value = :p2 WHERE name = :p1",
    meta: "SELECT name, value FROM leafd_meta",
};

/// Leaf's table, in a character set that holds every name, and with a collation that distinguishes `Order` from
/// `order`.
pub(super) const LEAF_TABLE: &str = "CREATE TABLE IF NOT EXISTS leaf_alloc (
    biz_tag     varchar(128) NOT NULL DEFAULT '',
    max_id      bigint NOT NULL DEFAULT 1,
    step        int NOT NULL,
    description varchar(256) DEFAULT NULL,
    update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (biz_tag)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";

/// The tables for what Leaf has no column for. A row of `leafd_tag` stays when the row of `leaf_alloc` is deleted.
/// `tag` is the name in bytes. `generation` is that of the present row, or of the next one if there is none.
/// `highest_end` is the end of everything ever claimed under the name. `role_version` is the version of the right to
/// claim under which ids may be claimed.
///
/// One row of `leafd_tag` has no name. The time when it was entered shows whether the table was filled anew, for
/// instance from a backup. MariaDB itself records that time for the rows of a versioned table, and no backup contains
/// it. Only names are versioned, so claims leave no former rows. MySQL has no versioned tables: there only a backup
/// that makes the table anew is noticed. A counter of claims in that row would be worse: only hosts that have seen the
/// last claims would notice, and every claim would wait for all others.
pub(super) const SIDE_TABLES: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS leafd_meta (
    name  varchar(64) NOT NULL PRIMARY KEY,
    value varchar(9000) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin",
    "CREATE TABLE IF NOT EXISTS leafd_tag (
    tag          varbinary(512) NOT NULL PRIMARY KEY,
    generation   bigint NOT NULL DEFAULT 0 /*M!100303 WITHOUT SYSTEM VERSIONING */,
    ceiling      bigint DEFAULT NULL /*M!100303 WITHOUT SYSTEM VERSIONING */,
    strict       int NOT NULL DEFAULT 0 /*M!100303 WITHOUT SYSTEM VERSIONING */,
    masked       varbinary(64) DEFAULT NULL /*M!100303 WITHOUT SYSTEM VERSIONING */,
    highest_end  bigint NOT NULL DEFAULT 0 /*M!100303 WITHOUT SYSTEM VERSIONING */,
    role_version bigint NOT NULL DEFAULT -1 /*M!100303 WITHOUT SYSTEM VERSIONING */
    /*!80000 , row_start datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) */
) ENGINE = InnoDB /*M!100303 WITH SYSTEM VERSIONING */",
    "CREATE TABLE IF NOT EXISTS leafd_host (
    host        varchar(64) NOT NULL PRIMARY KEY,
    start_token varchar(64) NOT NULL,
    started     datetime NOT NULL,
    written     bigint NOT NULL DEFAULT 0
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin",
];

/// The rows that the tables get when they are made.
pub(super) const FIRST_ROWS: [&str; 2] = [
    "INSERT IGNORE INTO leafd_meta (name, value)
    VALUES ('format', '2'), ('identity', UUID()), ('role', ''), ('right', '0 '), ('history', '')",
    "INSERT IGNORE INTO leafd_tag (tag) VALUES ('')",
];

/// (identity): names a store. Runs before [`FIRST_ROWS`], which would give it a new name.
pub(super) const NAME: &str =
    "INSERT IGNORE INTO leafd_meta (name, value) VALUES ('identity', :p1)";

/// The names of all triggers on the tables, as far as the user may see them; see [`FORMER_TRIGGERS`].
pub(super) const TRIGGERS_THERE: &str = "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS
    WHERE TRIGGER_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE IN ('leaf_alloc', 'leafd_tag')";

/// Triggers that earlier versions made. They ran at every claim of every Leaf, with the rights of the user who had
/// made them.
pub(super) const FORMER_TRIGGERS: [(&str, &str); 3] = [
    ("leafd_row_deleted", "trigger leafd_row_deleted removed"),
    ("leafd_row_renamed", "trigger leafd_row_renamed removed"),
    ("leafd_tag_filled", "trigger leafd_tag_filled removed"),
];

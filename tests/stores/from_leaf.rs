//! The page about migrating from Leaf, followed literally: every command in its order, on a MariaDB with Leaf's table
//! and a ZooKeeper with Leaf's nodes. Only the names of hosts and folders differ.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use leafd_tests::host::leafd_binary;
use leafd_tests::load::Drawn;
use leafd_tests::servers::zookeeper::ZooKeeper;
use leafd_tests::servers::{MariaDb, Server};
use leafd_wire::Layout;
use mysql::prelude::Queryable as _;
use zookeeper_client::{Acls, Client, CreateMode};

const PAGE: &str = include_str!("../../docs/guide/from-leaf.md");

/// Leaf's own table definition, verbatim.
const LEAF_TABLE: &str = "CREATE TABLE `leaf_alloc` (
    `biz_tag` varchar(128) NOT NULL DEFAULT '',
    `max_id` bigint(20) NOT NULL DEFAULT '1',
    `step` int(11) NOT NULL,
    `description` varchar(256) DEFAULT NULL,
    `update_time` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (`biz_tag`)
    ) ENGINE=InnoDB";

const FOREVER: &str = "/snowflake/com.example.leaf/forever";

/// Replaces systemctl, with the subcommands that the page uses.
const SYSTEMCTL: &str = r#"#!/bin/sh
stop() {
    [ -e DIR/pid ] || return 0
    kill -TERM "$(cat DIR/pid)"
    while kill -0 "$(cat DIR/pid)" 2> /dev/null; do sleep 0.05; done
    rm DIR/pid
}
case "$*" in
"disable --now leaf" | "enable --now leaf") ;;
"disable --now leafd.socket leafd") stop ;;
"restart leafd")
    stop
    leafd --config DIR/etc/leafd.toml > /dev/null 2>> DIR/log &
    echo $! > DIR/pid
    leafctl wait answering
    ;;
*) echo "the test knows no systemctl $*" >&2; exit 1 ;;
esac
"#;

/// The blocks to run, in their order: the language and the text.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let parts = PAGE.split("```").skip(1).step_by(2);
    parts.map(|part| part.split_once('\n').expect("a language")).collect()
}

/// Stops the daemon however the test ends.
struct Site(tempfile::TempDir);

impl Drop for Site {
    fn drop(&mut self) {
        let pid = fs::read_to_string(self.0.path().join("pid")).unwrap_or_default();
        if let Ok(pid) = pid.trim().parse() {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL);
        }
        if std::thread::panicking() {
            eprintln!("{}", fs::read_to_string(self.0.path().join("log")).unwrap_or_default());
        }
    }
}

impl Site {
    fn new() -> Site {
        let site = Site(tempfile::tempdir().unwrap());
        for folder in ["bin", "etc", "state"] {
            fs::create_dir(site.path().join(folder)).unwrap();
        }
        for program in ["leafd", "leafctl"] {
            let built = leafd_binary().with_file_name(program);
            symlink(built, site.path().join("bin").join(program)).unwrap();
        }
        let systemctl = site.path().join("bin/systemctl");
        let text = SYSTEMCTL.replace("DIR", site.path().to_str().unwrap());
        fs::write(&systemctl, text).unwrap();
        fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).unwrap();
        site
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// The output of a block of commands.
    #[track_caller]
    fn run(&self, script: &str) -> String {
        let mut command = Command::new("/bin/sh");
        command.args(["-eux", "-c", script]).env_clear();
        command.env("PATH", format!("{}:/usr/bin:/bin", self.path().join("bin").display()));
        command.env("LEAFD_SOCKET", self.path().join("socket"));
        command.env("LEAFD_STATE_DIR", self.path().join("state"));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said
    }
}

/// Claims as Java Leaf does.
fn claim_as_leaf(leaf: &mut mysql::Conn, tag: &str) -> std::ops::Range<u64> {
    leaf.query_drop("START TRANSACTION").unwrap();
    leaf.exec_drop("UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = ?", (tag,))
        .unwrap();
    let sql = "SELECT biz_tag, max_id, step FROM leaf_alloc WHERE biz_tag = ?";
    let (_, max_id, step): (String, u64, u64) = leaf.exec_first(sql, (tag,)).unwrap().unwrap();
    leaf.query_drop("COMMIT").unwrap();
    max_id - step..max_id
}

/// The payload that a Leaf writes to its node every 3 s.
fn payload(ip: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    format!(r#"{{"ip":"{ip}","port":"8080","timestamp":{now}}}"#)
}

#[test]
fn the_page_for_those_who_come_from_leaf_does_what_it_says() {
    let (server, ensemble, site) = (MariaDb::empty(&[]), ZooKeeper::new(), Site::new());
    server.ask("mysql", "DROP USER leafd@'%'; CREATE DATABASE leaf");
    server.ask("leaf", LEAF_TABLE);
    server.ask(
        "leaf",
        "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 5001, 1000)",
    );
    let mut leaf = server.connection().unwrap();
    leaf.query_drop("USE leaf").unwrap();
    let mut drawn = Drawn::default();
    drawn.add_ids("orders", &claim_as_leaf(&mut leaf, "orders").collect::<Vec<_>>());
    // The nodes of Leaf's hosts; this host is the second one.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&ensemble.address()).await.unwrap();
        let open = Acls::anyone_all();
        client.mkdir(FOREVER, &CreateMode::Persistent.with_acls(open)).await.unwrap();
        for ip in ["10.0.0.9", "10.0.0.1"] {
            let (path, mode) = (format!("{FOREVER}/{ip}:8080-"), CreateMode::PersistentSequential);
            client.create(&path, payload(ip).as_bytes(), &mode.with_acls(open)).await.unwrap();
        }
    });
    let properties = site.path().join("com.example.leaf/leafconf/8080/workerID.properties");
    fs::create_dir_all(properties.parent().unwrap()).unwrap();
    fs::write(&properties, "workerID=1").unwrap();

    let folder = site.path().to_str().unwrap();
    let db1 = format!("@127.0.0.1:{}/", server.port());
    let here = |text: &str| {
        text.replace("@db1/", &db1)
            .replace("zk1:2181,zk2:2181,zk3:2181", &ensemble.address())
            .replace("/etc/leafd", &format!("{folder}/etc"))
            .replace("/tmp/com.example.leaf", &format!("{folder}/com.example.leaf"))
            // The test's user runs the daemon instead.
            .replace("-o leafd ", "")
    };
    let mut said = Vec::new();
    for (language, text) in blocks() {
        if text.contains("disable --now leaf\n") {
            // The Leaf on this host has written its node until now.
            runtime.block_on(async {
                let client = Client::connect(&ensemble.address()).await.unwrap();
                let node = format!("{FOREVER}/10.0.0.1:8080-0000000001");
                client.set_data(&node, payload("10.0.0.1").as_bytes(), None).await.unwrap();
            });
        }
        match language {
            "sql" => drop(server.ask("mysql", &here(text))),
            "sh" => said.push(site.run(&here(text))),
            other => panic!("a block of {other}: {text}"),
        }
        // Another Leaf continues to claim all the time.
        drawn.add_ids("orders", &claim_as_leaf(&mut leaf, "orders").collect::<Vec<_>>());
    }
    let [schema, segments, snowflake, back] = &said[..] else { panic!("four steps: {said:?}") };
    assert!(schema.contains("CREATE TABLE") && schema.contains("leafd_tag"), "{schema}");
    assert!(!schema.to_uppercase().contains("CREATE TRIGGER"), "{schema}");
    let printed_ids =
        |said: &str| said.lines().filter_map(|line| line.parse().ok()).collect::<Vec<u64>>();
    let orders = printed_ids(segments);
    assert_eq!(orders.len(), 1, "{segments}");
    drawn.add_ids("orders", &orders);
    assert!(segments.contains("orders "), "{segments}");
    assert!(!properties.exists(), "it is deleted");
    let [id] = printed_ids(snowflake)[..] else { panic!("{snowflake}") };
    assert_eq!(Layout::LEAF.decompose(id).unwrap().worker, 1);
    assert!(snowflake.contains("worker    1\n") && snowflake.contains("local "), "{snowflake}");
    assert!(snowflake.contains("10.0.0.1:8080"), "{snowflake}");
    assert_eq!(back, "");
    let log = fs::read_to_string(site.path().join("log")).unwrap();
    assert!(!log.contains("a Java Leaf has the identity"), "{log}");
    // Each of Leaf's claims must lie above the one before. leafd's ids may be in between.
    drawn.backwards.clear();
    drawn.assert_sound();
}

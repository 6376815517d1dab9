//! MariaDB from Debian's package, and MySQL from Debian sid: the programs, and a server's folder with its initial data.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::process::Server as Process;

/// If this variable is `none`, tests on MySQL do nothing. Whoever sets it must report that.
const WITHOUT: &str = "LEAFD_TEST_MYSQL";

/// Either engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    MariaDb,
    Mysql,
}

/// The engine that a type stands for.
pub trait Kind: Send + Sync + 'static {
    const ENGINE: Engine;
}

pub struct OfMariaDb;
pub struct OfMysql;

impl Kind for OfMariaDb {
    const ENGINE: Engine = Engine::MariaDb;
}

impl Kind for OfMysql {
    const ENGINE: Engine = Engine::Mysql;
}

impl Engine {
    /// Whether tests on this engine run. Otherwise prints that they don't.
    pub fn is_tested(self) -> bool {
        let none =
            self == Engine::Mysql && std::env::var(WITHOUT).is_ok_and(|value| value == "none");
        if none {
            println!("NOT TESTED on MySQL: {WITHOUT} is none");
        }
        !none
    }

    /// A folder and a port for a server, with its initial data. Its administrator is `root`, without a password.
    pub fn place(self, settings: &[&str]) -> Process {
        // MySQL's programs may be readable only by the user who runs the tests.
        let user = match self {
            Engine::MariaDb => "mysql",
            Engine::Mysql => "root",
        };
        let process = Process::new(user, "TERM", |dir, port| {
            let dir = dir.display();
            let places = [
                format!("--datadir={dir}/data"),
                // A starting server deletes temporary tables there, even another server's.
                format!("--tmpdir={dir}"),
                format!("--socket={dir}/socket"),
                format!("--pid-file={dir}/pid"),
                format!("--port={port}"),
                format!("--server-id={port}"),
            ];
            let common = ["--bind-address=127.0.0.1", "--innodb-buffer-pool-size=32M"];
            let mut words = self.program("mysqld");
            words.push("--no-defaults".to_owned());
            words.extend(places.into_iter().chain(self.options()));
            words.extend(common.iter().chain(settings).map(|word| (*word).to_owned()));
            words
        });
        let data = process.dir.join("data");
        match self {
            Engine::MariaDb => process.run(&[
                "/usr/bin/mariadb-install-db",
                "--no-defaults",
                &format!("--datadir={}", data.display()),
                &format!("--tmpdir={}", process.dir.display()),
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ]),
            Engine::Mysql => {
                process.run(&["/bin/cp", "-a", path(&mysql().join("data")), path(&data)])
            }
        }
        process
    }

    fn options(self) -> Vec<String> {
        if self == Engine::MariaDb {
            // From version 11.4 on, a server makes a certificate of its own. A certificate in the settings overrules this.
            return vec!["--skip-ssl".to_owned()];
        }
        let plugins = mysql().join("lib/mysql/plugin");
        let mut options = vec![
            format!("--basedir={}", mysql().display()),
            format!("--plugin-dir={}", plugins.display()),
        ];
        // These settings reduce memory: no statistics, and a small log. Exports are allowed anywhere, as in MariaDB,
        // and there is no second port.
        let plain = [
            "performance-schema=OFF",
            "innodb-redo-log-capacity=8M",
            "secure-file-priv=",
            "mysqlx=OFF",
        ];
        let root = nix::unistd::geteuid().is_root().then_some("user=root");
        options.extend(plain.into_iter().chain(root).map(|option| format!("--{option}")));
        options
    }

    /// The command for one of its programs, by MySQL's name.
    pub fn program(self, name: &str) -> Vec<String> {
        match self {
            Engine::MariaDb => vec![match name {
                "mysqld" => "/usr/sbin/mariadbd".to_owned(),
                "mysqldump" => "/usr/bin/mariadb-dump".to_owned(),
                _ => "/usr/bin/mariadb".to_owned(),
            }],
            Engine::Mysql => {
                let folder = mysql();
                let of = |part: &str| folder.join(part).display().to_string();
                vec![
                    of("loader"),
                    "--library-path".to_owned(),
                    of("lib"),
                    of(&format!("bin/{name}")),
                ]
            }
        }
    }
}

/// The folder with MySQL, beside the build's output. It is created if it is missing.
fn mysql() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        // Cargo puts a test program into PROFILE/deps.
        let this = std::env::current_exe().unwrap();
        let profile = this.ancestors().nth(2).unwrap();
        let folder = profile.with_file_name("servers").join("mysql");
        let get = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/servers/get-mysql");
        let got = Command::new(get).arg(&folder).output().unwrap();
        let said = String::from_utf8_lossy(&got.stderr);
        assert!(
            got.status.success(),
            "MySQL is missing; {WITHOUT}=none leaves its tests out. {get} says: {said}"
        );
        folder
    })
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

//! Protected connections: the server's certificate and name are checked, whoever it is.

use std::path::{Path, PathBuf};
use std::process::Command;

use leafd::config::StorePassword;
use leafd::store::network::Target;
use leafd::store::{Store, StoreError, mysql as on_mysql, postgres as on_postgres};
use tempfile::TempDir;

use crate::{mysql, postgres};

/// An authority, and a certificate of it for `localhost` that this user's servers can read.
struct Certificates {
    dir: TempDir,
}

impl Certificates {
    fn new(user: &str) -> Certificates {
        let made = Certificates { dir: tempfile::tempdir().unwrap() };
        let script = "
            openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority \
                -keyout ca.key -out ca.pem
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=server \
                -keyout server.key -out server.csr
            echo subjectAltName=DNS:localhost >names
            openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names \
                -out server.pem
            chmod 755 .";
        let sh = Command::new("sh").args(["-ec", script]).current_dir(made.dir.path()).output();
        let output = sh.unwrap();
        assert!(output.status.success(), "{output:?}");
        if nix::unistd::geteuid().is_root() {
            let user = nix::unistd::User::from_name(user).unwrap().unwrap();
            std::os::unix::fs::chown(made.path("server.key"), Some(user.uid.into()), None).unwrap();
        }
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// Only the right name with the right authority gets as far as the tables.
fn check(
    certificates: &Certificates,
    connect: impl Fn(&str) -> Target,
    open: impl Fn(Target) -> Box<dyn Store>,
    port: u16,
) {
    let authority = |path: &Path| format!("sslrootcert={}", path.display());
    let ours = authority(&certificates.path("ca.pem"));
    let cases = [
        (format!("localhost:{port}"), ours.clone(), "leafd schema apply"),
        (format!("127.0.0.1:{port}"), ours, "certificate"),
        (format!("localhost:{port}"), "sslmode=require".to_owned(), "certificate"),
        (format!("localhost:{port}"), authority(Path::new("/nonexistent.pem")), ""),
    ];
    for (host, parameters, part) in cases {
        let error = open(connect(&format!("{host}/?{parameters}"))).identity().unwrap_err();
        let refused = matches!(error, StoreError::Refused(_));
        let words = error.to_string();
        assert_eq!(refused, part == "leafd schema apply", "{host} {parameters}: {words}");
        assert!(words.contains(part), "{host} {parameters}: {words}");
    }
}

fn with_database(url: &str, database: &str) -> String {
    url.replace("/?", &format!("/{database}?"))
}

#[test]
fn postgres_is_checked() {
    let certificates = Certificates::new("postgres");
    let (cert, key) = (certificates.path("server.pem"), certificates.path("server.key"));
    let server = postgres::new_server(&[
        "ssl=on",
        &format!("ssl_cert_file={}", cert.display()),
        &format!("ssl_key_file={}", key.display()),
    ]);
    let connect = |rest: &str| {
        let url = with_database(&format!("postgres://postgres@{rest}"), "postgres");
        postgres::target_at(&url, StorePassword::Variable(postgres::PASSWORD.to_owned()))
    };
    check(&certificates, connect, |target| Box::new(on_postgres::open(target)), server.port);
}

#[test]
fn mariadb_is_checked() {
    let certificates = Certificates::new("mysql");
    let (cert, key) = (certificates.path("server.pem"), certificates.path("server.key"));
    let server = mysql::new_server(&[
        &format!("--ssl-cert={}", cert.display()),
        &format!("--ssl-key={}", key.display()),
        "--require-secure-transport=on",
    ]);
    let connect = |rest: &str| {
        let url = with_database(&format!("mysql://remote@{rest}"), "ids");
        mysql::target_at(&url, StorePassword::Variable(mysql::PASSWORD.to_owned()))
    };
    check(&certificates, connect, |target| Box::new(on_mysql::open(target)), server.port);
    let url = format!("mysql://remote@localhost:{}/ids", server.port);
    let password = StorePassword::Variable(mysql::PASSWORD.to_owned());
    let plain = on_mysql::open(mysql::target_at(&url, password)).identity().unwrap_err();
    // So what was let in above was protected.
    assert!(matches!(plain, StoreError::Unavailable { .. }), "{plain}");
}

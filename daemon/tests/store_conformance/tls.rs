//! Protected connections: the server's certificate and name are checked, whoever it is, and a client's shown to it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use leafd::config::StorePassword;
use leafd::store::sql::Target;
use leafd::store::{Store, mysql as on_mysql, postgres as on_postgres};
use leafd_core::store::{StoreError, Why};
use tempfile::TempDir;

use crate::mysqld::Engine;
use crate::server::Server;
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
            for name in certified other; do
                openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=$name \
                    -keyout $name.key -out $name.csr
                openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -days 2 -extfile names -out $name.pem
            done
            openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=certified \
                -keyout foreign.key -out foreign.pem
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
    open: impl Fn(Target) -> Box<Store>,
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

/// Only who has the certificate of this authority and this name gets as far as the tables.
fn check_client(
    certificates: &Certificates,
    connect: impl Fn(&str) -> Target,
    open: impl Fn(Target) -> Box<Store>,
    port: u16,
) {
    let path = |name: &str| certificates.path(name).display().to_string();
    let ours = format!("localhost:{port}/?sslrootcert={}", path("ca.pem"));
    let with = |name: &str| {
        let (cert, key) = (path(&format!("{name}.pem")), path(&format!("{name}.key")));
        format!("{ours}&sslcert={cert}&sslkey={key}")
    };
    let error = |rest: &str| open(connect(rest)).identity().unwrap_err();
    let let_in = error(&with("certified"));
    assert!(let_in.to_string().contains("leafd schema apply"), "{let_in}");
    for rest in [ours.clone(), with("other"), with("foreign"), with("missing")] {
        let refused = error(&rest);
        assert!(matches!(refused, StoreError::Unavailable { .. }), "{rest}: {refused}");
    }
    let mixed = format!("{ours}&sslcert={}&sslkey={}", path("certified.pem"), path("other.key"));
    let refused = error(&mixed);
    assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused}");
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
    check(&certificates, connect, |target| Box::new(on_postgres::ENGINE.open(target)), server.port);
}

/// A server with TLS that was told to put this rule of logins before its others, after this SQL.
fn with_login_rule(certificates: &Certificates, rule: &str, sql: &str) -> Server {
    let path = |name: &str| certificates.path(name).display().to_string();
    let server = postgres::new_server(&[
        "ssl=on",
        &format!("ssl_cert_file={}", path("server.pem")),
        &format!("ssl_key_file={}", path("server.key")),
        &format!("ssl_ca_file={}", path("ca.pem")),
    ]);
    let rules = server.dir.join("data/pg_hba.conf");
    let others = std::fs::read_to_string(&rules).unwrap();
    std::fs::write(&rules, format!("{rule}\n{others}")).unwrap();
    let mut client = postgres::client(&server, "postgres").unwrap();
    client.batch_execute(sql).unwrap();
    client.batch_execute("SELECT pg_reload_conf()").unwrap();
    server
}

/// A server that offers TLS, and asks for a ticket instead of a password. leafd can't log in there, with or without TLS.
#[test]
fn a_refused_login_over_tls_does_not_mean_that_the_server_offers_none() {
    let certificates = Certificates::new("postgres");
    let path = |name: &str| certificates.path(name).display().to_string();
    let server = with_login_rule(&certificates, "hostssl all ticketed all gss", "");
    let url = format!(
        "postgres://ticketed@localhost:{}/postgres?sslrootcert={}",
        server.port,
        path("ca.pem")
    );
    let refused = || {
        let target = postgres::target_at(&url, StorePassword::Variable("hunter2".to_owned()));
        on_postgres::ENGINE.open(target).identity().unwrap_err()
    };
    // Until the server has read its rules, it asks for a password.
    let begun = std::time::Instant::now();
    let mut error = refused();
    while error.why() == Why::Login {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{error}");
        std::thread::sleep(std::time::Duration::from_millis(20));
        error = refused();
    }
    assert_eq!(error.why(), Why::Other, "{error}");
    assert!(error.to_string().contains("authentication method"), "{error}");
}

/// PostgreSQL's request for the password in clear text.
const ASKED: &[&[u8]] = &[b"R\0\0\0\x08\0\0\0\x03"];

/// Anyone may listen on the port while the server is down.
#[test]
fn a_server_without_tls_gets_no_password_in_clear_text() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Sends the request in these parts, and returns what it got after it.
    let rogue = |parts: &'static [&'static [u8]]| {
        let listener = listener.try_clone().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut greeting = [0; 512];
            assert!(stream.read(&mut greeting).unwrap() > 0);
            for part in parts {
                stream.write_all(part).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            let mut got = Vec::new();
            let _ = stream.read_to_end(&mut got);
            String::from_utf8_lossy(&got).into_owned()
        })
    };
    let identity = |parameters: &str| {
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres{parameters}");
        let password = StorePassword::Variable("hunter2".to_owned());
        let mut target = postgres::target_at(&url, password);
        target.connect_timeout = std::time::Duration::from_secs(1);
        on_postgres::ENGINE.open(target).identity().unwrap_err()
    };
    for parts in [ASKED, &[b"R", b"\0\0\0\x08\0\0", b"\0\x03"]] {
        let asked = rogue(parts);
        let error = identity("");
        assert_eq!(error.why(), Why::ReadablePassword, "{error}");
        assert!(error.to_string().contains("sslmode=verify-full"), "{error}");
        assert_eq!(asked.join().unwrap(), "");
    }
    let asked = rogue(&[b"N"]);
    let certificates = Certificates::new("postgres");
    let error = identity(&format!("?sslrootcert={}", certificates.path("ca.pem").display()));
    assert_eq!(error.why(), Why::NoTls, "{error}");
    assert_eq!(asked.join().unwrap(), "");
    let asked = rogue(ASKED);
    identity("?sslmode=disable");
    assert!(asked.join().unwrap().contains("hunter2"), "the operator allows it");
}

/// What is read in answer to one call, and what the sockets hold of more.
const READ_MAX: usize = 32 << 20;

#[test]
fn a_server_that_sends_without_end_fills_no_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    let mut target = postgres::target_at(&url, StorePassword::None);
    target.connect_timeout = std::time::Duration::from_secs(60);
    // The login succeeds. Settings of the session follow, or an error as long as the length field allows.
    let setting = [&b"S\0\0\x04\x06a\0"[..], &[b'x'; 1_023], b"\0"].concat();
    for (first, more) in [(&b""[..], setting), (b"E\x7f\xff\xff\xff", vec![b'x'; 1_024])] {
        let listener = listener.try_clone().unwrap();
        let rogue = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 512]).unwrap() > 0);
            stream.write_all(&[b"R\0\0\0\x08\0\0\0\0", first].concat()).unwrap();
            let more = more.repeat(64);
            let mut sent = 0;
            while sent < 8 * READ_MAX && stream.write_all(&more).is_ok() {
                sent += more.len();
            }
            sent
        });
        let error = on_postgres::ENGINE.open(target.clone()).identity().unwrap_err();
        assert!(error.to_string().contains("bytes in one answer"), "{error}");
        let sent = rogue.join().unwrap();
        assert!(sent <= READ_MAX, "{sent} bytes were read");
    }
}

#[test]
fn mysql_without_tls_gets_no_password_that_it_can_decrypt() {
    if !Engine::Mysql.is_tested() {
        return;
    }
    let server = mysql::new_server(Engine::Mysql, &[]);
    let url = format!("mysql://remote@127.0.0.1:{}/ids", server.port);
    let mut target = mysql::target_at(&url, StorePassword::Variable(mysql::PASSWORD.to_owned()));
    target.url.plain_text = false;
    let refused = on_mysql::ENGINE.open(target.clone()).identity().unwrap_err();
    assert_eq!(refused.why(), Why::ReadablePassword, "{refused}");
    target.url.plain_text = true;
    let let_in = on_mysql::ENGINE.open(target).identity().unwrap_err();
    assert!(let_in.to_string().contains("leafd schema apply"), "{let_in}");
}

#[test]
fn mariadb_is_checked() {
    mysqld_is_checked(Engine::MariaDb);
}

#[test]
fn mysql_is_checked() {
    if Engine::Mysql.is_tested() {
        mysqld_is_checked(Engine::Mysql);
    }
}

fn mysqld_is_checked(engine: Engine) {
    let certificates = Certificates::new("mysql");
    let (cert, key) = (certificates.path("server.pem"), certificates.path("server.key"));
    let server = mysql::new_server(
        engine,
        &[
            &format!("--ssl-cert={}", cert.display()),
            &format!("--ssl-key={}", key.display()),
            "--require-secure-transport=on",
        ],
    );
    let connect = |rest: &str| {
        let url = with_database(&format!("mysql://remote@{rest}"), "ids");
        mysql::target_at(&url, StorePassword::Variable(mysql::PASSWORD.to_owned()))
    };
    check(&certificates, connect, |target| Box::new(on_mysql::ENGINE.open(target)), server.port);
    let url = format!("mysql://remote@localhost:{}/ids", server.port);
    let password = StorePassword::Variable(mysql::PASSWORD.to_owned());
    let plain = on_mysql::ENGINE.open(mysql::target_at(&url, password)).identity().unwrap_err();
    // So what was let in above was protected.
    assert!(matches!(plain, StoreError::Unavailable { .. }), "{plain}");
}

#[test]
fn postgres_checks_its_clients() {
    let certificates = Certificates::new("postgres");
    let path = |name: &str| certificates.path(name).display().to_string();
    let rule = "hostssl all certified all cert";
    let server = with_login_rule(&certificates, rule, "CREATE ROLE certified LOGIN");
    let connect = |rest: &str| {
        let url = with_database(&format!("postgres://certified@{rest}"), "postgres");
        postgres::target_at(&url, StorePassword::None)
    };
    // The server reads its rules when it comes to it: until then it asks for a password.
    let port = server.port;
    let before = format!("localhost:{port}/?sslrootcert={}", path("ca.pem"));
    let asked = || on_postgres::ENGINE.open(connect(&before)).identity().unwrap_err().to_string();
    let begun = std::time::Instant::now();
    while !asked().contains("client certificate") {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{}", asked());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    check_client(&certificates, connect, |target| Box::new(on_postgres::ENGINE.open(target)), port);
}

#[test]
fn mariadb_checks_its_clients() {
    mysqld_checks_its_clients(Engine::MariaDb);
}

#[test]
fn mysql_checks_its_clients() {
    if Engine::Mysql.is_tested() {
        mysqld_checks_its_clients(Engine::Mysql);
    }
}

fn mysqld_checks_its_clients(engine: Engine) {
    use ::mysql::prelude::Queryable as _;
    let certificates = Certificates::new("mysql");
    let path = |name: &str| certificates.path(name).display().to_string();
    let server = mysql::new_server(
        engine,
        &[
            &format!("--ssl-cert={}", path("server.pem")),
            &format!("--ssl-key={}", path("server.key")),
            &format!("--ssl-ca={}", path("ca.pem")),
        ],
    );
    let mut client = mysql::client(&server, "mysql").unwrap();
    client.query_drop("CREATE USER 'certified'@'%' REQUIRE SUBJECT '/CN=certified'").unwrap();
    client.query_drop("GRANT ALL ON *.* TO 'certified'@'%'").unwrap();
    let connect = |rest: &str| {
        let url = with_database(&format!("mysql://certified@{rest}"), "ids");
        mysql::target_at(&url, StorePassword::None)
    };
    check_client(
        &certificates,
        connect,
        |target| Box::new(on_mysql::ENGINE.open(target)),
        server.port,
    );
}

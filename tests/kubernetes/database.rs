//! A database as in a cluster: with a name that only DNS resolves, and a certificate from its owner's authority.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;

use leafd_tests::servers::{DATABASE, Postgres, Server as _, USER};
use tempfile::TempDir;

/// The name in the certificate.
const NAME: &str = "db.leafd.test";

/// A name that DNS resolves too, but that is not in the certificate.
const OTHER_NAME: &str = "other.leafd.test";

/// A PostgreSQL, its authority, and the only name server that knows it.
pub struct Database {
    /// The server.
    pub server: Postgres,
    folder: TempDir,
    names: Names,
}

impl Database {
    /// A database without tables.
    pub fn new() -> Database {
        let folder = tempfile::tempdir().unwrap();
        let script = format!(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
                 -subj /CN=authority -keyout ca.key -out ca.pem
             openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=server \
                 -keyout server.key -out server.csr
             echo subjectAltName=DNS:{NAME} >names
             openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
                 -extfile names -out server.pem
             chown postgres server.key
             chmod 755 ."
        );
        let made = Command::new("sh").args(["-ec", &script]).current_dir(folder.path()).output();
        let made = made.unwrap();
        assert!(made.status.success(), "{made:?}");
        let file = |name: &str| folder.path().join(name).display().to_string();
        let server = Postgres::empty(&[
            "ssl=on",
            &format!("ssl_cert_file={}", file("server.pem")),
            &format!("ssl_key_file={}", file("server.key")),
        ]);
        let names = Names::serve();
        std::fs::write(
            folder.path().join("resolv.conf"),
            format!("nameserver {}\n", names.address),
        )
        .unwrap();
        Database { server, folder, names }
    }

    /// Its host, and the part of a URL that follows, up to the parameters.
    pub fn address(&self) -> String {
        format!("{NAME}:{}/{DATABASE}", self.server.port())
    }

    /// Its URL with the right name, and these parameters.
    pub fn url(&self, parameters: &str) -> String {
        format!("postgres://{USER}@{}?{parameters}", self.address())
    }

    /// Its URL with a name that its certificate doesn't contain.
    pub fn other_url(&self, parameters: &str) -> String {
        self.url(parameters).replace(NAME, OTHER_NAME)
    }

    /// The authority's certificate.
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// The file that directs look-ups to its name server.
    pub fn resolv_conf(&self) -> PathBuf {
        self.folder.path().join("resolv.conf")
    }

    /// Whether its name server has answered anything.
    pub fn looked_up(&self) -> bool {
        self.names.asked.exists()
    }
}

/// A name server on a separate loopback address.
struct Names {
    address: Ipv4Addr,
    /// A file that exists once it has answered.
    asked: PathBuf,
    _folder: TempDir,
    _thread: JoinHandle<()>,
}

impl Names {
    fn serve() -> Names {
        static COUNT: AtomicU8 = AtomicU8::new(1);
        let [high, low] = (std::process::id() as u16).to_be_bytes();
        let address = Ipv4Addr::new(127, high, low, COUNT.fetch_add(1, Ordering::Relaxed));
        let socket = UdpSocket::bind((address, 53)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let asked = folder.path().join("asked");
        let thread = std::thread::spawn({
            let asked = asked.clone();
            move || {
                let mut bytes = [0; 512];
                // It ends with the tests.
                while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                    if let Some(answer) = answer(&bytes[..length]) {
                        let _ = std::fs::write(&asked, "");
                        let _ = socket.send_to(&answer, from);
                    }
                }
            }
        });
        Names { address, asked, _folder: folder, _thread: thread }
    }
}

/// The answer to a DNS query: 127.0.0.1 for the two names' IPv4 address, and nothing otherwise.
fn answer(question: &[u8]) -> Option<Vec<u8>> {
    const HEADER: usize = 12;
    let (mut at, mut labels) = (HEADER, Vec::new());
    while let length @ 1.. = usize::from(*question.get(at)?) {
        labels.push(String::from_utf8_lossy(question.get(at + 1..=at + length)?).into_owned());
        at += 1 + length;
    }
    // The end of the name, then type and class: A is 1, IN is 1.
    let asked = question.get(at + 1..at + 5)?;
    let known = [NAME, OTHER_NAME].contains(&&*labels.join("."));
    let found = known && asked == [0, 1, 0, 1];
    let mut answer = question[..2].to_vec();
    // An answer, with recursion; no error, or no such name.
    answer.extend([0x81, if known { 0x80 } else { 0x83 }]);
    answer.extend([0, 1, 0, u8::from(found), 0, 0, 0, 0]);
    answer.extend(&question[HEADER..at + 5]);
    if found {
        // The name as in the question, type, class, 60 s, four bytes.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    }
    Some(answer)
}

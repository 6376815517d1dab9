//! The path to a server: its name, its port, and its certificate.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use leafd_checkup::Report;

use crate::config::{Config, Endpoint, NetworkUrl, StoreSpec, StoreUrl};
use crate::health::Remedies;

/// Whether at least one of a store's servers accepts connections.
pub fn check(
    report: &mut Report,
    config: &Config,
    spec: &StoreSpec,
    url: &NetworkUrl,
    remedies: &Remedies,
) -> bool {
    let within = config.store_connect_timeout;
    let usable = url.endpoints.iter().filter(|endpoint| match endpoint {
        Endpoint::Unix(path, port) => check_unix(report, &socket_of(spec, path, *port)),
        Endpoint::Tcp(host, port) => match check_tcp(report, host, *port, within) {
            None => false,
            Some(at) => check_certificate(report, spec, url, host, at, within, remedies),
        },
    });
    usable.count() > 0
}

/// Whether a host's name resolves and its port is open. Returns the address.
pub fn check_tcp(
    report: &mut Report,
    host: &str,
    port: u16,
    within: Duration,
) -> Option<SocketAddr> {
    let addresses = match resolve(host, port, within) {
        Ok(addresses) => addresses,
        Err(words) => {
            report.failed(
                "name",
                format!("{host} can't be resolved: {words}"),
                "correct the name in the URL, or see to the host's resolver (/etc/hosts, /etc/resolv.conf)",
            );
            return None;
        }
    };
    if host.parse::<IpAddr>().is_err() {
        let shown: Vec<String> = addresses.iter().map(|at| at.ip().to_string()).collect();
        report.ok("name", format!("{host} is {}", shown.join(", ")));
    }
    let mut causes = Vec::new();
    for at in addresses {
        match TcpStream::connect_timeout(&at, within) {
            Ok(_) => {
                report.ok("port", format!("{at} accepts connections"));
                return Some(at);
            }
            Err(error) => causes.push(format!("{at}: {error}")),
        }
    }
    report.failed(
        "port",
        causes.join("; "),
        "see that the server runs and listens there, that the port is the right one, and that no firewall is in between",
    );
    None
}

/// The system's resolver has time limits of its own, and long ones.
fn resolve(host: &str, port: u16, within: Duration) -> Result<Vec<SocketAddr>, String> {
    let (send, receive) = mpsc::channel();
    let host = host.to_owned();
    std::thread::spawn(move || {
        let found = (host.as_str(), port).to_socket_addrs();
        let found = found.map(Iterator::collect).map_err(|error| error.to_string());
        // If this took too long, the receiver is gone.
        let _ = send.send(found);
    });
    match receive.recv_timeout(within) {
        Ok(Ok(found)) if Vec::is_empty(&found) => Err("it has no address".to_owned()),
        Ok(found) => found,
        Err(_) => Err(format!("no answer within {within:?} (store_connect_timeout)")),
    }
}

fn check_unix(report: &mut Report, path: &Path) -> bool {
    match UnixStream::connect(path) {
        Ok(_) => {
            report.ok("port", format!("{} accepts connections", path.display()));
            true
        }
        Err(error) => {
            report.failed(
                "port",
                format!("{}: {error}", path.display()),
                "see that the server runs and has its socket there, and that leafd's user may connect to it",
            );
            false
        }
    }
}

fn socket_of(spec: &StoreSpec, path: &Path, port: u16) -> PathBuf {
    match spec.url {
        StoreUrl::Postgres(_) => path.join(format!(".s.PGSQL.{port}")),
        _ => path.to_owned(),
    }
}

/// Whether the server's certificate is trusted, or none is required.
#[cfg(feature = "postgres")]
fn check_certificate(
    report: &mut Report,
    spec: &StoreSpec,
    url: &NetworkUrl,
    host: &str,
    at: SocketAddr,
    within: Duration,
    remedies: &Remedies,
) -> bool {
    use super::tls;
    use std::time::SystemTime;
    /// A certificate that expires sooner is worth a warning.
    const EXPIRES_SOON: Duration = Duration::from_secs(14 * 86_400);
    let Some(protection) = &url.tls else {
        if !at.ip().is_loopback() {
            let text = format!(
                "{at}: the connection is not protected: others on the way can read and change it"
            );
            report.warning(
                "certificate",
                text,
                "remove sslmode=disable from the URL, and set TLS up on the server",
            );
        }
        return true;
    };
    let shown = match tls::look(&spec.url, protection, host, at, within) {
        Ok(shown) => shown,
        Err(words) => {
            let remedy = "see that the server offers TLS (sslmode=disable in the URL is plain text), and that the files which the URL \
                          names can be read";
            report.failed("certificate", format!("{at}: {words}"), remedy);
            return false;
        }
    };
    let authority = remedies.authority_of(spec);
    if let Some((text, remedy)) = tls::fault(&shown.judged, host, &authority) {
        report.failed("certificate", format!("{at}: {text}"), remedy);
        return false;
    }
    let left = shown.until.and_then(|until| until.duration_since(SystemTime::now()).ok());
    let until = left.map_or(String::new(), |left| {
        format!(" for another {}", leafd_core::health::duration(crate::clock::millis(left)))
    });
    let text = format!("{at}: it is from {authority}, for {host}, and holds{until}");
    match left {
        Some(left) if left < EXPIRES_SOON => {
            report.warning("certificate", text, "give the server a new one before it expires");
        }
        _ => report.ok("certificate", text),
    }
    true
}

/// This program was built without the certificate check. The login checks certificates all the
/// same.
#[cfg(not(feature = "postgres"))]
fn check_certificate(
    _: &mut Report,
    _: &StoreSpec,
    _: &NetworkUrl,
    _: &str,
    _: SocketAddr,
    _: Duration,
    _: &Remedies,
) -> bool {
    true
}

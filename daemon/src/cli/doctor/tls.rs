//! The server's certificate. Begins a protected connection as the store would, and keeps what the server shows even if
//! it is refused.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme,
};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use crate::config::{StoreUrl, Tls};

/// What a server showed.
#[derive(Debug)]
pub struct Shown {
    /// When its certificate expires, if that can be read.
    pub until: Option<SystemTime>,
    /// Whether it is trusted for the name.
    pub judged: Result<(), Error>,
}

/// PostgreSQL's request for TLS: the length, and the number of the request.
const POSTGRES_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// MySQL's client capability flags: protocol 4.1, TLS, and long logins.
const MYSQL_CAPABILITIES: u32 = 0x0000_0200 | 0x0000_0800 | 0x0000_8000;

/// The most that is read of a MySQL server's first packet.
const MYSQL_GREETING_MAX: usize = 4_096;

/// Begins a protected connection, then closes it.
///
/// # Errors
/// The server didn't answer as expected, or the authorities' files can't be used.
pub fn look(
    url: &StoreUrl,
    tls: &Tls,
    host: &str,
    at: SocketAddr,
    within: Duration,
) -> Result<Shown, String> {
    let words = |error: io::Error| error.to_string();
    let mut stream = TcpStream::connect_timeout(&at, within).map_err(words)?;
    stream.set_read_timeout(Some(within)).map_err(words)?;
    stream.set_write_timeout(Some(within)).map_err(words)?;
    let offered = match url {
        StoreUrl::Mysql(_) => ask_mysql(&mut stream),
        _ => ask_postgres(&mut stream),
    };
    if !offered.map_err(|error| format!("it doesn't answer as such a server: {error}"))? {
        return Err("it offers no TLS".to_owned());
    }
    let roots = crate::store::postgres::trusted_roots(tls)?;
    let provider = Arc::new(ring::default_provider());
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|error| format!("nobody is trusted: {error}"))?;
    let witness = Arc::new(Witness { inner, shown: Mutex::default() });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&witness) as _)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let mut connection =
        ClientConnection::new(Arc::new(config), name).map_err(|error| error.to_string())?;
    let ended = connection.complete_io(&mut stream);
    let shown = witness.shown.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (shown, ended) {
        (Some(shown), _) => Ok(shown),
        (None, Err(error)) => Err(format!("the handshake failed: {error}")),
        (None, Ok(_)) => Err("it showed no certificate".to_owned()),
    }
}

/// Whether a PostgreSQL server accepts TLS.
fn ask_postgres(stream: &mut TcpStream) -> io::Result<bool> {
    stream.write_all(&POSTGRES_REQUEST)?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    match answer {
        [b'S'] => Ok(true),
        [b'N'] => Ok(false),
        _ => Err(io::Error::other("an unknown answer to the request for TLS")),
    }
}

/// Whether a MySQL server accepts TLS. It speaks first, and its flags tell.
fn ask_mysql(stream: &mut TcpStream) -> io::Result<bool> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
    if length > MYSQL_GREETING_MAX {
        return Err(io::Error::other("its first packet is too large"));
    }
    let mut greeting = vec![0; length];
    stream.read_exact(&mut greeting)?;
    // Version byte, the server's version and a zero, connection id, eight bytes of challenge, a zero, the flags.
    let version = greeting.iter().skip(1).position(|byte| *byte == 0).map(|at| at + 2);
    let flags = version.and_then(|end| greeting.get(end + 13..end + 15));
    let Some(flags) = flags else {
        return Err(io::Error::other(String::from_utf8_lossy(&greeting).into_owned()));
    };
    if u16::from_le_bytes([flags[0], flags[1]]) & 0x0800 == 0 {
        return Ok(false);
    }
    let mut request = vec![32, 0, 0, 1];
    request.extend(MYSQL_CAPABILITIES.to_le_bytes());
    request.extend((1_u32 << 24).to_le_bytes());
    // utf8mb4, and 23 unused bytes.
    request.push(45);
    request.extend([0; 23]);
    stream.write_all(&request)?;
    Ok(true)
}

/// Judges as the store's connections do, and keeps what it was shown.
#[derive(Debug)]
struct Witness {
    inner: Arc<WebPkiServerVerifier>,
    shown: Mutex<Option<Shown>>,
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let judged = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        // The earliest expiry in the server's chain.
        let chain = std::iter::once(end_entity).chain(intermediates);
        let until = chain.filter_map(until).min();
        let shown = Shown { until, judged: judged.as_ref().map(|_| ()).map_err(Error::clone) };
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown);
        judged
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// When a certificate expires.
fn until(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let parsed = Certificate::from_der(certificate).ok()?;
    let end = parsed.tbs_certificate.validity.not_after.to_unix_duration();
    Some(UNIX_EPOCH + end)
}

/// What is wrong with a certificate, and what to do; `None` if it is trusted.
pub fn fault(judged: &Result<(), Error>, host: &str, authority: &str) -> Option<(String, String)> {
    let Err(error) = judged else { return None };
    let Error::InvalidCertificate(why) = error else {
        return Some((error.to_string(), "see that both sides can agree on TLS".to_owned()));
    };
    Some(match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => (
            "the server's certificate has expired".to_owned(),
            "give the server a new certificate and have it read it; leafd tries again by itself".to_owned(),
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => (
            "the server's certificate doesn't hold yet".to_owned(),
            "see that the clocks of this host and of who made the certificate are right".to_owned(),
        ),
        CertificateError::UnknownIssuer => (
            format!("the server's certificate isn't from {authority}"),
            "name the authority's certificate with sslrootcert in the URL, and have the server show the chain up to it"
                .to_owned(),
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
            format!("the server's certificate isn't for the name {host:?}"),
            "use a name in the URL that the certificate has, or give the server one with this name".to_owned(),
        ),
        other => (
            format!("the server's certificate is refused: {other:?}"),
            "give the server another certificate".to_owned(),
        ),
    })
}

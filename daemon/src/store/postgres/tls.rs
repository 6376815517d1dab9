//! Decides which certificates encrypted connections trust.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::socket::ServerSocket;
use crate::config::{Endpoint, Tls};

/// Encrypts a connection to a server whose certificate and name it verifies.
///
/// # Errors
/// A text that names the file that can't be used, and says why.
pub(super) fn connector(
    tls: &Tls,
    endpoint: &Endpoint,
) -> Result<impl TlsConnect<ServerSocket, Stream: Send> + use<>, String> {
    let name = match endpoint {
        Endpoint::Tcp(host, _) => host.as_str(),
        Endpoint::Unix(..) => "",
    };
    let mut connector = MakeRustlsConnect::new(client_config(tls)?);
    let connector = MakeTlsConnect::<ServerSocket>::make_tls_connect(&mut connector, name);
    connector.map_err(|cause| format!("{name} can't be verified: {cause}"))
}

fn client_config(tls: &Tls) -> Result<ClientConfig, String> {
    let roots = trusted_roots(tls)?;
    // The provider is explicit, because the default panics if the program has none or two.
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|cause| format!("TLS can't be used: {cause}"))?
        .with_root_certificates(roots);
    let Some((certificate, key)) = &tls.client else {
        return Ok(builder.with_no_client_auth());
    };
    let key_read = PrivateKeyDer::from_pem_file(key).map_err(|cause| unusable(key, &cause))?;
    builder
        .with_client_auth_cert(certificates(certificate)?, key_read)
        .map_err(|cause| unusable(certificate, &cause))
}

/// The certificates that may sign a server's certificate.
///
/// # Errors
/// A text that names the file that can't be used, and says why.
fn trusted_roots(tls: &Tls) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match &tls.root_certificates {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|cause| unusable(path, &cause))?;
            }
        }
        None => {
            // One unreadable certificate is no reason to trust none of the others.
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err(format!(
                    "the system trusts no certificates ({}); install ca-certificates or name a file with sslrootcert",
                    found.errors.first().map_or("none found".to_owned(), ToString::to_string)
                ));
            }
        }
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).map_err(|cause| unusable(path, &cause))?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|cause| unusable(path, &cause))?;
    if all.is_empty() {
        return Err(unusable(path, &"no PEM certificate in it"));
    }
    Ok(all)
}

fn unusable(path: &Path, cause: &dyn Display) -> String {
    format!("{} can't be used: {cause}", path.display())
}

//! TLS for connections to PostgreSQL: the trusted certificates.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::url::Tls;

/// Builds the connector. It verifies the certificate and the host name of the server.
///
/// # Errors
/// If no certificate authority can be loaded. The text names the file or the system's store.
pub(super) fn connector(tls: &Tls) -> Result<MakeRustlsConnect, String> {
    let mut roots = RootCertStore::empty();
    match tls {
        // The connector is not used. Without certificate authorities it would reject every server.
        Tls::Off => {}
        Tls::Verified(Some(path)) => load_authorities(&mut roots, path)?,
        Tls::Verified(None) => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err("this system has no certificates of authorities: name a file with sslrootcert".into());
            }
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// Adds the certificates of a PEM file.
fn load_authorities(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let wrong = |why: String| format!("sslrootcert {}: {why}", path.display());
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))? {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() { Err(wrong("it contains no certificate".into())) } else { Ok(()) }
}

//! TLS of the server's own ports: the certificate, which can be replaced while connections are served.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use crate::reloadable::Reloadable;

/// The files of the certificate and its key, in PEM: `server.tls_certificate` and `server.tls_key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those of the authorities between it and a known one.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// The certificate that new connections get.
#[derive(Debug)]
pub struct ServerCertificate(Reloadable<CertifiedKey>);

impl ServerCertificate {
    /// Reads the files.
    ///
    /// # Errors
    /// Names the file that cannot be read or has no certificate or key, or says that the two do not fit.
    pub fn load(files: &TlsFiles) -> anyhow::Result<Self> {
        Self::read(files).map(|key| Self(Reloadable::new(key)))
    }

    /// Reads a certificate and its key, to [`replace`](Self::replace) those in use.
    ///
    /// # Errors
    /// As in [`load`](Self::load).
    pub fn read(files: &TlsFiles) -> anyhow::Result<CertifiedKey> {
        let chain = certificates(&files.certificate)
            .with_context(|| format!("{} (server.tls_certificate)", files.certificate.display()))?;
        let of_key = || format!("{} (server.tls_key)", files.key.display());
        let key = PrivateKeyDer::from_pem_file(&files.key).with_context(of_key)?;
        let key = aws_lc_rs::sign::any_supported_type(&key).with_context(of_key)?;
        let certified = CertifiedKey::new(chain, key);
        certified.keys_match().context("server.tls_certificate and server.tls_key do not fit")?;
        Ok(certified)
    }

    /// New connections get this certificate.
    pub fn replace(&self, key: CertifiedKey) {
        self.0.set(key);
    }

    /// Makes the handshakes of connections.
    ///
    /// # Errors
    /// If the cryptography of this build lacks a version of TLS.
    pub fn acceptor(self: Arc<Self>) -> anyhow::Result<TlsAcceptor> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(self);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// When the certificate in a file expires, in Unix seconds; `None` if it cannot be read.
pub fn file_expires_at(file: &Path) -> Option<u64> {
    expiry_of(certificates(file).ok()?.first()?)
}

/// When a certificate expires, in Unix seconds; `None` if it cannot be read.
pub fn expires_at(key: &CertifiedKey) -> Option<u64> {
    expiry_of(key.end_entity_cert().ok()?)
}

fn expiry_of(certificate: &CertificateDer<'_>) -> Option<u64> {
    let certificate = Certificate::from_der(certificate).ok()?;
    Some(certificate.tbs_certificate.validity.not_after.to_unix_duration().as_secs())
}

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.get())
    }
}

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let chain = CertificateDer::pem_file_iter(file)?.collect::<Result<Vec<_>, _>>()?;
    ensure!(!chain.is_empty(), "it contains no certificate");
    Ok(chain)
}

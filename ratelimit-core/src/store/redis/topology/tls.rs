//! TLS of connections: what is trusted, the certificate of the client, and whose cryptography.
//!
//! The provider of the cryptography is handed to each configuration. None is installed for the process, which
//! an application may do before or after.

use std::io;
use std::sync::Arc;

use redis::{RedisError, RedisResult};
use rustls::client::ResolvesClientCert;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::store::redis::error::RedisConfigError;

/// What the builder was given, in PEM.
#[derive(Clone, Default)]
pub(in crate::store::redis) struct TlsSettings {
    /// Authorities, instead of those that the system trusts.
    pub(in crate::store::redis) root: Option<Vec<u8>>,
    /// The client's chain of certificates, its own first, and the key of its own.
    pub(in crate::store::redis) client: Option<(Vec<u8>, Vec<u8>)>,
}

/// Makes connections over TLS.
#[derive(Clone)]
pub(super) struct Tls {
    provider: Arc<CryptoProvider>,
    /// `None` for the authorities that the system trusts, which each connection reads: they change.
    roots: Option<Arc<RootCertStore>>,
    client: Option<Arc<dyn ResolvesClientCert>>,
}

impl Tls {
    pub(super) fn new(settings: &TlsSettings) -> Result<Self, RedisConfigError> {
        let provider = CryptoProvider::get_default().cloned().or_else(built_in_provider);
        let provider = provider.ok_or(RedisConfigError::NoCryptoProvider)?;
        let roots = settings.root.as_deref().map(roots).transpose()?;
        let client =
            settings.client.as_ref().map(|(chain, key)| client(&provider, chain, key)).transpose()?;
        Ok(Self { provider, roots, client })
    }

    /// Makes a connection over a stream to a host.
    pub(super) async fn connect(&self, host: &str, stream: TcpStream) -> RedisResult<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let config = self.config().await.map_err(RedisError::from)?;
        Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
    }

    async fn config(&self) -> io::Result<ClientConfig> {
        let roots = match &self.roots {
            Some(roots) => Arc::clone(roots),
            None => spawn_blocking(system_roots).await.map_err(io::Error::other)??,
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
        let builder = builder.with_root_certificates(roots);
        Ok(match &self.client {
            Some(client) => builder.with_client_cert_resolver(Arc::clone(client)),
            None => builder.with_no_client_auth(),
        })
    }
}

/// The provider that this crate brings; without one the application has to install its own.
fn built_in_provider() -> Option<Arc<CryptoProvider>> {
    #[cfg(feature = "redis-tls")]
    let provider = Some(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    #[cfg(not(feature = "redis-tls"))]
    let provider = None;
    provider
}

/// The authorities that the system trusts.
fn system_roots() -> io::Result<Arc<RootCertStore>> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let cause = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
        return Err(io::Error::other(format!("the system trusts no authority for certificates{cause}")));
    }
    Ok(Arc::new(roots))
}

/// The certificates of a PEM text; at least one.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
    (!certificates.is_empty()).then_some(certificates)
}

fn roots(pem: &[u8]) -> Result<Arc<RootCertStore>, RedisConfigError> {
    let invalid = RedisConfigError::Setting {
        setting: "root_certificate_pem",
        expected: "certificates in PEM: `-----BEGIN CERTIFICATE-----`",
    };
    let mut roots = RootCertStore::empty();
    let is_valid =
        certificates(pem).is_some_and(|found| found.into_iter().all(|root| roots.add(root).is_ok()));
    if is_valid { Ok(Arc::new(roots)) } else { Err(invalid) }
}

/// Presents these certificates, if the key is that of the first. No error repeats what was given.
fn client(
    provider: &CryptoProvider,
    chain: &[u8],
    key: &[u8],
) -> Result<Arc<dyn ResolvesClientCert>, RedisConfigError> {
    let expected = |expected| RedisConfigError::Setting { setting: "client_certificate_pem", expected };
    let chain = certificates(chain).ok_or(expected(
        "given first the certificates in PEM, `-----BEGIN CERTIFICATE-----`, that of the client at the top",
    ))?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .ok()
        .and_then(|key| provider.key_provider.load_private_key(key).ok());
    let key = key.ok_or(expected(
        "given second the private key in PEM, without a passphrase: `-----BEGIN PRIVATE KEY-----`",
    ))?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        // A provider may be unable to tell.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
            Ok(Arc::new(SingleCertAndKey::from(certified)))
        }
        Err(_) => Err(expected("given the private key of the first certificate")),
    }
}

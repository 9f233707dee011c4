//! TLS of connections: trusted authorities, the certificate of the client, and the provider of cryptography.
//!
//! The provider is passed to each configuration. This crate installs none for the process, which an
//! application may do before or after.

use std::borrow::Cow;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fs, io};

use parking_lot::Mutex;
use redis::RedisResult;
use rustls::client::ResolvesClientCert;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::ErrorChain;
use crate::observe::log::{help, is_first};
use crate::store::redis::blocking::BlockingCalls;
use crate::store::redis::error::RedisConfigError;
use crate::store::redis::timeouts::Timeouts;

/// A text in PEM, or the file that has it.
pub(in crate::store::redis) enum Pem {
    Text(Vec<u8>),
    File(PathBuf),
}

impl Pem {
    fn read(&self) -> Result<Cow<'_, [u8]>, RedisConfigError> {
        match self {
            Self::Text(text) => Ok(Cow::Borrowed(text)),
            Self::File(path) => {
                let failed = |source| RedisConfigError::File { path: path.clone(), source };
                fs::read(path).map(Cow::Owned).map_err(failed)
            }
        }
    }

    /// The name of the setting: `text` for a text, `file` for a file.
    const fn setting(&self, text: &'static str, file: &'static str) -> &'static str {
        match self {
            Self::Text(_) => text,
            Self::File(_) => file,
        }
    }
}

/// Settings of the builder.
#[derive(Clone, Default)]
pub(in crate::store::redis) struct TlsSettings {
    /// Authorities that are trusted instead of the system's.
    pub(in crate::store::redis) root: Option<Arc<Pem>>,
    /// The client's chain of certificates, with its own first, and the key of its own.
    pub(in crate::store::redis) client: Option<Arc<(Pem, Pem)>>,
}

/// Makes connections over TLS.
#[derive(Clone)]
pub(super) struct Tls(Arc<Inner>);

struct Inner {
    settings: TlsSettings,
    provider: Arc<CryptoProvider>,
    /// The last certificates without a mistake. Each attempt to connect loads them again.
    last: Mutex<Certificates>,
    loading: BlockingCalls<(), Handshake>,
}

#[derive(Default)]
struct Certificates {
    roots: Option<Arc<RootCertStore>>,
    client: Option<Arc<dyn ResolvesClientCert>>,
}

impl Tls {
    pub(super) fn new(settings: TlsSettings, timeouts: &Timeouts) -> Result<Self, RedisConfigError> {
        let provider = CryptoProvider::get_default().cloned().or_else(built_in_provider);
        let provider = provider.ok_or(RedisConfigError::NoCryptoProvider)?;
        let last = Certificates {
            roots: settings.root.as_deref().map(roots).transpose()?,
            client: settings.client.as_deref().map(|pair| client(&provider, pair)).transpose()?,
        };
        let loading = BlockingCalls::new(timeouts);
        Ok(Self(Arc::new(Inner { settings, provider, last: Mutex::new(last), loading })))
    }

    /// Loads the trusted authorities and the certificate of the client, for one attempt to connect.
    pub(super) async fn handshake(&self) -> RedisResult<Handshake> {
        let inner = Arc::clone(&self.0);
        let read = move || inner.read().map_err(Into::into);
        self.0.loading.result(&(), "the loading of certificates", read).await
    }
}

impl Inner {
    fn read(&self) -> io::Result<Handshake> {
        let mut last = self.last.lock();
        let TlsSettings { root, client: pair } = &self.settings;
        let roots = match root {
            Some(pem) => or_last(roots(pem), &mut last.roots)?,
            None => or_last(system_roots(), &mut last.roots)?,
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
        let builder = builder.with_root_certificates(roots);
        let config = match pair {
            Some(pair) => {
                builder.with_client_cert_resolver(or_last(client(&self.provider, pair), &mut last.client)?)
            }
            None => builder.with_no_client_auth(),
        };
        Ok(Handshake(Arc::new(config)))
    }
}

/// The value that was read. After a mistake, the last good value.
fn or_last<T: Clone, E: Error + Send + Sync + 'static>(
    read: Result<T, E>,
    last: &mut Option<T>,
) -> io::Result<T> {
    match (read, &*last) {
        (Ok(read), _) => Ok(last.insert(read).clone()),
        (Err(mistake), None) => Err(io::Error::other(mistake)),
        (Err(mistake), Some(last)) => {
            let mistake = ErrorChain(&mistake).to_string();
            if is_first("certificate-kept", &mistake) {
                tracing::warn!(
                    error = mistake,
                    help = help("certificate-kept"),
                    "a certificate cannot be read again; connections to Redis are made with the last good one"
                );
            }
            Ok(last.clone())
        }
    }
}

/// Settings of TLS for one attempt to connect.
#[derive(Clone)]
pub(super) struct Handshake(Arc<ClientConfig>);

impl Handshake {
    /// Makes a connection over a stream to a host.
    pub(super) async fn with(&self, host: &str, stream: TcpStream) -> RedisResult<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(TlsConnector::from(Arc::clone(&self.0)).connect(name, stream).await?)
    }
}

/// The provider that this crate includes. Without it the application has to install one.
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

/// The certificates of a PEM text, at least one; otherwise `None`.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
    (!certificates.is_empty()).then_some(certificates)
}

fn roots(pem: &Pem) -> Result<Arc<RootCertStore>, RedisConfigError> {
    let invalid = RedisConfigError::Setting {
        setting: pem.setting("root_certificate_pem", "root_certificate_file"),
        expected: "certificates in PEM: `-----BEGIN CERTIFICATE-----`",
    };
    let mut roots = RootCertStore::empty();
    let is_valid =
        certificates(&pem.read()?).is_some_and(|found| found.into_iter().all(|root| roots.add(root).is_ok()));
    if is_valid { Ok(Arc::new(roots)) } else { Err(invalid) }
}

/// Presents these certificates, if the key belongs to the first. No error repeats the texts or paths.
fn client(
    provider: &CryptoProvider,
    (chain, key): &(Pem, Pem),
) -> Result<Arc<dyn ResolvesClientCert>, RedisConfigError> {
    let setting = chain.setting("client_certificate_pem", "client_certificate_files");
    let expected = |expected| RedisConfigError::Setting { setting, expected };
    let chain = certificates(&chain.read()?).ok_or(expected(
        "given first the certificates in PEM, `-----BEGIN CERTIFICATE-----`, that of the client at the top",
    ))?;
    let key = PrivateKeyDer::from_pem_slice(&key.read()?)
        .ok()
        .and_then(|key| provider.key_provider.load_private_key(key).ok());
    let key = key.ok_or(expected(
        "given second the private key in PEM, without a passphrase: `-----BEGIN PRIVATE KEY-----`",
    ))?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        // A provider may be unable to compare them.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
            Ok(Arc::new(SingleCertAndKey::from(certified)))
        }
        Err(_) => Err(expected("given the private key of the first certificate")),
    }
}

//! TLS: trusted certificates and the crypto provider.

use crate::store::redis::error::RedisConfigError;

/// Certificates that are trusted to sign those of servers.
#[derive(Clone, Default)]
pub(in crate::store::redis) struct TlsRoots {
    /// In PEM, instead of those that the system trusts.
    #[cfg(feature = "redis-tls")]
    pub(in crate::store::redis) root: Option<Vec<u8>>,
}

#[cfg(feature = "redis-tls")]
impl TlsRoots {
    pub(super) fn certificates(&self) -> Option<redis::TlsCertificates> {
        let root_cert = Some(self.root.clone()?);
        Some(redis::TlsCertificates { client_tls: None, root_cert })
    }
}

/// Whether the URL's scheme is one with TLS.
pub(in crate::store::redis) fn is_tls(url: &str) -> bool {
    url.starts_with("rediss") || url.starts_with("valkeys")
}

/// Makes sure that the client has a crypto provider for TLS.
#[cfg(feature = "redis-tls")]
#[allow(clippy::unnecessary_wraps, reason = "without TLS it is an error")]
pub(super) fn install_crypto_provider() -> Result<(), RedisConfigError> {
    // Keeps the provider that the application has installed, if any.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(())
}

#[cfg(not(feature = "redis-tls"))]
pub(super) fn install_crypto_provider() -> Result<(), RedisConfigError> {
    let problem = "TLS is not built in; turn on the feature `redis-tls`".to_owned();
    Err(RedisConfigError::Url { problem })
}

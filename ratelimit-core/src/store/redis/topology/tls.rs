//! TLS: what it needs, and who may vouch for a server.

#[cfg(not(feature = "redis-tls"))]
use super::url::invalid;
use crate::error::ConfigError;

/// Who may vouch for a server, over TLS.
#[derive(Clone, Default)]
pub(in crate::store::redis) struct Trust {
    /// Certificates in PEM, instead of those that the system trusts.
    #[cfg(feature = "redis-tls")]
    pub(in crate::store::redis) root: Option<Vec<u8>>,
}

#[cfg(feature = "redis-tls")]
impl Trust {
    pub(super) fn certificates(&self) -> Option<redis::TlsCertificates> {
        let root_cert = Some(self.root.clone()?);
        Some(redis::TlsCertificates { client_tls: None, root_cert })
    }
}

/// Whether this URL asks for TLS.
pub(in crate::store::redis) fn is_tls(url: &str) -> bool {
    url.starts_with("rediss") || url.starts_with("valkeys")
}

/// Makes sure that the client has cryptography to speak TLS with.
#[cfg(feature = "redis-tls")]
#[allow(clippy::unnecessary_wraps, reason = "without TLS it is an error")]
pub(super) fn secure() -> Result<(), ConfigError> {
    // An application that has chosen one keeps it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(())
}

#[cfg(not(feature = "redis-tls"))]
pub(super) fn secure() -> Result<(), ConfigError> {
    Err(invalid("TLS is not built in; turn on the feature `redis-tls`"))
}

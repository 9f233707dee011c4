//! Without TLS: the same names, and never a connection.

use std::convert::Infallible;

use redis::RedisResult;
use tokio::net::TcpStream;

use crate::store::redis::error::RedisConfigError;

/// What the builder was given: nothing.
#[derive(Clone, Default)]
pub(in crate::store::redis) struct TlsSettings {}

/// Is never made.
#[derive(Clone)]
pub(super) struct Tls(Infallible);

impl Tls {
    pub(super) fn new(_: &TlsSettings) -> Result<Self, RedisConfigError> {
        let problem = "TLS is not built in; turn on the feature `redis-tls`".to_owned();
        Err(RedisConfigError::Url { problem })
    }

    #[allow(clippy::unused_async, reason = "as with the feature")]
    pub(super) async fn connect(&self, _: &str, _: TcpStream) -> RedisResult<TcpStream> {
        match self.0 {}
    }
}

//! User and password that may change: a function gives those of each connection.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use redis::{ErrorKind, RedisConnectionInfo, RedisError, RedisResult};
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};

/// User and password of a connection to Redis, as
/// [`RedisStoreBuilder::credentials`](super::RedisStoreBuilder::credentials) takes them.
#[derive(Clone)]
pub struct RedisCredentials {
    user: Option<String>,
    password: String,
}

impl RedisCredentials {
    /// A user of an access control list, and the password or token.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), password: password.into() }
    }

    /// A password only: the user is that of the URL, by default the one of `requirepass`.
    pub fn password(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into() }
    }

    /// Settings of a connection with these credentials.
    pub(super) fn apply_to(self, settings: RedisConnectionInfo) -> RedisConnectionInfo {
        let settings = settings.set_password(self.password);
        match self.user {
            Some(user) => settings.set_username(user),
            None => settings,
        }
    }
}

impl fmt::Debug for RedisCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCredentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// What the function for credentials returns.
pub(super) type GivenCredentials = Result<RedisCredentials, Box<dyn Error + Send + Sync>>;

pub(super) type CredentialsFunction = dyn Fn() -> GivenCredentials + Send + Sync;

/// The application's function, which may block or panic.
pub(super) struct CredentialsSource {
    function: Arc<CredentialsFunction>,
    /// A call that has not returned: the next attempt to connect waits for it, so that a function that blocks
    /// for ever takes one thread.
    running: Mutex<Option<JoinHandle<GivenCredentials>>>,
}

impl CredentialsSource {
    pub(super) fn new(function: Arc<CredentialsFunction>) -> Self {
        Self { function, running: Mutex::default() }
    }

    /// The credentials of one connection. Given up after a while, the call goes on.
    pub(super) async fn ask(&self) -> RedisResult<RedisCredentials> {
        let mut running = self.running.lock().await;
        let call = running.get_or_insert_with(|| {
            let function = Arc::clone(&self.function);
            spawn_blocking(move || function())
        });
        let result = call.await;
        *running = None;
        drop(running);
        let problem = "the function for credentials failed";
        match result {
            Ok(Ok(credentials)) => Ok(credentials),
            Ok(Err(error)) => Err(RedisError::from((ErrorKind::Client, problem, error.to_string()))),
            Err(_) => Err(RedisError::from((ErrorKind::Client, "the function for credentials has panicked"))),
        }
    }
}

//! User and password that may change: a function returns them for each connection.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use redis::{ErrorKind, RedisConnectionInfo, RedisResult};

use super::blocking::BlockingCalls;
use super::timeouts::Timeouts;

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

    /// A password only: the URL names the user, by default the user of `requirepass`.
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

/// The function for credentials.
pub(super) type CredentialsFunction =
    dyn Fn() -> Result<RedisCredentials, Box<dyn Error + Send + Sync>> + Send + Sync;

/// The application's function, which may block or panic.
pub(super) struct CredentialsSource {
    function: Arc<CredentialsFunction>,
    calls: BlockingCalls<(), RedisCredentials>,
}

impl CredentialsSource {
    pub(super) fn new(function: Arc<CredentialsFunction>, timeouts: &Timeouts) -> Self {
        Self { function, calls: BlockingCalls::new(timeouts) }
    }

    /// The credentials of one connection.
    pub(super) async fn credentials(&self) -> RedisResult<RedisCredentials> {
        let function = Arc::clone(&self.function);
        let problem = "the function for credentials failed";
        let call = move || function().map_err(|error| (ErrorKind::Client, problem, error.to_string()).into());
        self.calls.result(&(), "the function for credentials", call).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_keep_the_user_of_the_url_unless_they_have_one() {
        let url = || RedisConnectionInfo::default().set_username("of-the-url");
        for (credentials, user) in [
            (RedisCredentials::password("s3cret"), "of-the-url"),
            (RedisCredentials::new("own", "s3cret"), "own"),
        ] {
            let settings = credentials.apply_to(url());
            assert_eq!((settings.username(), settings.password()), (Some(user), Some("s3cret")));
        }
    }
}
